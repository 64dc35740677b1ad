/* leaks.c: finds out which blocks the program can still reach when it ends, and which it has lost.
 *
 * A word that could be an address in a block in use reaches that block, whatever the word means: types are not known.
 * The search begins in what the program has written to its private memory (data, stacks, TLS and mappings) and in the
 * caller's registers; it continues in each block that it finds. It leaves out the heap itself, HAKMEM's records and
 * kept mappings, and the dead part of the stack.
 *
 * The program may have made a page of its own block inaccessible, for instance below a coroutine's stack. So either the
 * kernel copies a block, or the search reads pages of which the kernel has said that they can be read; it asks once for
 * each unit.
 *
 * The process must stand still: no other thread runs, and HAKMEM's helper is outside the gate. Otherwise a pointer
 * could move from a place that the search has not reached to one that it has passed. If the process does not stand
 * still, the report says so, and nothing is searched.
 *
 * Memory: room for as many blocks as there are samples and 2^20 more, rounded up to a power of two, of 24 bytes each;
 * and 4 bytes for each unit. */
#include "api/leaks.h"

#include <string.h>

#include "api/block.h"
#include "hardened/guard_sample.h"
#include "hardened/state.h"
#include "large/huge.h"
#include "meta/meta.h"
#include "options/options.h"
#include "os/gate.h"
#include "os/proc_maps.h"
#include "os/os.h"
#include "profile/samples.h"
#include "stats/heap_profile.h"
#include "thread/helper_thread.h"

enum { UNSAMPLED_MOST = 1 << 20, READ_DIRECTLY = HAK_UNIT_SIZE, GATE_MS = 1000 };
static const uint32_t IS_KNOWN = (uint32_t)1 << HAK_MAPS_PAGES_MOST; /* above the bits of pages */

typedef struct {
    uintptr_t start;
    size_t size;
    hak_range_kind_t kind;
} range_t;

typedef struct {
    uintptr_t start;
    size_t size;
} found_t;

/* Used only by the thread that ends the process. */
static struct {
    range_t *ranges; /* of HAKMEM's memory, by address */
    size_t range_count, range_most;
    found_t *found; /* blocks, in the order in which they were found */
    size_t found_count, found_most;
    uint32_t *slots; /* by a hash of the start: 1 + its place in `found` */
    uint32_t *units; /* by number: IS_KNOWN, and a bit for each page that can be read */
    uintptr_t stack; /* below it, in the same mapping, the stack is dead */
    size_t unread;   /* bytes of shared memory, which are not searched */
    bool failed, overflowed;
} search HAK_APART;

/* ---- HAKMEM's own memory ---- */

static void count_range(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    (void)context, (void)kind, (void)start, (void)size;
    search.range_most++;
}

static void add_range(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    (void)context;
    if (search.range_count < search.range_most)
        search.ranges[search.range_count++] = (range_t){(uintptr_t)start, size, kind};
}

static void each_range(hak_range_visitor_t visit) {
    hak_region_each_range(visit, NULL);
    hak_meta_each_range(visit, NULL);
    hak_huge_each_range(visit, NULL);
    hak_guard_sample_each_range(visit, NULL);
}

static void sort_ranges(void) {
    for (size_t gap = search.range_count / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < search.range_count; i++) {
            range_t range = search.ranges[i];
            size_t at = i;
            for (; at >= gap && search.ranges[at - gap].start > range.start; at -= gap)
                search.ranges[at] = search.ranges[at - gap];
            search.ranges[at] = range;
        }
}

/* The first range that ends behind an address; NULL if there is none. */
static const range_t *range_from(uintptr_t address) {
    size_t low = 0, high = search.range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (search.ranges[middle].start + search.ranges[middle].size <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < search.range_count ? &search.ranges[low] : NULL;
}

/* Room for the ranges and for what will be found: one mapping, which is a range itself. */
static bool prepare(void) {
    each_range(count_range);
    search.range_most++;
    uint64_t live = hak_load_relaxed(&hak_sample_stats.live);
    search.found_most = hak_ceil_pow2(live + UNSAMPLED_MOST);
    size_t ranges = search.range_most * sizeof *search.ranges;
    size_t found = search.found_most * sizeof *search.found;
    size_t slots = 2 * search.found_most * sizeof *search.slots;
    size_t units = hak_load_relaxed(&hak_map.unit_end) * sizeof *search.units;
    size_t size = hak_align_up(ranges + found + slots + units, hak_os_page_size());
    if (search.found_most > UINT32_MAX / 2) return false;
    char *room = hak_os_map(size, hak_os_page_size());
    if (!room) return false;
    search.found = (found_t *)(void *)room;
    search.slots = (uint32_t *)(void *)(room + found);
    search.ranges = (range_t *)(void *)(room + found + slots);
    search.units = (uint32_t *)(void *)(room + found + slots + ranges);
    add_range(NULL, HAK_RANGE_RECORDS, room, size);
    each_range(add_range);
    sort_ranges();
    return true;
}

/* ---- blocks ---- */

static void note(uintptr_t start, size_t size) {
    const size_t mask = 2 * search.found_most - 1;
    size_t slot = (start * 0x9E3779B97F4A7C15u >> 20) & mask;
    for (; search.slots[slot]; slot = (slot + 1) & mask)
        if (search.found[search.slots[slot] - 1].start == start) return;
    search.overflowed |= search.found_count == search.found_most;
    if (search.overflowed) return;
    search.found[search.found_count++] = (found_t){start, size};
    search.slots[slot] = (uint32_t)search.found_count;
}

/* A block in a thread's cache counts as in use. */
static bool is_taken(const hak_block_t *block) {
    if (!block->start) return false;
    if (block->class_index > HAK_CLASS_COUNT || !block->unit) return true;
    const hak_class_t *info = &hak_classes[block->class_index];
    size_t offset = (size_t)((char *)block->start - hak_slab_first(block->unit, info));
    return hak_state_is_taken(block->unit, info, (uint32_t)(offset / info->size));
}

static void look_at(uintptr_t word) {
    const void *pointer = (const void *)word;
    if (hak_region_unit_of(pointer) || hak_guard_sample_has(pointer)) {
        hak_block_t block = hak_block_of(pointer);
        if (!block.start &&
            hak_guard_sample_has(pointer)) /* the end of a block that fills its page */
            block = hak_block_of((const char *)pointer - 1);
        if (is_taken(&block)) note((uintptr_t)block.start, block.size);
        return;
    }
    const range_t *range = range_from(word);
    if (range && range->kind == HAK_RANGE_HUGE && word >= range->start)
        note(range->start, range->size);
}

static void look_at_words(const uintptr_t *words, size_t count) {
    for (size_t i = 0; i < count; i++) look_at(words[i]);
}

/* Returns the bytes of shared pages, which are not read. */
static size_t look_in(uintptr_t start, uintptr_t end) {
    size_t shared = 0;
    start = hak_align_up(start, sizeof start);
    end -= end % sizeof end;
    if (start < end && !hak_maps_each_word(start, end, look_at_words, &shared))
        search.failed = true;
    return shared;
}

/* Bits of the pages of a unit that can be read. */
static uint32_t readable_in(size_t unit) {
    uint32_t *known = &search.units[unit];
    if (HAK_LIKELY(*known)) return *known;
    uintptr_t start = (uintptr_t)hak_map.entries + (unit << HAK_UNIT_SHIFT);
    size_t pages = hak_max(HAK_UNIT_SIZE / hak_os_page_size(), 1);
    search.failed |= !hak_maps_readable(start, (unsigned)pages, known);
    return *known |= IS_KNOWN;
}

static void look_in_pages(uintptr_t at, uintptr_t end) {
    const size_t page = hak_os_page_size();
    for (uintptr_t next; at < end; at = next) {
        uint32_t readable = readable_in(hak_state_unit((const void *)at));
        next = hak_min((at / page + 1) * page, end);
        if (readable >> at % HAK_UNIT_SIZE / page & 1)
            look_at_words((const uintptr_t *)at, (next - at) / sizeof(uintptr_t));
    }
}

/* Reads short blocks directly: many of them share a unit, and a system call for each would be too many. Larger blocks
 * may have pages that were never touched, so the kernel copies them. A sampled block between guard pages is in no
 * unit. */
static void look_in_block(const found_t *block) {
    uintptr_t end = block->start + block->size;
    if (block->size < READ_DIRECTLY && hak_region_unit_of((const void *)block->start))
        look_in_pages(block->start, end);
    else
        look_in(block->start, end);
}

/* ---- the search ---- */

static bool look_in_mapping(const hak_maps_line_t *line, void *unused) {
    static const char live[] = "memfd:hakmem-live";
    (void)unused;
    uintptr_t at = line->numbers[0], end = line->numbers[1];
    bool ours =
        line->name_size >= sizeof live - 1 && memcmp(line->name, live, sizeof live - 1) == 0;
    if (!line->readable || ours) return true;
    if (search.stack >= at && search.stack < end) at = search.stack;
    while (at < end && !search.failed) {
        const range_t *range = range_from(at);
        uintptr_t until = range ? hak_max(hak_min(range->start, end), at) : end;
        size_t shared = look_in(at, until);
        if (line->shared && line->writable) search.unread += shared;
        at = range ? hak_max(range->start + range->size, until) : end;
    }
    return !search.failed;
}

static HAK_SLOW_PATH const char *find_all(void) {
    search.stack = (uintptr_t)__builtin_frame_address(0);
    if (!prepare()) return "there is no memory for the search";
    if (!hak_maps_each(look_in_mapping, NULL)) search.failed = true;
    for (size_t i = 0; i < search.found_count && !search.failed; i++)
        look_in_block(&search.found[i]);
    if (search.failed) return "the system does not let the process read its memory";
    if (search.overflowed)
        return "too many blocks have no sample; without HAKMEM_PROF all have one";
    for (size_t i = 0; i < search.found_count; i++)
        hak_sample_reach((const void *)search.found[i].start);
    return NULL;
}

static const char *find_within_gate(void) {
    size_t threads = hak_maps_threads();
    __builtin_unwind_init(); /* registers go to the stack */
    if (threads == 0) return "the system does not tell its threads";
    return threads > 1 + (size_t)hak_helper_is_here() ? "other threads still run" : find_all();
}

void hak_leaks_report(void) {
    hak_heap_profile_reach_t reach = {.untold = "exit() interrupted the allocator"};
    if (!hak_option(HAK_OPTION_LEAK)) return hak_heap_profile_report(NULL);
    if (hak_gate_close_within(GATE_MS)) {
        reach.untold = find_within_gate();
        reach.unread = search.unread;
        hak_gate_open_mine();
    }
    hak_heap_profile_report(&reach);
}
