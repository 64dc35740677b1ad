/* extent.c: free memory of large heaps: how far the searches go, alignments above a unit, and
 * that blocks and extents together fill every superslab. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "large/heap.h"
#include "large/large.h"
#include "large/view.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "purge.h"

enum {
    LEAST = HAK_CLASS_MAX + 1, /* bytes; 17 grains */
    LEAST_GRAINS = 17,
    LOOKS_TAKE = 32,       /* the most that a search for aligned memory may look at */
    LOOKS_CLAIM = 2 * 132, /* the same of a purge, for one superslab: taken twice */
    SECONDS = 120,
};

static const char *const variables[] = {"HAKMEM_SHARDS=2", "HAKMEM_PURGE_THREAD=0", NULL};

static uint64_t looks(void) { return hak_heap_at(0)->extents.looks; }

static char *get(size_t size, size_t align) {
    char *block = hak_large_alloc(0, size, align, false);
    CHECK(block != NULL, "no block of %zu bytes", size);
    CHECK((uintptr_t)block % align == 0, "%p is no multiple of %zu", (void *)block, align);
    return block;
}

static void drop(char *block) { CHECK(hak_large_free(0, block), "%p is no block", (void *)block); }

/* ---- Blocks and extents are all of a superslab ----------------------------------------------- */

typedef struct {
    char *end;         /* of the block or extent before */
    bool after_extent; /* that was one */
} seen_t;

/* The next block or extent begins where the one before ends. */
static void goes_on(seen_t *seen, char *start, size_t grains, bool is_extent) {
    CHECK(!seen->end || seen->end == start, "a gap or an overlap from %p to %p", (void *)seen->end,
          (void *)start);
    CHECK(!is_extent || grains <= HAK_EXTENT_MAX, "an extent of %zu grains", grains);
    CHECK(!is_extent || !seen->after_extent || (uintptr_t)start % hak_superslab_size() == 0,
          "two extents touch at %p", (void *)start);
    seen->end = start + (grains << HAK_GRAIN_SHIFT);
    seen->after_extent = is_extent;
}

static void look_at_unit(const hak_unit_t *unit, seen_t *seen) {
    uint32_t word = hak_load_relaxed(&unit->large);
    size_t at = (size_t)(word % 16) << HAK_GRAIN_SHIFT;
    char *start;
    size_t grains = hak_extent_in(unit, &start);
    bool extent_first = grains && (!word || start < unit->base + at);
    if (grains && extent_first) goes_on(seen, start, grains, true);
    if (word) goes_on(seen, unit->base + at, hak_large_length(word), false);
    if (grains && !extent_first) goes_on(seen, start, grains, true);
}

static void look_at_superslab(hak_superslab_t *super, void *context) {
    seen_t *seen = context;
    char *start = super->units[0].base;
    if (!super->large) {
        CHECK(!seen->end || seen->end == start, "a block goes on at %p", (void *)start);
        *seen = (seen_t){0};
        return;
    }
    if (!seen->end) seen->end = start;
    for (unsigned i = 0; i < hak_superslab_units(); i++) look_at_unit(&super->units[i], seen);
}

static void check_all(void) {
    seen_t seen = {0};
    hak_region_each_superslab(look_at_superslab, &seen);
}

static void blocks_and_extents_are_all(const void *unused) {
    enum { BLOCKS = 300, TURNS = 40000 };
    static char *blocks[BLOCKS];
    (void)unused;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        char **block = &blocks[unit_random(BLOCKS)];
        size_t size = LEAST + unit_random(HAK_LARGE_MAX - LEAST);
        if (!*block)
            *block = get(unit_random(3) ? size : LEAST, (size_t)1 << unit_random(22));
        else if (unit_random(3) == 0)
            hak_large_resize(*block, size);
        else
            drop(*block), *block = NULL;
        if (turn % 4000 == 0) purge_large(0);
        if (turn % 1000 == 0) check_all();
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i]) drop(blocks[i]);
    check_all();
    purge_large(0);
    HAK_HOLD(&hak_heap_at(0)->lock);
    while (hak_heap_at(0)->lent)
        CHECK(hak_heap_lend(hak_heap_at(0)), "a free superslab is not found");
    CHECK(hak_load_relaxed(&hak_heap_at(0)->live) == 0, "a block is left");
}

/* ---- What is looked at ----------------------------------------------------------------------- */

static uint64_t looks_of_resize(char *block, size_t size, bool expected) {
    uint64_t before = looks();
    CHECK(hak_large_resize(block, size) == expected, "a block of %zu", size);
    return looks() - before;
}

/* The block that begins where this one ends. */
static char **next_of(char **blocks, unsigned live, const char *block) {
    for (unsigned i = 0; i < live; i++)
        if (blocks[i] == block + LEAST_GRAINS * HAK_GRAIN_SIZE) return &blocks[i];
    CHECK(false, "no block behind %p", (const void *)block);
    return NULL;
}

/* Blocks from `have` up to `live`; then one in the middle wants to grow: beside a block in use,
 * beside one that is free, and by more than that. */
static void resize_among(char **blocks, unsigned have, unsigned live) {
    for (unsigned i = have; i < live; i++) blocks[i] = get(LEAST, 1);
    char *block = blocks[live / 2], **next = next_of(blocks, live, block);
    uint64_t in_use = looks_of_resize(block, 2 * LEAST, false);
    drop(*next);
    /* what is just free stays whole, so the unit is looked at before it merges, and then */
    uint64_t too_short = looks_of_resize(block, HAK_LARGE_MAX, false);
    uint64_t free = looks_of_resize(block, LEAST + HAK_GRAIN_SIZE, true);
    CHECK(in_use == 1 && too_short <= 2 && free == 1, "%u blocks: %u, %u and %u units", live,
          (unsigned)in_use, (unsigned)too_short, (unsigned)free);
    CHECK(hak_large_resize(block, LEAST), "no way back");
    *next = get(LEAST, 1);
}

static void a_resize_looks_at_one_unit(const void *unused) {
    enum { FEW = 1000, MANY = 200000 };
    static char *blocks[MANY];
    (void)unused;
    resize_among(blocks, 0, FEW);
    resize_among(blocks, FEW, MANY);
}

/* Superslabs that became free last first, in a row: the purge comes to the last of the row first. */
static void a_purge_finds_an_extent(const void *unused) {
    enum { COUNT = 2000 };
    static char *blocks[COUNT];
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = get(HAK_LARGE_MAX, 1);
    for (unsigned i = COUNT; i-- > 0;) drop(blocks[i]);
    check_all();
    uint64_t before = looks(), superslabs = hak_heap_at(0)->lent;
    CHECK(superslabs >= COUNT / 2, "%u superslabs", (unsigned)superslabs);
    CHECK(purge_large(0) >= (size_t)COUNT * HAK_LARGE_MAX, "too little");
    uint64_t each = (looks() - before) / superslabs;
    CHECK(each <= LOOKS_CLAIM, "%u units for each of %u superslabs", (unsigned)each,
          (unsigned)superslabs);
}

/* Half of the memory is extents of the right length, none at a multiple of the alignment. */
static void an_aligned_request_looks_at_few(const void *unused) {
    enum { COUNT = 20000, WANTED = 500, ALIGN = 4 * HAK_UNIT_SIZE };
    static char *blocks[COUNT];
    (void)unused;
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = get(LEAST, 1);
    for (unsigned i = 0; i < COUNT; i += 2)
        if ((uintptr_t)blocks[i] % ALIGN != 0) drop(blocks[i]);
    for (unsigned i = 0; i < WANTED; i++) {
        uint64_t before = looks();
        get(LEAST, ALIGN);
        CHECK(looks() - before <= 3 * LOOKS_TAKE, "%u units for an aligned block",
              (unsigned)(looks() - before));
    }
}

/* Wholly free superslabs, each between two in use: none begins a row. */
static void a_row_is_looked_for_among_few(const void *unused) {
    enum { COUNT = 1000 };
    static hak_superslab_t *supers[2 * COUNT];
    (void)unused;
    unsigned taken;
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        supers[i] = hak_pool_take_superslabs(1, 1, &taken);
        CHECK(supers[i] && taken == 1, "no superslab");
    }
    for (unsigned i = 0; i < 2 * COUNT; i += 2) hak_pool_give_superslab(supers[i]);
    uint64_t before = hak_pool_stats.row_looks;
    CHECK(hak_pool_take_superslabs(2, 2, &taken) && taken == 2, "no row");
    CHECK(hak_pool_stats.row_looks - before <= 32, "%u superslabs",
          (unsigned)(hak_pool_stats.row_looks - before));
}

/* ---- Alignments ------------------------------------------------------------------------------ */

/* Every alignment and many sizes, with what is free from the ones before, and without. */
static void every_alignment_is_met(const void *unused) {
    enum { KEPT = 8 };
    (void)unused;
    char *kept[KEPT] = {0};
    unsigned n = 0;
    for (size_t align = HAK_GRAIN_SIZE; align <= HAK_LARGE_ALIGN_MAX; align *= 2)
        for (size_t size = LEAST; size <= HAK_LARGE_MAX; size += 37 * HAK_GRAIN_SIZE) {
            void *start;
            size_t have;
            char *block = get(size, align);
            CHECK(hak_large_find(block + size - 1, &start, &have) && start == block &&
                      have == hak_align_up(size, HAK_GRAIN_SIZE),
                  "a block of %zu has %zu", size, have);
            memset(block, (int)n, size);
            if (kept[n % KEPT]) drop(kept[n % KEPT]);
            kept[n++ % KEPT] = block;
        }
    check_all();
}

/* The memory between aligned blocks serves others, before there is a fresh run. */
static void gaps_are_used(const void *unused) {
    enum { COUNT = 2000, ALIGN = 256 * 1024, GAP = ALIGN - LEAST_GRAINS * HAK_GRAIN_SIZE };
    (void)unused;
    uint64_t units = hak_large_stats().run_units;
    for (unsigned i = 0; i < COUNT; i++) get(1, ALIGN);
    uint64_t used = (hak_large_stats().run_units - units) * HAK_UNIT_SIZE;
    CHECK(used <= (uint64_t)COUNT * ALIGN / 10 * 11, "%zu bytes of addresses", (size_t)used);
    units = hak_large_stats().run_units;
    for (unsigned i = 0; i < COUNT - 16; i++) get(GAP, 1);
    CHECK(hak_large_stats().run_units == units, "fresh runs beside gaps");
}

/* As many blocks for each alignment take no more addresses than the alignment asks for. */
static void aligned_blocks_pack(const void *unused) {
    enum { COUNT = 1000 };
    (void)unused;
    for (size_t align = 2 * HAK_UNIT_SIZE; align <= HAK_LARGE_ALIGN_MAX; align *= 2) {
        uint64_t units = hak_large_stats().run_units;
        for (unsigned i = 0; i < COUNT; i++) get(1, align);
        uint64_t used = (hak_large_stats().run_units - units) * HAK_UNIT_SIZE;
        CHECK(used <= COUNT * align / 10 * 11, "%zu bytes for each at %zu", (size_t)used / COUNT,
              align);
    }
}

#define IN_A_CHILD(name, body)                  \
    static void name(void **state) {            \
        (void)state;                            \
        unit_child(body, NULL, SECONDS, #name); \
    }

IN_A_CHILD(blocks_and_extents, blocks_and_extents_are_all)
IN_A_CHILD(looks_of_resizes, a_resize_looks_at_one_unit)
IN_A_CHILD(looks_of_purges, a_purge_finds_an_extent)
IN_A_CHILD(looks_of_aligned_requests, an_aligned_request_looks_at_few)
IN_A_CHILD(looks_for_rows, a_row_is_looked_for_among_few)
IN_A_CHILD(alignments, every_alignment_is_met)
IN_A_CHILD(gaps, gaps_are_used)
IN_A_CHILD(packing, aligned_blocks_pack)

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_and_extents),
        cmocka_unit_test(looks_of_resizes),
        cmocka_unit_test(looks_of_purges),
        cmocka_unit_test(looks_of_aligned_requests),
        cmocka_unit_test(looks_for_rows),
        cmocka_unit_test(alignments),
        cmocka_unit_test(gaps),
        cmocka_unit_test(packing),
    };
    return cmocka_run_group_tests_name("extent", tests, NULL, NULL);
}
