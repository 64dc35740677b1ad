/* huge.c: huge blocks come, go and are resized; what is kept of them. huge.h has the protocol. */
#include "large/huge.h"

#include <string.h>

#include "classes/classes.h"
#include "commit/commit.h"
#include "large/check.h"
#include "large/mappings.h"
#include "large/reuse.h"
#include "meta/meta.h"
#include "options/options.h"
#include "os/os.h"

enum {
    SINK_INTERVAL_MS = 250,
    BATCH_MAX = 32,                /* stretches unmapped in one go */
    KEEP_LEAST = 32 * 1024 * 1024, /* bytes that may be kept in any case */
};

hak_huge_stats_t hak_huge_stats;
hak_lock_t hak_huge_lock;
HAK_LOCK_RANK(HUGE, hak_huge_lock, hak_huge_check_at_release);

/* Under the lock. Bytes in use lately, at most; sinks by an eighth of the distance at
 * every interval. */
static size_t recent_peak;
static uint64_t sunk_ms;      /* when it last did */
static uint64_t allocated_ms; /* the last request */

static void count(size_t blocks, size_t bytes) {
    HAK_ADD_OWNED(&hak_huge_stats.block_count, blocks);
    HAK_ADD_OWNED(&hak_huge_stats.bytes, bytes);
    recent_peak = hak_max(recent_peak, hak_load_relaxed(&hak_huge_stats.bytes));
}

/* ---- kept stretches, and their way back to the system ---- */

/* What was taken out under the lock, to be unmapped without it. */
typedef struct {
    hak_stretch_t stretches[BATCH_MAX];
    unsigned count;
} batch_t;

static void note_kept(void) { hak_store_relaxed(&hak_huge_stats.kept_bytes, hak_reuse_bytes()); }

/* Bytes that may be kept where `used` are in use. Under the lock. */
static size_t keep_most_beside(size_t used) {
    int64_t fixed = hak_option(HAK_OPTION_HUGE_CACHE);
    if (hak_option(HAK_OPTION_DISABLE_BATCH)) return 0;
    if (fixed >= 0) return (size_t)fixed;
    return hak_max(KEEP_LEAST, recent_peak + recent_peak / 2 - used);
}

static size_t keep_most(void) { return keep_most_beside(hak_load_relaxed(&hak_huge_stats.bytes)); }

/* True when `size` bytes in use can be kept and nothing has to go for them. Under the lock. */
static bool fits(size_t size) {
    size_t used = hak_load_relaxed(&hak_huge_stats.bytes);
    return hak_reuse_has_place() && hak_reuse_bytes() + size <= keep_most_beside(used - size);
}

/* Takes out the oldest, or of a long one its end. Under the lock. */
static bool take_any(hak_stretch_t *stretch, size_t want) {
    return hak_reuse_take_oldest(stretch, want, UINT64_MAX);
}

/* Takes out up to `most` bytes of the oldest stretch. Under the lock. */
static bool take_out(batch_t *batch, size_t most, uint64_t freed_by) {
    hak_stretch_t *stretch = &batch->stretches[batch->count];
    if (!hak_reuse_take_oldest(stretch, most, freed_by)) return false;
    if (stretch->size > most) { /* the rest keeps its place, short as it is */
        size_t rest = stretch->size - most;
        hak_reuse_put(stretch->start, rest, stretch->freed_ms);
        stretch->start += rest;
        stretch->size = most;
    }
    batch->count++;
    return true;
}

/* Takes out what is too much, oldest first, and hardly more than that, nor than `most`. Under
 * the lock. */
static void release_some(batch_t *batch, size_t most) {
    while (batch->count < BATCH_MAX && most && hak_reuse_bytes() > keep_most()) {
        size_t excess = hak_align_up(hak_reuse_bytes() - keep_most(), HAK_LARGE_MAX);
        if (!take_out(batch, hak_min(excess, most), UINT64_MAX)) break;
        most -= batch->stretches[batch->count - 1].size;
    }
    note_kept();
}

/* Keeps a stretch; where there is no place for it, *other has made one. */
static bool keep_refused(const hak_stretch_t *stretch, hak_stretch_t *other) {
    uint64_t now = hak_os_now_ms();
    hak_lock_acquire(&hak_huge_lock);
    hak_reuse_make_room();
    bool kept = hak_reuse_put(stretch->start, stretch->size, now);
    if (!kept && take_any(other, SIZE_MAX)) hak_reuse_put(stretch->start, stretch->size, now);
    note_kept();
    hak_lock_release(&hak_huge_lock);
    return kept;
}

/* A mapping that the kernel will not cut up (it has too many) is kept, without pages if
 * possible, until there is room for it. More places are made long before the last one is
 * taken. If records have no memory either, the oldest makes room: most are mappings as a
 * whole, which can always be unmapped. One is lost when none of them can. */
static void unmap_failed(hak_stretch_t stretch) {
    hak_stretch_t other;
    hak_os_purge(stretch.start, stretch.size);
    for (unsigned i = 0; i <= HAK_REUSE_MAX && !keep_refused(&stretch, &other); i++) {
        if (hak_os_unmap(other.start, other.size)) {
            hak_commit_release(other.size);
            return;
        }
        stretch = other;
    }
}

/* Unmaps a batch; returns bytes. Without the lock. */
static size_t unmap_batch(const batch_t *batch) {
    size_t bytes = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        const hak_stretch_t *stretch = &batch->stretches[i];
        if (!hak_os_unmap(stretch->start, stretch->size)) {
            unmap_failed(*stretch);
            continue;
        }
        hak_add_relaxed(&hak_huge_stats.unmapped, 1);
        hak_commit_release(stretch->size);
        bytes += stretch->size;
    }
    return bytes;
}

/* Keeps a stretch that is nobody's any more, or adds it to the batch; of others, no more bytes
 * go than it has, unless it needs the place of one. Under the lock. */
static void keep(char *start, size_t size, batch_t *batch) {
    uint64_t now = hak_os_now_ms();
    if (!hak_reuse_put(start, size, now) && take_any(&batch->stretches[0], SIZE_MAX)) {
        batch->count = 1;
        hak_reuse_put(start, size, now); /* there is a place now */
    }
    release_some(batch, size);
}

static void sink_peak(uint64_t now) {
    if (now < sunk_ms + SINK_INTERVAL_MS) return;
    sunk_ms = now;
    recent_peak -= (recent_peak - hak_load_relaxed(&hak_huge_stats.bytes)) / 8;
}

/* While requests go on, the age of a stretch says little: what the peak allows is kept,
 * and the peak sinks. Under the lock. */
static void take_out_old(batch_t *batch, size_t most, uint32_t delay_ms) {
    uint64_t now = hak_os_now_ms();
    uint64_t freed_by = !delay_ms ? UINT64_MAX : now > delay_ms ? now - delay_ms : 0;
    sink_peak(now);
    if (allocated_ms > freed_by) {
        release_some(batch, most);
        return;
    }
    while (batch->count < BATCH_MAX && most && take_out(batch, most, freed_by))
        most -= batch->stretches[batch->count - 1].size;
    note_kept();
}

/* A budget may be any number of bytes; a stretch is cut only between two pages. */
static size_t purge(uint32_t delay_ms, hak_budget_t *budget) {
    size_t bytes = 0, page = hak_os_page_size();
    for (bool more = true; more && !hak_budget_is_spent(budget);) {
        batch_t batch = {.count = 0};
        hak_gate_enter();
        hak_lock_acquire(&hak_huge_lock);
        take_out_old(&batch, budget->bytes & ~(page - 1), delay_ms);
        hak_lock_release(&hak_huge_lock);
        size_t gone = unmap_batch(&batch);
        hak_gate_leave();
        hak_budget_look(budget, batch.count);
        hak_budget_give(budget, gone);
        bytes += gone;
        more = batch.count == BATCH_MAX && gone > 0;
    }
    return bytes;
}

/* Most programs have never had any; the first of another thread may be missed until the next
 * round. */
HAK_COMMON size_t hak_huge_purge_piece(uint32_t delay_ms, hak_budget_t *budget) {
    return hak_load_relaxed(&hak_huge_stats.mapped) ? purge(delay_ms, budget) : 0;
}

/* Lengthens a mapping, in place or at another address. What is several mappings to the
 * kernel it may move, if not lengthen. NULL when it refuses: then all is as it was. */
static char *extend(char *start, size_t old_size, size_t size) {
    char *moved = hak_os_remap(start, old_size, size, true);
    if (moved || !hak_os_moves_several()) return moved;
    moved = hak_os_map(size, hak_os_page_size());
    if (!moved) return NULL;
    hak_os_name(moved, size, "hakmem: huge");
    if (hak_os_move(start, old_size, moved)) return moved;
    hak_os_unmap(moved + old_size, size - old_size);
    return NULL;
}

/* ---- allocation ---- */

/* Enters a block that `size` bytes were found for. Under the lock; there is room. */
static void enter_block(char *block, size_t size) {
    hak_mappings_put((uintptr_t)block, size);
    count(1, size);
    allocated_ms = hak_os_now_ms();
}

/* Makes a larger table where one is needed; false without memory. Another thread may have put
 * one in its place meanwhile, and others may use up its room: the caller looks again. */
static bool make_room(void) {
    hak_lock_acquire(&hak_huge_lock);
    size_t slots = hak_mappings_wanted();
    hak_lock_release(&hak_huge_lock);
    if (!slots) return true;
    hak_mapping_t *larger = hak_mappings_make(slots);
    if (!larger) return false;
    hak_lock_acquire(&hak_huge_lock);
    bool used = hak_mappings_use(larger, slots);
    hak_lock_release(&hak_huge_lock);
    if (!used) hak_mappings_discard(larger, slots);
    return true;
}

/* A kept stretch that is large enough, entered; NULL when there is none, or no room in the table:
 * what comes instead makes some. Under the lock. */
static char *take_kept(size_t size, size_t align) {
    char *block = hak_mappings_wanted() ? NULL : hak_reuse_take(size, align);
    if (!block) return NULL;
    enter_block(block, size);
    HAK_ADD_OWNED(&hak_huge_stats.reused, 1);
    note_kept();
    return block;
}

static char *reuse(size_t size, size_t align) {
    hak_lock_acquire(&hak_huge_lock);
    char *block = take_kept(size, align);
    hak_lock_release(&hak_huge_lock);
    return block;
}

/* Looks again for a kept stretch that is large enough: since `reuse` found none, another thread
 * may have freed one. Where there is still none, *shorter becomes the largest that is too short, to
 * be lengthened. Both in one section: a stretch that is longer than wanted must not be lengthened,
 * for mremap would cut off its end. */
static char *reuse_or_take_out(size_t size, size_t align, hak_stretch_t *shorter) {
    shorter->size = 0;
    hak_lock_acquire(&hak_huge_lock);
    char *block = take_kept(size, align);
    if (!block && align <= hak_os_page_size() && hak_reuse_take_shorter(shorter, size)) note_kept();
    hak_lock_release(&hak_huge_lock);
    return block;
}

/* Keeps a stretch on, as old as it is; unmaps it where there is no place any more. */
static void put_back(const hak_stretch_t *stretch) {
    hak_lock_acquire(&hak_huge_lock);
    bool kept = hak_reuse_put(stretch->start, stretch->size, stretch->freed_ms);
    note_kept();
    hak_lock_release(&hak_huge_lock);
    batch_t batch = {.stretches = {*stretch}, .count = 1};
    if (!kept) unmap_batch(&batch);
}

/* Lengthens a stretch that was taken out: its pages need not be made anew. NULL when there is
 * none, or the kernel does not like it. */
static char *lengthen(const hak_stretch_t *stretch, size_t size) {
    char *block = NULL;
    if (!stretch->size) return NULL;
    if (stretch->size >= HAK_LARGE_MAX && hak_commit_charge(size - stretch->size)) {
        block = extend(stretch->start, stretch->size, size);
        if (!block) hak_commit_release(size - stretch->size);
    }
    if (block)
        hak_add_relaxed(&hak_huge_stats.grown, 1);
    else
        put_back(stretch);
    return block;
}

static char *map_fresh(size_t size, size_t align) {
    if (!hak_commit_charge(size)) return NULL;
    char *block = hak_os_map(size, align);
    if (!block) {
        hak_commit_release(size);
        return NULL;
    }
    hak_os_name(block, size, "hakmem: huge");
    hak_add_relaxed(&hak_huge_stats.mapped, 1);
    return block;
}

/* Enters a new mapping; unmaps it where the table cannot grow. */
static bool enter_mapping(char *block, size_t size) {
    batch_t batch = {.count = 0};
    bool entered;
    do {
        hak_lock_acquire(&hak_huge_lock);
        entered = !hak_mappings_wanted();
        if (entered) {
            enter_block(block, size);
            if (hak_reuse_bytes() > keep_most()) hak_budget_note(HAK_NOTE_HUGE);
        }
        hak_lock_release(&hak_huge_lock);
    } while (!entered && make_room());
    if (!entered) batch = (batch_t){.stretches = {{block, size, 0}}, .count = 1};
    unmap_batch(&batch);
    return entered;
}

/* A mapping that was kept, or kept and lengthened, or a new one. *dirty: bytes that it had. */
static char *map_block(size_t size, size_t align, size_t *dirty) {
    hak_stretch_t shorter;
    char *block = reuse_or_take_out(size, align, &shorter);
    *dirty = size;
    if (block) return block;
    block = lengthen(&shorter, size);
    *dirty = block ? shorter.size : 0;
    if (!block) block = map_fresh(size, align);
    return block && enter_mapping(block, size) ? block : NULL;
}

void *hak_huge_alloc(size_t size, size_t align, bool zero) {
    size_t page = hak_os_page_size();
    size = hak_align_up(size, page);
    align = hak_max(align, page);
    size_t dirty = size; /* bytes that may not be zero */
    char *block = reuse(size, align);
    if (!block) {
        hak_gate_enter();
        block = map_block(size, align, &dirty);
        hak_gate_leave();
    }
    if (block && zero) memset(block, 0, dirty);
    return block;
}

size_t hak_huge_size(const void *block) {
    hak_lock_acquire(&hak_huge_lock);
    const hak_mapping_t *mapping = hak_mappings_find((uintptr_t)block);
    size_t size = mapping ? mapping->size : 0;
    hak_lock_release(&hak_huge_lock);
    return size;
}

uint64_t hak_huge_note(const void *block) {
    hak_lock_acquire(&hak_huge_lock);
    const hak_mapping_t *mapping = hak_mappings_find((uintptr_t)block);
    uint64_t note = mapping ? mapping->note : 0;
    hak_lock_release(&hak_huge_lock);
    return note;
}

bool hak_huge_swap_note(const void *block, uint64_t *note, uint64_t new_note) {
    hak_lock_acquire(&hak_huge_lock);
    hak_mapping_t *mapping = hak_mappings_find((uintptr_t)block);
    uint64_t found = mapping ? mapping->note : 0;
    bool same = mapping && found == *note;
    if (same) mapping->note = new_note;
    hak_lock_release(&hak_huge_lock);
    *note = found;
    return same;
}

/* All blocks, a few at a time: the lock is not held for longer. */
static void walk(hak_mapping_visitor_t visit, void *context) {
    size_t at = 0;
    for (bool more = true; more;) {
        hak_lock_acquire(&hak_huge_lock);
        more = hak_mappings_walk(&at, visit, context);
        hak_lock_release(&hak_huge_lock);
    }
}

typedef struct {
    hak_huge_visitor_t visit;
    void *context;
} note_visitor_t;

static bool show_note(const hak_mapping_t *mapping, void *context) {
    const note_visitor_t *to = context;
    to->visit(to->context, (const void *)mapping->start, mapping->note);
    return true;
}

void hak_huge_each_note(hak_huge_visitor_t visit, void *context) {
    note_visitor_t visitor = {visit, context};
    walk(show_note, &visitor);
}

typedef struct {
    uintptr_t pointer;
    hak_mapping_t found;
} search_t;

static bool is_elsewhere(const hak_mapping_t *mapping, void *context) {
    search_t *search = context;
    if (search->pointer - mapping->start >= mapping->size) return true;
    search->found = *mapping;
    return false;
}

bool hak_huge_find(const void *pointer, void **start, size_t *size) {
    search_t search = {.pointer = (uintptr_t)pointer};
    walk(is_elsewhere, &search);
    if (!search.found.start) return false;
    *start = (void *)search.found.start;
    *size = search.found.size;
    return true;
}

bool hak_huge_was_freed(const void *pointer, size_t *size) {
    hak_lock_acquire(&hak_huge_lock);
    *size = hak_mappings_removed((uintptr_t)pointer);
    bool was = *size || hak_reuse_has(pointer);
    hak_lock_release(&hak_huge_lock);
    return was;
}

typedef struct {
    hak_range_visitor_t visit;
    void *context;
} visitor_t;

static bool show(const hak_mapping_t *mapping, void *context) {
    const visitor_t *to = context;
    to->visit(to->context, HAK_RANGE_HUGE, (const void *)mapping->start, mapping->size);
    return true;
}

void hak_huge_each_range(hak_range_visitor_t visit, void *context) {
    visitor_t to = {visit, context};
    walk(show, &to);
    hak_lock_acquire(&hak_huge_lock);
    hak_reuse_each_range(visit, context);
    hak_lock_release(&hak_huge_lock);
}

/* Off the table first: once unmapped, the address may be another thread's. Under the lock. */
static void take_off(hak_mapping_t *mapping) {
    count(-(size_t)1, -mapping->size);
    hak_mappings_remove(mapping);
}

static size_t free_and_unmap(char *block) {
    batch_t batch = {.count = 0};
    hak_gate_enter();
    hak_lock_acquire(&hak_huge_lock);
    hak_mapping_t *mapping = hak_mappings_find((uintptr_t)block);
    size_t size = mapping ? mapping->size : 0;
    if (mapping) {
        take_off(mapping);
        keep(block, size, &batch);
    }
    hak_lock_release(&hak_huge_lock);
    unmap_batch(&batch);
    hak_gate_leave();
    return size;
}

/* What does not fit is looked for again by free_and_unmap: what this section saw of the block and
 * of what is kept is not used there. */
size_t hak_huge_free(void *block) {
    hak_lock_acquire(&hak_huge_lock);
    hak_mapping_t *mapping = hak_mappings_find((uintptr_t)block);
    size_t size = mapping ? mapping->size : 0;
    bool is_kept = mapping && fits(size);
    if (is_kept) {
        take_off(mapping);
        hak_reuse_put(block, size, hak_os_now_ms());
        note_kept();
    }
    hak_lock_release(&hak_huge_lock);
    return size && !is_kept ? free_and_unmap(block) : size;
}

/* ---- resize ---- */

/* Resizes a block that can stay where it is: it becomes shorter, or what is behind it is kept.
 * Under the lock. */
static bool resize_in_place(hak_mapping_t *mapping, size_t size, batch_t *batch) {
    size_t old_size = mapping->size;
    char *block = (char *)mapping->start;
    if (size > old_size && !hak_reuse_take_at(block + old_size, size - old_size)) return false;
    mapping->size = size;
    count(0, size - old_size);
    if (size < old_size) keep(block + size, old_size - size, batch);
    note_kept();
    return true;
}

/* Lengthens a block that is in hand, and puts it back, wherever it is by now. NULL when the system
 * refuses. */
static char *lengthen_in_hand(char *block, size_t old_size, size_t size) {
    char *moved = NULL;
    if (hak_commit_charge(size - old_size)) {
        moved = extend(block, old_size, size);
        if (!moved) hak_commit_release(size - old_size);
    }
    hak_lock_acquire(&hak_huge_lock);
    hak_mappings_put_back((uintptr_t)(moved ? moved : block), moved ? size : old_size);
    if (moved) count(0, size - old_size);
    hak_lock_release(&hak_huge_lock);
    return moved;
}

void *hak_huge_resize(void *block, size_t size) {
    batch_t batch = {.count = 0};
    size = hak_align_up(size, hak_os_page_size());
    hak_gate_enter();
    hak_lock_acquire(&hak_huge_lock);
    hak_mapping_t *mapping = hak_mappings_find((uintptr_t)block);
    size_t old_size = mapping ? mapping->size : 0;
    bool stays = mapping && resize_in_place(mapping, size, &batch);
    if (mapping && !stays) hak_mappings_take_in_hand(mapping);
    hak_lock_release(&hak_huge_lock);
    unmap_batch(&batch);
    char *resized = stays ? block : old_size ? lengthen_in_hand(block, old_size, size) : NULL;
    hak_gate_leave();
    return resized;
}
