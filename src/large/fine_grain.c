/* fine_grain.c: takes blocks out of chunks, and puts them back; bitmaps say which grains are in use. */
#include "large/chunk_search.h"

#include <string.h>

#include "large/user_heap_huge.h"
#include "meta/meta.h"
#include "os/gate.h"
#include "os/lock.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"

enum {
    LOOKS_MAX = 8,  /* chunks that a request searches before it takes a fresh one */
    SWEEPS_MAX = 3, /* the same for short requests; each of them looks at up to LOOKS_MAX others */
    SWEPT_PART = 5, /* a sweep begins in a chunk of which at least a fifth is free */
    SHORT = 64,     /* most grains of a short request */
    OWN_SHIFT = 4,  /* log2 of the bytes of a grain, in a heap of the program */
};

typedef hak_fine_t fine_t;

_Static_assert((HAK_SUPERSLAB_SIZE_MAX >> HAK_FINE_SHIFT) >> (HAK_USER_HEAP_LISTS - 1) == 0,
               "there is a list for the longest chunk");

HAK_LOCK_RANKS(fine_rank, FINE, &hak_user_heap_process.lock, sizeof(hak_lock_t), sizeof(hak_lock_t),
               NULL);

static bool is_process(const hak_user_heap_t *heap) { return heap == &hak_user_heap_process; }

/* ---- lists. All under the lock ---- */

static void link_to_list(hak_user_heap_t *heap, fine_t *fine) {
    fine_t **list = &heap->lists[fine->list = (uint8_t)hak_chunk_list_of(fine->longest)];
    fine->prev = NULL;
    fine->next = *list;
    if (fine->next) fine->next->prev = fine;
    *list = fine;
}

static void unlink_from_list(hak_user_heap_t *heap, fine_t *fine) {
    *(fine->prev ? &fine->prev->next : &heap->lists[fine->list]) = fine->next;
    if (fine->next) fine->next->prev = fine->prev;
}

static void set_longest(hak_user_heap_t *heap, fine_t *fine, size_t longest) {
    fine->longest = (uint32_t)longest;
    if (hak_chunk_list_of(longest) == fine->list) return;
    unlink_from_list(heap, fine);
    link_to_list(heap, fine);
}

/* ---- allocation ---- */

/* True for short requests in heaps of the program: they sweep, and need not find the last hole. */
static bool is_swept(const hak_user_heap_t *heap, const hak_cut_t *request) {
    return !is_process(heap) && request->grains <= SHORT;
}

/* Makes a block of free grains. */
HAK_FAST_PATH void *cut(hak_user_heap_t *heap, fine_t *fine, size_t at, const hak_cut_t *request) {
    const size_t grains = request->grains;
    HAK_ASSERT(at + grains <= fine->grains);
    hak_bits_turn(fine->in_use, at, grains);
    hak_bits_turn(fine->begins, at, 1);
    fine->used += (uint32_t)grains;
    if (fine != heap->current || grains <= SHORT) fine->hint = (uint32_t)(at + grains);
    HAK_ADD_OWNED(&heap->blocks, 1);
    HAK_ADD_OWNED(&heap->bytes, grains << fine->shift);
    char *block = hak_chunk_address(fine, at);
    if (request->zero) memset(block, 0, grains << fine->shift);
    if (request->flight) hak_user_heap_take_off(heap, request->flight, block);
    return block;
}

/* Takes a block from a chunk; NULL if it has no room. Then the chunk's `longest` becomes exact. */
static void *carve(hak_user_heap_t *heap, fine_t *fine, const hak_cut_t *request) {
    const size_t hint = fine == heap->current ? 0 : fine->hint;
    size_t longest = 0, at = hak_chunk_search(fine, hint, fine->grains, request, &longest);
    if (at == fine->grains) at = hak_chunk_search(fine, 0, hint, request, &longest);
    if (at == fine->grains) {
        set_longest(heap, fine, longest);
        return NULL;
    }
    return cut(heap, fine, at, request);
}

/* Searches up to `looks` chunks that may have room. A search in vain makes a chunk's `longest` exact. So even without a
 * bound a chunk is searched in vain only once for each stretch that was freed in it. */
static void *find_room(hak_user_heap_t *heap, const hak_cut_t *request, size_t looks) {
    for (unsigned list = hak_chunk_list_of(request->grains); list < HAK_USER_HEAP_LISTS; list++)
        for (fine_t *fine = heap->lists[list], *behind; fine && looks; fine = behind) {
            behind = fine->next;
            if (fine->longest < request->grains) continue;
            looks--;
            void *block = carve(heap, fine, request);
            if (block) return block;
        }
    return NULL;
}

/* The next chunk to sweep: a fifth of it is free, and it may have room. */
static fine_t *pick(const hak_user_heap_t *heap, size_t grains) {
    size_t looks = LOOKS_MAX;
    for (unsigned list = HAK_USER_HEAP_LISTS; list-- > hak_chunk_list_of(grains);)
        for (fine_t *fine = heap->lists[list]; fine && looks; fine = fine->next, looks--)
            if (fine->longest >= grains && fine->grains - fine->used >= fine->grains / SWEPT_PART)
                return fine;
    return NULL;
}

/* Takes a block of up to 64 grains. A sweep goes through a chunk from its beginning to its end. So it
 * looks at each free stretch once, and finds at least a fifth of the chunk free. Memory that is freed
 * behind it waits for the next sweep. NULL: a fresh chunk is needed. */
static void *sweep(hak_user_heap_t *heap, const hak_cut_t *request) {
    for (unsigned looks = 0; looks < SWEEPS_MAX; looks++) {
        fine_t *fine = heap->current;
        size_t at = fine ? hak_chunk_search_short(fine, request) : 0, longest = 0;
        if (fine && at < fine->grains) return cut(heap, fine, at, request);
        if (fine) {
            hak_chunk_search(fine, 0, fine->grains,
                             &(hak_cut_t){.grains = SIZE_MAX / 2, .align = 1}, &longest);
            set_longest(heap, fine, longest);
        }
        heap->current = pick(heap, request->grains);
        if (!heap->current) break;
        heap->current->hint = 0;
    }
    return NULL;
}

void hak_chunk_set_owner(hak_unit_t *units, unsigned count, uint16_t owner) {
    for (unsigned i = 0; i < count; i++)
        hak_store_release(&units[i].owner, owner); /* partner: each load of an owner */
    hak_region_set_class(units, count, hak_owner_class(owner));
}

void hak_chunk_enter_unit(const hak_user_heap_t *heap, fine_t *fine, hak_unit_t *unit) {
    hak_store_release(&unit->bits,
                      hak_slab_marked((uint64_t *)(void *)fine, HAK_SLAB_CHUNK)); /* partner: F0 */
    hak_store_release(&unit->large, hak_chunk_word(heap));
}

static size_t bitmaps_size(size_t grains) { return 2 * hak_bits_words(grains) * sizeof(uint64_t); }

static void free_record(fine_t *fine) {
    hak_meta_free(fine->in_use, bitmaps_size(fine->grains));
    hak_meta_free(fine, sizeof *fine);
}

/* Makes the record of a chunk without blocks; NULL without memory. */
static fine_t *make_record(unsigned unit_count, unsigned shift) {
    size_t grains = (size_t)unit_count << (HAK_UNIT_SHIFT - shift);
    fine_t *fine = hak_meta_alloc(sizeof *fine);
    if (!fine) return NULL;
    *fine = (fine_t){.in_use = hak_meta_alloc(bitmaps_size(grains)),
                     .longest = (uint32_t)grains,
                     .grains = (uint32_t)grains,
                     .unit_count = (uint8_t)unit_count,
                     .shift = (uint8_t)shift};
    if (fine->in_use) {
        fine->begins = fine->in_use + hak_bits_words(grains);
        memset(fine->in_use, 0, bitmaps_size(grains));
        return fine;
    }
    free_record(fine);
    return NULL;
}

/* Makes a chunk the newest of its heap. */
static void append(hak_user_heap_t *heap, fine_t *fine) {
    fine->epoch = heap->epoch;
    hak_ring_append(&heap->chunks, &fine->age);
}

/* Gives a fresh chunk to the heap, and takes the block out of it. */
static void *enter_chunk(hak_user_heap_t *heap, fine_t *fine, const hak_cut_t *request) {
    HAK_HOLD(&heap->lock);
    fine->is_first = hak_load_relaxed(&heap->committed) == hak_chunk_bytes(fine);
    if (fine->is_first) hak_add_relaxed(&hak_pool_stats.first_units, fine->unit_count);
    for (unsigned i = 0; i < fine->unit_count; i++)
        hak_chunk_enter_unit(heap, fine, &fine->units[i]);
    hak_chunk_set_owner(fine->units, fine->unit_count, HAK_FINE_OWNER);
    link_to_list(heap, fine);
    append(heap, fine);
    void *block = carve(heap, fine, request);
    if (request->grains == fine->grains)
        set_longest(heap, fine, 0); /* full as long as it exists, so nobody searches it */
    else if (is_swept(heap, request))
        heap->current = fine;
    return block;
}

/* Makes a fresh chunk, and takes the block out of it. Inside the gate while the chunk is in no list. */
static void *take_fresh(hak_user_heap_t *heap, unsigned unit_count, unsigned shift,
                        const hak_cut_t *request, size_t *dirty) {
    const size_t bytes = (size_t)unit_count << HAK_UNIT_SHIFT;
    void *block = NULL;
    bool zeroed = false;
    fine_t *fine = make_record(unit_count, shift);
    if (!fine) return NULL;
    hak_gate_enter();
    const bool is_charged = hak_user_heap_charge(heap, bytes);
    fine->units = is_charged ? hak_pool_take(unit_count, &zeroed) : NULL;
    *dirty = zeroed ? 0 : bytes;
    if (fine->units)
        block = enter_chunk(heap, fine, request);
    else
        free_record(fine);
    if (!block && is_charged) hak_user_heap_discharge(heap, bytes);
    hak_gate_leave();
    return block;
}

/* Allocates a block of up to 64 KiB. */
static void *alloc(hak_user_heap_t *heap, unsigned shift, const hak_cut_t *request) {
    size_t dirty;
    hak_lock_acquire(&heap->lock);
    void *block =
        is_swept(heap, request) ? sweep(heap, request) : find_room(heap, request, LOOKS_MAX);
    hak_lock_release(&heap->lock);
    if (HAK_LIKELY(block != NULL)) return block;
    block = take_fresh(heap, is_process(heap) ? hak_superslab_units() : 1, shift, request, &dirty);
    if (HAK_LIKELY(block != NULL)) return block;
    HAK_HOLD(&heap->lock);
    return find_room(heap, request, SIZE_MAX);
}

/* A request in grains of 1 << shift bytes. */
static hak_cut_t request_of(size_t size, size_t align, unsigned shift) {
    return (hak_cut_t){.grains = hak_chunk_grains(size, shift),
                       .align = hak_max(align >> shift, 1)};
}

void *hak_fine_alloc(size_t size, size_t align) {
    const hak_cut_t request = request_of(size, align, HAK_FINE_SHIFT);
    return alloc(&hak_user_heap_process, HAK_FINE_SHIFT, &request);
}

/* ---- from a pointer ---- */

/* Locks the heap of an address, and returns the chunk that contains the address, and its grain. NULL if there is no
 * chunk; *heap is locked in this case, too. */
HAK_FAST_PATH fine_t *lock_and_find(const void *pointer, hak_user_heap_t **heap, size_t *grain) {
    hak_unit_t *unit = hak_unit_of(pointer);
    *heap = hak_chunk_heap(hak_load_acquire(&unit->large));
    if (HAK_UNLIKELY(!*heap)) *heap = &hak_user_heap_process; /* there is no chunk any more */
    hak_lock_acquire(&(*heap)->lock);
    if (!hak_fine_is(unit)) return NULL;
    if (HAK_UNLIKELY(hak_load_relaxed(&unit->large) != hak_chunk_word(*heap))) return NULL;
    fine_t *fine = (fine_t *)(void *)hak_slab_unmarked(hak_slab_bits(unit));
    *grain = (size_t)((const char *)pointer - fine->units[0].base) >> fine->shift;
    return fine;
}

const hak_fine_t *hak_chunk_lock_unit(const hak_unit_t *unit, hak_user_heap_t **heap,
                                      size_t *grain) {
    return lock_and_find(unit->base, heap, grain);
}

/* Takes a chunk out of its heap. The caller then gives the chunk's units back without the lock, inside the gate. */
static void leave_heap(hak_user_heap_t *heap, fine_t *fine) {
    unlink_from_list(heap, fine);
    hak_ring_remove(&heap->chunks, &fine->age);
    if (heap->current == fine) heap->current = NULL;
    HAK_ADD_OWNED(&heap->committed, -hak_chunk_bytes(fine));
    if (fine->is_first) hak_add_relaxed(&hak_pool_stats.first_units, -(size_t)fine->unit_count);
    hak_chunk_set_owner(fine->units, fine->unit_count, 0);
}

static void give_back(fine_t *fine) {
    hak_pool_give(fine->units, fine->unit_count);
    free_record(fine);
}

void hak_chunk_set_free(hak_user_heap_t *heap, fine_t *fine, size_t at, size_t grains) {
    const size_t first = hak_bits_end_before(fine->in_use, at);
    hak_bits_turn(fine->in_use, at, grains);
    fine->used -= (uint32_t)grains;
    if (fine != heap->current || at + grains == fine->hint) fine->hint = (uint32_t)first;
    HAK_ADD_OWNED(&heap->bytes, -(grains << fine->shift));
    if (fine->longest >= fine->grains - fine->used) return;
    const size_t end = hak_bits_next(fine->in_use, at + grains, fine->grains, true);
    if (end - first > fine->longest) set_longest(heap, fine, end - first);
}

/* Frees a block; returns its grains. A chunk without blocks leaves the heap. */
static size_t release(hak_user_heap_t *heap, fine_t *fine, size_t at) {
    const size_t grains = hak_chunk_length(fine, at);
    hak_bits_turn(fine->begins, at, 1);
    HAK_ADD_OWNED(&heap->blocks, -(size_t)1);
    hak_chunk_set_free(heap, fine, at, grains);
    if (fine->used == 0) leave_heap(heap, fine);
    return grains;
}

fine_t *hak_chunk_lock(const void *block, hak_user_heap_t **heap, size_t *grain) {
    fine_t *fine = lock_and_find(block, heap, grain);
    if (!fine || hak_chunk_address(fine, *grain) != block) return NULL;
    return hak_bits_has(fine->begins, *grain) ? fine : NULL;
}

size_t hak_fine_free(void *block) {
    size_t at, size = 0;
    hak_user_heap_t *heap;
    hak_gate_enter();
    fine_t *fine = hak_chunk_lock(block, &heap, &at);
    if (fine) size = release(heap, fine, at) << fine->shift;
    const bool is_empty = fine && fine->used == 0;
    hak_lock_release(&heap->lock);
    if (is_empty) give_back(fine);
    hak_gate_leave();
    return size;
}

bool hak_fine_find(const void *pointer, void **start, size_t *size) {
    size_t at;
    hak_user_heap_t *heap;
    const fine_t *fine = lock_and_find(pointer, &heap, &at);
    const bool is_used = fine && hak_bits_has(fine->in_use, at);
    if (is_used) {
        size_t first = hak_bits_end_before(fine->begins, at + 1) - 1;
        *start = hak_chunk_address(fine, first);
        *size = hak_chunk_length(fine, first) << fine->shift;
    }
    hak_lock_release(&heap->lock);
    return is_used;
}

/* As hak_fine_heap_of, for an address in a unit of a chunk. */
static HAK_OUT_OF_LINE hak_user_heap_t *heap_of_block(const void *block) {
    size_t at;
    hak_user_heap_t *heap;
    const bool is_block = hak_chunk_lock(block, &heap, &at) != NULL;
    hak_lock_release(&heap->lock);
    return !is_block || is_process(heap) ? NULL : heap;
}

HAK_COMMON hak_user_heap_t *hak_fine_heap_of(const void *block) {
    const hak_unit_t *unit = hak_region_unit_of(block);
    if (!unit) return hak_user_heap_huge_heap(block);
    return hak_fine_is(unit) ? heap_of_block(block) : NULL;
}

/* ---- heaps of the program ---- */

/* Allocates a block above 64 KiB: a whole chunk; or a mapping, if it is longer than a superslab or the pool has no row
 * of free units. *dirty: number of bytes at its start that may not be zero. */
static void *alloc_apart(hak_user_heap_t *heap, size_t size, size_t align, hak_flight_t *flight,
                         size_t *dirty) {
    const hak_cut_t request = {(size + HAK_UNIT_SIZE - 1) >> HAK_UNIT_SHIFT, 1, false, flight};
    void *block = NULL;
    if (align <= HAK_UNIT_SIZE && size <= hak_superslab_size())
        block = take_fresh(heap, (unsigned)request.grains, HAK_CHUNK_WHOLE, &request, dirty);
    return block ? block : hak_user_heap_huge_alloc(heap, size, align, flight, dirty);
}

static void zero_late(void *block, size_t size) {
    if (hak_region_unit_of(block))
        memset(block, 0, size);
    else
        hak_os_zero(block, size); /* a mapping, whose pages may be absent */
}

/* Long zeroing is done neither under the lock nor inside the gate; meanwhile the block is in flight. */
void *hak_fine_alloc_in(hak_user_heap_t *heap, size_t size, size_t align, bool zero,
                        hak_flight_t *flight) {
    hak_flight_t own = {0};
    hak_cut_t request = request_of(size, align, OWN_SHIFT);
    const bool is_apart = hak_max(size, align) > HAK_UNIT_SIZE;
    const bool is_late = zero && (is_apart || request.grains > SHORT);
    size_t dirty = request.grains << OWN_SHIFT;
    request.zero = zero && !is_late;
    request.flight = flight || !is_late ? flight : &own;
    void *block = is_apart ? alloc_apart(heap, size, align, request.flight, &dirty)
                           : alloc(heap, OWN_SHIFT, &request);
    if (block && is_late) zero_late(block, dirty);
    hak_user_heap_land(&own);
    return block;
}

/* Frees all blocks of a chunk except those in flight; `leave`, unless NULL, is called for each. Returns their
 * number. */
static size_t release_all(hak_user_heap_t *heap, fine_t *fine, void (*leave)(const void *block)) {
    const bool is_left =
        hak_user_heap_is_in_flight(heap, hak_chunk_address(fine, 0), hak_chunk_bytes(fine));
    size_t blocks = 0;
    if (!is_left && !leave) { /* need not look at each block */
        for (size_t w = 0; w < hak_bits_words(fine->grains); w++)
            if (fine->begins[w]) blocks += hak_bit_count(fine->begins[w]);
        HAK_ADD_OWNED(&heap->blocks, -blocks);
        HAK_ADD_OWNED(&heap->bytes, -((size_t)fine->used << fine->shift));
        fine->used = 0;
        leave_heap(heap, fine);
        return blocks;
    }
    for (size_t at = 0;; at++) {
        at = hak_bits_next(fine->begins, at, fine->grains, true);
        if (at == fine->grains) return blocks;
        if (is_left && hak_user_heap_is_in_flight(heap, hak_chunk_address(fine, at), 1)) continue;
        if (leave) leave(hak_chunk_address(fine, at));
        release(heap, fine, at);
        blocks++;
    }
}

/* Frees the oldest chunk, or the blocks of it that are not in flight; false when there is none from before an
 * epoch. Adds the number of blocks to *blocks. */
static bool free_oldest(hak_user_heap_t *heap, uint32_t epoch, void (*leave)(const void *block),
                        size_t *blocks) {
    hak_gate_enter();
    hak_lock_acquire(&heap->lock);
    fine_t *fine = (fine_t *)heap->chunks;
    if (fine && !hak_user_heap_is_before(fine->epoch, epoch)) fine = NULL;
    if (fine) *blocks += release_all(heap, fine, leave);
    const bool is_empty = fine && fine->used == 0;
    if (fine && !is_empty) {
        hak_ring_remove(&heap->chunks, &fine->age);
        append(heap, fine);
    }
    hak_lock_release(&heap->lock);
    if (is_empty) give_back(fine);
    hak_gate_leave();
    return fine != NULL;
}

size_t hak_fine_free_all(hak_user_heap_t *heap, void (*leave)(const void *block)) {
    const uint32_t epoch = hak_user_heap_next_epoch(heap);
    size_t blocks = 0;
    while (free_oldest(heap, epoch, leave, &blocks)) continue;
    return blocks + hak_user_heap_huge_free_all(heap, epoch, leave);
}

void hak_fine_add_stats(size_t *count, size_t *bytes) {
    for (const hak_user_heap_t *heap = &hak_user_heap_process; heap;
         heap = hak_user_heap_behind(heap->number)) {
        *count += hak_load_relaxed(&heap->blocks);
        *bytes += hak_load_relaxed(&heap->bytes);
    }
}
