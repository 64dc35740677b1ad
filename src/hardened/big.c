/* big.c: large and huge blocks with a note, a canary and a guard page. */
#include "hardened/big.h"

#include <string.h>

#include "error/error.h"
#include "hardened/canary.h"
#include "hardened/guard.h"
#include "large/fine_grain.h"
#include "large/huge.h"
#include "large/large.h"
#include "options/options.h"
#include "os/gate.h"
#include "os/os.h"
#include "region/region.h"

enum { GUARD_SHIFT = 4, SIZE_SHIFT = 6, LIMIT_PART = 8 };

static hak_guard_t guard_of(uint64_t note) { return (hak_guard_t)(note >> GUARD_SHIFT & 3); }

static uint64_t used_note(size_t size, hak_origin_t origin, hak_guard_t guard) {
    return (uint64_t)size << SIZE_SHIFT | (uint64_t)guard << GUARD_SHIFT |
           (uint64_t)origin << HAK_ORIGIN_SHIFT | HAK_STATE_USED;
}

/* Bytes before the guard page: the requested ones, and the canary. */
static size_t room_of(const void *block, size_t size) {
    size_t page = hak_os_page_size();
    return hak_align_up((uintptr_t)block + hak_max(size, 1), page) - (uintptr_t)block;
}

/* Bytes of the block and its canary. Without a guard, a block that ends where a page ends has its canary in the next
 * page: whole_of has asked for that page as well, or the system has refused to make it a guard. */
static size_t canary_end_of(const void *block, size_t size, hak_guard_t guard) {
    size_t room = room_of(block, size);
    bool has_none = hak_hardened.canary && guard == HAK_GUARD_NONE && room == size;
    return has_none ? room + hak_os_page_size() : room;
}

/* Bytes to ask a heap for: with a guard page, else with a byte for the canary. A large block begins at a multiple of a
 * grain. If that is smaller than a page, up to a page more lies before the guard. */
static size_t whole_of(size_t size) {
    size_t page = hak_os_page_size(), slack = page > HAK_GRAIN_SIZE ? page : 0;
    size_t used = hak_max(size + (hak_hardened.canary && !hak_hardened.guard), 1);
    size_t whole = hak_align_up(used, page) + (hak_hardened.guard ? page + slack : slack);
    return hak_max(whole, HAK_CLASS_MAX + 1);
}

/* ---- notes ---- */

static _Atomic uint64_t *word_of(const void *block) {
    hak_unit_t *unit = hak_region_unit_of(block);
    hak_states_t *states = unit ? hak_load_acquire(&hak_superslab_of(block)->states) : NULL;
    return states ? &states->large[hak_state_place(hak_state_unit(block))] : NULL;
}

static bool is_huge(const void *block) { return !hak_region_unit_of(block); }

uint64_t hak_big_note(const void *block) {
    const hak_unit_t *unit = hak_region_unit_of(block);
    if (!unit) {
        uint64_t note = hak_huge_note(block);
        return hak_state_of(note) == HAK_STATE_NEVER ? 0
                                                     : note; /* of a heap: large/user_heap_huge.h */
    }
    _Atomic uint64_t *word = hak_fine_is(unit) ? NULL : word_of(block);
    return word ? hak_load_acquire(word) : 0; /* partner: set_note */
}

bool hak_big_swap(void *block, uint64_t *note, uint64_t new_note) {
    if (is_huge(block)) return hak_huge_swap_note(block, note, new_note);
    _Atomic uint64_t *word = word_of(block);
    if (!word) return false;
    hak_gate_enter(); /* partner: hak_hardened_check, which closes the gate */
    bool swapped = atomic_compare_exchange_strong_explicit(
        word, note, new_note, memory_order_acq_rel, memory_order_acquire);
    hak_gate_leave();
    return swapped;
}

const void *hak_big_in_unit(const hak_unit_t *unit) {
    void *start;
    size_t size;
    bool found = hak_large_find(unit->base + HAK_UNIT_SIZE - 1, &start, &size);
    return found && (char *)start >= unit->base ? start : NULL;
}

/* Stores a note; only the caller has the block. False without memory for the note. */
static bool set_note(void *block, uint64_t note) {
    if (is_huge(block)) {
        uint64_t none = hak_huge_note(block);
        return hak_huge_swap_note(block, &none, note);
    }
    if (!hak_state_tables(hak_superslab_of(block))) return false;
    hak_store_release(word_of(block), note); /* partner: hak_big_note */
    return true;
}

/* ---- the canary ---- */

/* The bytes from the requested ones to the guard, or to the end of their page, all have one value, which is not 0. */
static unsigned char byte_of(const void *block) { return (unsigned char)hak_canary_pattern(block); }

static void put_canary(char *block, size_t size, hak_guard_t guard) {
    if (!hak_hardened.canary) return;
    memset(block + size, byte_of(block), canary_end_of(block, size, guard) - size);
}

/* All of these bytes are equal when each is equal to the next one. */
bool hak_big_holds(const void *block, uint64_t note) {
    size_t size = hak_big_size(note), room = canary_end_of(block, size, guard_of(note));
    const unsigned char *bytes = (const unsigned char *)block + size;
    if (!hak_hardened.canary || size == room) return true;
    return bytes[0] == byte_of(block) && memcmp(bytes, bytes + 1, room - size - 1) == 0;
}

size_t hak_big_usable(uint64_t note) {
    size_t size = hak_big_size(note);
    return hak_hardened.canary ? size : hak_align_up(size, hak_os_page_size());
}

/* ---- allocation ---- */

static void *find(size_t whole, size_t align, bool zero, bool mapped) {
    void *block = NULL;
    size_t dirty = 0;
    if (!mapped && whole <= HAK_LARGE_MAX && align <= HAK_LARGE_ALIGN_MAX)
        block = hak_large_alloc(hak_large_home(), whole, align, zero);
    if (block) return block;
    block = hak_huge_take(whole, align, HAK_STATE_FREE, &dirty);
    if (block && zero) hak_os_zero(block, dirty);
    return block;
}

static void give_back(void *block) {
    if (is_huge(block))
        hak_huge_free(block);
    else
        hak_large_free(hak_large_home(), block);
}

/* Prepares a block for the program. The note comes first, since there may be no memory for it, and
 * a guard cannot always be removed again. The block becomes USED when its canary is written, whose place depends on the
 * guard. */
static bool enter(char *block, size_t size, hak_origin_t origin) {
    hak_guard_t guard = HAK_GUARD_NONE;
    if (!set_note(block, HAK_STATE_FREE)) return false;
    if (hak_hardened.guard) guard = hak_guard_set(block + room_of(block, size), hak_os_page_size());
    put_canary(block, size, guard);
    return set_note(block, used_note(size, origin, guard));
}

void *hak_big_alloc(size_t size, size_t align, bool zero, hak_origin_t origin, bool mapped) {
    void *block = find(whole_of(size), align, zero, mapped);
    if (!block || enter(block, size, origin)) return block;
    give_back(block);
    return NULL;
}

/* ---- free ---- */

/* Bytes in all rings, which count as committed. In the child of a fork the rings of the other threads are lost, but
 * their bytes still count, as their blocks do. */
static _Atomic size_t resting HAK_OWN_LINE;

/* The limit on them: a part of HAKMEM_LIMIT, since only the thread of a ring can give its blocks back. */
static size_t most_resting(void) {
    const size_t limit = (size_t)hak_option(HAK_OPTION_LIMIT);
    return limit ? limit / LIMIT_PART : SIZE_MAX;
}

static void count_kept(hak_quarantine_t *quarantine, const hak_kept_t *kept, size_t sign) {
    hak_kept_sum_t *sum = &quarantine->kept[kept->is_huge];
    HAK_ADD_OWNED(&sum->count, sign);
    HAK_ADD_OWNED(&sum->bytes, sign * kept->size);
}

static size_t kept_bytes(const hak_quarantine_t *quarantine) {
    return hak_load_relaxed(&quarantine->kept[0].bytes) +
           hak_load_relaxed(&quarantine->kept[1].bytes);
}

/* Counts a block that is to enter a ring. False if the rings of other threads leave no room for it, even if the
 * thread's own were empty. The addition comes first, so two threads at once do not exceed the limit. */
static bool reserve(const hak_quarantine_t *quarantine, size_t size) {
    const size_t before = hak_add_relaxed(&resting, size), most = most_resting();
    const size_t others = before - kept_bytes(quarantine);
    if (others <= most && size <= most - others) return true;
    hak_add_relaxed(&resting, -size);
    return false;
}

static bool is_above(const hak_quarantine_t *quarantine) {
    return kept_bytes(quarantine) > HAK_BIG_RING_BYTES ||
           hak_load_relaxed(&resting) > most_resting();
}

/* Removes the guard behind a block; false when the system refuses. */
static bool clear_end(void *block) {
    uint64_t note = hak_big_note(block);
    char *end = (char *)block + room_of(block, hak_big_size(note));
    if (guard_of(note) == HAK_GUARD_NONE) return true;
    if (!hak_guard_clear(end, hak_os_page_size(), guard_of(note))) return false;
    return set_note(block, note & ~((uint64_t)3 << GUARD_SHIFT));
}

/* Gives a freed block back to its heap. False when the system refuses to remove its guard: then the
 * heap must not hand it out again. A block that `rested` in the ring is compared with zero, which
 * brings its pages back into memory. */
static bool release(const hak_kept_t *kept, bool rested) {
    size_t room = room_of(kept->block, hak_big_size(hak_big_note(kept->block)));
    if (kept->guard ? !hak_guard_clear(kept->block, room + hak_os_page_size(), HAK_GUARD_ADVISED)
                    : !clear_end(kept->block))
        return false;
    if (rested && !kept->guard && hak_hardened.check_freed)
        hak_quarantine_check_zero(kept->block, room);
    give_back(kept->block); /* its note stays FREE */
    return true;
}

/* Empties a place of the ring; false when its block stays. */
static bool leave(hak_quarantine_t *quarantine, hak_kept_t *kept, size_t *released) {
    hak_kept_t left = *kept;
    if (!left.block) return true;
    if (!release(&left, true)) return false;
    count_kept(quarantine, &left, (size_t)-1);
    hak_add_relaxed(&resting, -left.size);
    kept->block = NULL;
    *released += left.size;
    return true;
}

/* Puts a block into a random place of the ring, and empties other places until the ring is within
 * HAK_BIG_RING_BYTES, and all rings are within the limit on them. If no place can be emptied, the block is lost. */
static size_t put(hak_quarantine_t *quarantine, const hak_kept_t *kept) {
    uint32_t at = hak_hardened.random ? hak_random_next(&quarantine->random) : quarantine->big_at++;
    size_t released = 0;
    bool is_put = false;
    for (uint32_t i = 0; i < HAK_BIG_RING; i++) {
        hak_kept_t *place = &quarantine->big[(at + i) % HAK_BIG_RING];
        if (is_put && !is_above(quarantine)) break;
        if (!leave(quarantine, place, &released) || is_put) continue;
        *place = *kept;
        count_kept(quarantine, kept, 1);
        is_put = true;
    }
    return released;
}

size_t hak_big_keep(hak_quarantine_t *quarantine, void *block, uint64_t note, size_t whole) {
    size_t size = hak_big_size(note), room = room_of(block, size), page = hak_os_page_size();
    bool keeps =
        quarantine && hak_hardened.quarantine && room <= HAK_BIG_KEPT && reserve(quarantine, whole);
    hak_kept_t kept = {.block = block, .size = whole, .is_huge = is_huge(block)};
    kept.guard = keeps && guard_of(note) == HAK_GUARD_ADVISED && hak_os_guard(block, room + page);
    if (!kept.guard) {
        const size_t used = canary_end_of(block, size, guard_of(note));
        clear_end(block); /* if refused, tried again when the block leaves the ring */
        if (hak_hardened.zero && (room < HAK_LARGE_MAX || !hak_os_purge(block, used)))
            memset(block, 0, used);
    }
    if (!keeps && release(&kept, false)) return kept.size;
    if (!quarantine) return 0;
    if (!keeps) hak_add_relaxed(&resting, whole);
    return put(quarantine, &kept);
}

void hak_big_flush(hak_quarantine_t *quarantine) {
    size_t released = 0;
    for (unsigned i = 0; i < HAK_BIG_RING; i++) leave(quarantine, &quarantine->big[i], &released);
}

/* ---- resize ---- */

/* Removes the guard and the canary. Zeroes the end that is cut off, while it still belongs to the block. */
static bool open_end(char *block, uint64_t note, size_t size) {
    size_t old = hak_big_size(note), room = canary_end_of(block, old, guard_of(note));
    size_t left = room_of(block, size);
    if (!hak_guard_clear(block + room, hak_os_page_size(), guard_of(note))) return false;
    if (size < old && hak_hardened.zero &&
        (!is_huge(block) || !hak_os_purge(block + left, room - left)))
        memset(block + size, 0, room - size);
    else if (hak_hardened.canary)
        memset(block + old, 0, room - old); /* the program may get these bytes */
    return true;
}

void *hak_big_resize(void *block, uint64_t note, size_t size) {
    HAK_ASSERT(block != NULL);
    size_t whole = whole_of(size), old = hak_big_size(note);
    bool huge = is_huge(block);
    if ((whole > HAK_LARGE_MAX) != huge) return NULL;
    /* This fails most often, so it comes first: nothing has changed yet. */
    if (!huge && size > old && !hak_large_resize(block, whole)) return NULL;
    if (!open_end(block, note, size)) return NULL;
    char *moved =
        huge ? hak_huge_resize_noted(block, whole, note - HAK_STATE_USED + HAK_STATE_FREE) : block;
    if (!huge && size < old) hak_large_resize(block, whole); /* or the heap keeps all of it */
    if (moved && enter(moved, size, hak_state_origin(note))) return moved;
    enter(block, old, hak_state_origin(note));
    return NULL;
}

void *hak_big_shorten(void *block, uint64_t note, size_t size) {
    bool is_open = open_end(block, note, size);
    return is_open && enter(block, size, hak_state_origin(note)) ? block : NULL;
}
