/* huge.c: blocks with a mapping of their own, and the table that finds them. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commit/commit.h"
#include "cache/cache.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/huge_table.h"
#include "meta/meta.h"
#include "options/load.h"
#include "options/options.h"
#include "os/os.h"
#include "purge.h"
#include "thread/thread.h"

enum { BLOCKS = 1500, TURNS = 12000 };

static struct {
    char *start;
    size_t size;
} blocks[BLOCKS];

static void check_sum(void) {
    size_t count = 0, bytes = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        count += blocks[i].start != NULL;
        bytes += blocks[i].start ? blocks[i].size : 0;
    }
    assert_int_equal(hak_huge_count(), count);
    assert_int_equal(hak_huge_bytes(), bytes);
}

/* A block's first and last page say whose it is. */
static void mark(unsigned i) {
    memcpy(blocks[i].start, &i, sizeof i);
    memcpy(blocks[i].start + blocks[i].size - sizeof i, &i, sizeof i);
}

static void check_block(unsigned i) {
    void *start = NULL;
    size_t size = 0;
    char *block = blocks[i].start;
    REQUIRE(hak_huge_size(block) == blocks[i].size, "block %u of %zu bytes has size %zu", i,
            blocks[i].size, hak_huge_size(block));
    REQUIRE(memcmp(block, &i, sizeof i) == 0, "block %u lost its first page", i);
    assert_true(hak_huge_find(block + blocks[i].size / 2, &start, &size));
    assert_ptr_equal(start, block);
    assert_int_equal(size, blocks[i].size);
    assert_true(hak_huge_find(block + blocks[i].size - 1, &start, &size));
    assert_ptr_equal(start, block);
}

static void allocate(unsigned i, size_t page) {
    size_t want = (1 + unit_random(12)) * page - unit_random(100);
    size_t align = (size_t)1 << unit_random(19);
    blocks[i].start = hak_huge_alloc(want, align, true);
    blocks[i].size = hak_align_up(want, page);
    assert_non_null(blocks[i].start);
    REQUIRE((uintptr_t)blocks[i].start % align == 0, "%p is no multiple of %zu",
            (void *)blocks[i].start, align);
    for (size_t k = 0; k < blocks[i].size; k += 512)
        REQUIRE(blocks[i].start[k] == 0, "a new mapping is not zero");
    mark(i);
}

static void resize(unsigned i, size_t page) {
    size_t want = (1 + unit_random(40)) * page - unit_random(100);
    size_t size = hak_align_up(want, page), old_size = blocks[i].size;
    char *old = blocks[i].start, *moved = hak_huge_resize(old, want);
    assert_non_null(moved);
    if (moved != old)
        REQUIRE(hak_huge_size(old) == 0, "the old address %p is still known", (void *)old);
    blocks[i].start = moved;
    blocks[i].size = size;
    unsigned last;
    memcpy(&last, moved + old_size - sizeof i, size >= old_size ? sizeof i : 0);
    if (size >= old_size) REQUIRE(last == i, "block %u lost its last page by a resize", i);
    check_block(i);
    mark(i);
}

static void release(unsigned i) {
    void *start;
    size_t size;
    check_block(i);
    assert_true(hak_huge_free(blocks[i].start));
    assert_false(hak_huge_free(blocks[i].start));
    assert_int_equal(hak_huge_size(blocks[i].start), 0);
    assert_false(hak_huge_find(blocks[i].start, &start, &size));
    blocks[i].start = NULL;
}

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* A longer table is not cleared in the call that needs it: it is fresh memory. */
static void a_long_table_is_fresh_memory(void **state) {
    (void)state;
    enum { SLOTS = 1 << 20 };
    long before = faults();
    hak_slots_t made = hak_huge_table_make(SLOTS);
    assert_non_null(made.slots);
    REQUIRE(faults() - before < 16, "%ld page faults", faults() - before);
    for (unsigned i = 0; i < SLOTS; i++) assert_int_equal(made.slots[i].start, 0);
    hak_huge_table_unmake(made);
}

/* One that another thread was faster to replace serves the next table of its length. */
static void what_is_made_in_vain_is_made_again(void **state) {
    (void)state;
    enum { SLOTS = 1 << 14, TIMES = 100 };
    size_t before = hak_meta_bytes(), length = SLOTS * sizeof(hak_mapping_t);
    for (unsigned time = 0; time < TIMES; time++) {
        hak_slots_t made = hak_huge_table_make(SLOTS);
        assert_non_null(made.slots);
        for (unsigned i = 0; i < SLOTS; i++) assert_int_equal(made.slots[i].start, 0);
        assert_int_equal(made.slots[0].size, 0);
        hak_huge_table_unmake(made);
    }
    REQUIRE(hak_meta_bytes() - before < TIMES / 4 * length, "%zu bytes more for %u times %zu",
            hak_meta_bytes() - before, TIMES, length);
}

/* Pages in memory of a stretch of records. */
static size_t resident(void *start, size_t size) {
    static unsigned char pages[4096];
    size_t count = size / hak_os_page_size(), found = 0;
    REQUIRE(count <= sizeof pages && mincore(start, size, pages) == 0, "no look at %zu pages",
            count);
    for (size_t i = 0; i < count; i++) found += pages[i] & 1;
    return found;
}

/* A table of its own grows from 16 slots to `most`. Returns the longest table that it left on the way, which must have
 * no pages any more. */
static hak_slots_t grow_table(hak_huge_table_t *table, unsigned most) {
    hak_slots_t former = {NULL, 0, 0};
    memset(table, 0, sizeof *table);
    for (uintptr_t start = MIB; table->current.size < most || table->former.size; start += MIB) {
        size_t wanted = hak_huge_table_wanted(table);
        hak_slots_t slots = wanted ? hak_huge_table_make(wanted) : (hak_slots_t){NULL, 0, 0};
        if (wanted) hak_huge_table_use(table, &slots);
        hak_huge_table_unmake(slots);
        hak_huge_table_put(table, (hak_mapping_t){start, MIB, 0});
        slots = hak_huge_table_take_empty(table);
        if (slots.slots) former = slots;
        hak_huge_table_unmake(slots);
        assert_true(hak_huge_table_find(table, start) && hak_huge_table_find(table, MIB));
    }
    return former;
}

/* What a table leaves when it grows has no pages, and serves the next table of that length. */
static void a_table_that_grew_leaves_nothing(void **state) {
    (void)state;
    enum { MOST = 1 << 15, TIMES = 8 };
    static hak_huge_table_t table;
    size_t page = hak_os_page_size(), before = 0;
    for (unsigned time = 0; time < TIMES; time++) {
        hak_slots_t former = grow_table(&table, MOST);
        assert_int_equal(former.size, MOST / 2);
        size_t pages = resident(former.slots, former.size * sizeof *former.slots & ~(page - 1));
        REQUIRE(pages <= 1, "%zu pages of a table that nobody uses", pages);
        hak_huge_table_unmake(table.current);
        if (time == 0) before = hak_meta_bytes();
    }
    assert_int_equal(hak_meta_bytes(), before);
}

/* Grows the table several times, and moves its entries about by removal. */
static void the_table_stays_right(void **state) {
    (void)state;
    size_t page = hak_os_page_size();
    for (unsigned turn = 0; turn < TURNS; turn++) {
        /* The number of blocks swells and ebbs. */
        unsigned i = unit_random(turn / (TURNS / 4) % 2 ? BLOCKS / 8 : BLOCKS);
        if (!blocks[i].start)
            allocate(i, page);
        else if (unit_random(3) == 0)
            resize(i, page);
        else
            release(i);
        if (turn % 1000 == 0) check_sum();
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].start) check_block(i);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].start) release(i);
    check_sum();
}

static void what_is_no_huge_block_is_not_found(void **state) {
    (void)state;
    size_t page = hak_os_page_size(), size;
    void *start;
    char *block = hak_huge_alloc(4 * page, 1, false);
    const void *const others[] = {NULL,         (void *)1,        &size,    block + 1,
                                  block + page, block + 4 * page, block - 1};
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        REQUIRE(hak_huge_size(others[i]) == 0, "%p has a size", others[i]);
        REQUIRE(!hak_huge_free((void *)(uintptr_t)others[i]), "%p is freed", others[i]);
        REQUIRE(!hak_huge_resize((void *)(uintptr_t)others[i], page), "%p is resized", others[i]);
    }
    assert_false(hak_huge_find(block - 1, &start, &size));
    assert_false(hak_huge_find(block + 4 * page, &start, &size));
    assert_true(hak_huge_find(block + 1, &start, &size));
    assert_ptr_equal(start, block);
    assert_true(hak_huge_free(block));
}

static void a_refused_request_changes_nothing(void **state) {
    (void)state;
    size_t page = hak_os_page_size(), too_much = (size_t)1 << 60;
    size_t count = hak_huge_count(), bytes = hak_huge_bytes();
    assert_null(hak_huge_alloc(too_much, 1, false));
    assert_null(hak_huge_alloc(too_much, (size_t)1 << 40, false));
    char *block = hak_huge_alloc(page, 1, false);
    block[0] = 7;
    assert_null(hak_huge_resize(block, too_much));
    assert_int_equal(hak_huge_size(block), page);
    assert_int_equal(block[0], 7);
    assert_true(hak_huge_free(block));
    assert_int_equal(hak_huge_count(), count);
    assert_int_equal(hak_huge_bytes(), bytes);
}

/* ---- reuse ---- */

static void freed_mappings_serve_again(void **state) {
    (void)state;
    enum { SIZE = 6 << 20 };
    purge_huge(0);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
    size_t charged = hak_commit_bytes();
    char *block = hak_huge_alloc(SIZE, 1, false);
    memset(block, 1, SIZE);
    uint64_t mapped = hak_huge_stats.mapped;
    for (unsigned i = 0; i < 100; i++) {
        assert_true(hak_huge_free(block));
        assert_int_equal(hak_huge_stats.kept_bytes, SIZE);
        size_t size = SIZE - unit_random(SIZE / 2);
        block = hak_huge_alloc(size, 1, i % 2);
        if (i % 2) REQUIRE(block[0] == 0 && block[size - 1] == 0, "not zero");
        memset(block, 1, size);
    }
    assert_int_equal(hak_huge_stats.mapped, mapped);
    char *longer = hak_huge_resize(block, SIZE); /* what is behind it is kept */
    assert_ptr_equal(longer, block);
    assert_true(hak_huge_free(block));
    uint64_t grown = hak_huge_stats.grown;
    block = hak_huge_alloc(2 * SIZE, 1, true);
    assert_int_equal(hak_huge_stats.grown, grown + 1);
    for (size_t k = 0; k < 2 * SIZE; k += 512) REQUIRE(block[k] == 0, "not zero at %zu", k);
    assert_true(hak_huge_free(block));
    assert_int_equal(purge_huge(0), 2 * SIZE);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
    assert_true(hak_commit_bytes() <= charged + (1 << 20)); /* records may have grown */
}

/* A thread that is at home elsewhere finds what this one kept. */
static void parts_serve_each_other(void **state) {
    (void)state;
    enum { SIZE = 6 << 20 };
    assert_non_null(hak_thread_cache()); /* its own: others are constant */
    uint8_t home = hak_cache->shard;
    purge_huge(0);
    char *first = hak_huge_alloc(SIZE, 1, false);
    uint64_t mapped = hak_huge_stats.mapped, reused = hak_kept_reused();
    assert_true(hak_huge_free(first));
    hak_cache->shard = home + 1;
    char *second = hak_huge_alloc(SIZE - (1 << 20), 1, false);
    hak_cache->shard = home + 2;
    char *longer = hak_huge_resize(second, SIZE); /* what is behind it is another part's */
    hak_huge_free(longer);
    hak_cache->shard = home;
    assert_ptr_equal(second, first);
    assert_ptr_equal(longer, first);
    assert_int_equal(hak_huge_stats.mapped, mapped);
    assert_int_equal(hak_kept_reused(), reused + 1);
    assert_int_equal(hak_huge_stats.kept_bytes, SIZE);
    assert_int_equal(purge_huge(0), SIZE);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
}

static void what_is_kept_is_bounded(void **state) {
    (void)state;
    static char *held[600];
    for (unsigned i = 0; i < 600; i++) held[i] = hak_huge_alloc((1 + i % 7) << 18, 1, false);
    size_t most = hak_huge_bytes();
    for (unsigned i = 0; i < 600; i += 2) assert_true(hak_huge_free(held[i])); /* all apart */
    assert_true(hak_huge_bytes() + hak_huge_stats.kept_bytes <= most + most / 4 + (32 << 20));
    for (unsigned i = 1; i < 600; i += 2) assert_true(hak_huge_free(held[i]));
    purge_huge(0);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
}

/* What a piece of purge work may still give back is any number of bytes: the size of a small block
 * that was freed, or an eighth less of a peak. */
static void a_piece_gives_whole_pages_back(void **state) {
    enum { SIZE = 20 << 20, PIECE = 1 << 20 };
    (void)state;
    purge_huge(0);
    assert_int_equal(hak_huge_free(hak_huge_alloc(SIZE, 1, false)), SIZE);
    size_t kept = hak_huge_stats.kept_bytes;
    assert_true(kept >= SIZE);
    for (unsigned odd = 1; odd < 4096; odd += 1023) {
        hak_budget_t budget = {64, PIECE + odd};
        size_t given = 0;
        unsigned part = 0;
        hak_huge_purge_piece(&part, 0, &budget, &given);
        REQUIRE(given >= PIECE / 2 && given <= PIECE + odd && given % hak_os_page_size() == 0,
                "%zu bytes of a budget of %u", given, PIECE + odd);
        kept -= given;
        assert_int_equal(hak_huge_stats.kept_bytes, kept);
    }
    purge_huge(0);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
}

/* A piece goes over some of the parts, and the next one over others. */
static void a_piece_looks_at_few_parts(void **state) {
    enum { PARTS = 40, SIZE = 512 << 10, LOOKS = 10, LONG_MS = 1000000 };
    static char *held[PARTS];
    const uint8_t home = hak_cache->shard;
    (void)state;
    purge_huge(0);
    for (unsigned i = 0; i < PARTS; i++) assert_non_null(held[i] = hak_huge_alloc(SIZE, 1, false));
    for (unsigned i = 0; i < PARTS; i++) {
        hak_cache->shard = (uint8_t)i;
        assert_true(hak_huge_free(held[i]));
    }
    hak_cache->shard = home;
    unsigned part = 0, pieces = 0;
    size_t bytes = 0;
    for (bool is_done = false; !is_done; pieces++) {
        hak_budget_t budget = {LOOKS, SIZE_MAX};
        is_done = hak_huge_purge_piece(&part, LONG_MS, &budget, &bytes);
    }
    REQUIRE(pieces >= PARTS / LOOKS && pieces <= 2 * PARTS / LOOKS, "%u pieces", pieces);
    assert_int_equal(bytes, 0);
    part = 0;
    for (bool is_done = false; !is_done;) {
        hak_budget_t budget = {LOOKS, SIZE_MAX};
        is_done = hak_huge_purge_piece(&part, 0, &budget, &bytes);
    }
    assert_int_equal(bytes, PARTS * SIZE);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
}

/* The same part gets a mapping before each pass; passes that end early still come to the others. */
static void passes_begin_with_other_parts(void **state) {
    enum { PARTS = 4, SIZE = 512 << 10, PASSES = 16 };
    const uint8_t home = hak_cache->shard;
    char *held[PARTS + PASSES];
    (void)state;
    purge_huge(0);
    for (unsigned i = 0; i < PARTS + PASSES; i++)
        assert_non_null(held[i] = hak_huge_alloc(SIZE, 1, false));
    for (unsigned i = 0; i < PARTS + PASSES; i++) {
        hak_cache->shard = (uint8_t)(i < PARTS ? i : 0);
        assert_int_equal(hak_huge_free(held[i]), SIZE);
        hak_budget_t budget = {64, SIZE};
        unsigned part = 0;
        size_t bytes = 0;
        if (i >= PARTS) hak_huge_purge_piece(&part, 0, &budget, &bytes);
    }
    hak_cache->shard = home;
    for (unsigned i = 1; i < PARTS; i++)
        REQUIRE(hak_kept_parts[i].bytes == 0, "part %u has lost nothing", i);
    REQUIRE(hak_kept_parts[0].bytes > 0, "the first part has lost all");
    purge_huge(0);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
}

/* What calloc takes from what is kept stays as absent as the program left it. */
static void zeroing_brings_no_pages(void **state) {
    enum { SIZE = 64 << 20, DENSE = SIZE / 8, STEP = SIZE / 16 };
    (void)state;
    size_t page = hak_os_page_size(), present = 0;
    static unsigned char in_memory[SIZE / 4096];
    purge_huge(0);
    char *block = hak_huge_alloc(SIZE, 1, false);
    memset(block, 1, DENSE);
    for (size_t i = 0; i < SIZE; i += STEP) block[i] = 1;
    assert_int_equal(hak_huge_free(block), SIZE);
    uint64_t reused = hak_kept_reused();
    char *again = hak_huge_alloc(SIZE, 1, true);
    assert_ptr_equal(again, block);
    assert_int_equal(hak_kept_reused(), reused + 1);
    assert_int_equal(mincore(again, SIZE, in_memory), 0);
    for (size_t i = 0; i < SIZE / page; i++) present += in_memory[i] & 1u;
    REQUIRE(present * page < SIZE / 2, "%zu of %zu pages are in memory", present, SIZE / page);
    for (size_t i = 0; i < SIZE; i += 512) REQUIRE(again[i] == 0, "byte %zu is not zero", i);
    assert_int_equal(hak_huge_free(again), SIZE);
    purge_huge(0);
}

/* ---- a clock that can be set ---- */

static uint64_t set_ms; /* 0: the system's */

uint64_t __real_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void) { return set_ms ? set_ms : __real_hak_os_now_ms(); }

/* A block that is freed at one time goes back when it is old enough, however long that is. */
static void look_later(const void *context) {
    static const uint64_t starts[] = {5000, INT32_MAX - 500u, UINT32_MAX - 500u, 1ull << 40};
    static const uint64_t later[] = {1000,       100000,           1ull << 31, (1ull << 31) + 5000,
                                     1ull << 32, (1ull << 32) + 1, 5ull << 32, 1ull << 50};
    enum { SIZE = 2 << 20 };
    (void)context;
    purge_huge(0);
    for (unsigned i = 0; i < sizeof starts / sizeof *starts; i++)
        for (unsigned k = 0; k < sizeof later / sizeof *later; k++) {
            set_ms = starts[i];
            CHECK(hak_huge_free(hak_huge_alloc(SIZE, 1, false)) == SIZE, "not freed");
            set_ms = starts[i] + 999;
            CHECK(purge_huge(1000) == 0, "old after 999 ms");
            set_ms = starts[i] + later[k];
            CHECK(purge_huge(1000) == SIZE, "freed at %llu, not old at %llu",
                  (unsigned long long)starts[i], (unsigned long long)set_ms);
        }
}

static void what_is_old_stays_so(void **state) {
    (void)state;
    unit_child(look_later, NULL, 20, "looks at any time");
}

/* A second free names the block as freed, whatever has become of its memory: 255 other blocks of its
 * table may be freed between, all may have gone back, and the table may have grown. */
static void blocks_freed_last_are_known(void **state) {
    enum { LAST = 256, SIZE = 1 << 20 };
    static char *held[2 * LAST];
    size_t size;
    (void)state;
    for (unsigned i = 0; i < 2 * LAST; i++) held[i] = hak_huge_alloc(SIZE, 1, false);
    for (unsigned i = 0; i < 2 * LAST; i++) assert_int_equal(hak_huge_free(held[i]), SIZE);
    purge_huge(0);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
    for (unsigned i = LAST; i < 2 * LAST; i++)
        REQUIRE(hak_huge_was_freed(held[i], &size) && size == SIZE, "not known: %u frees ago",
                2 * LAST - i);
    char *last = NULL;
    for (unsigned i = 0; i < LAST; i++) hak_huge_free(last = hak_huge_alloc(SIZE, 1, false));
    purge_huge(0);
    hak_huge_table_t *table = hak_huge_table_of((uintptr_t)last);
    for (unsigned i = 0; i < 2 * LAST; i++)
        if (held[i] != last && hak_huge_table_of((uintptr_t)held[i]) == table)
            REQUIRE(!hak_huge_was_freed(held[i], &size), "known after %u frees", LAST);
    unsigned slots = table->current.size, count = 0;
    static char *more[16 * LAST];
    while (table->current.size == slots && count < 16 * LAST)
        more[count++] = hak_huge_alloc(SIZE, 1, false);
    assert_true(table->current.size > slots);
    assert_true(hak_huge_was_freed(last, &size) && size == SIZE);
    while (count > 0) hak_huge_free(more[--count]);
}

/* ---- knobs: this program again, in another environment ---- */

static int show_counters(void) {
    char *held[8];
    for (unsigned turn = 0; turn < 4; turn++) {
        for (unsigned i = 0; i < 8; i++) held[i] = hak_huge_alloc(2 << 20, 1, false);
        for (unsigned i = 0; i < 8; i++) CHECK(hak_huge_free(held[i]), "not freed");
    }
    CHECK(hak_huge_free(hak_huge_alloc(20 << 20, 1, false)),
          "not freed"); /* longer than some budgets */
    fprintf(stderr, "%llu %llu %zu\n", (unsigned long long)hak_huge_stats.mapped,
            (unsigned long long)hak_huge_stats.unmapped, (size_t)hak_huge_stats.kept_bytes);
    return 0;
}

static void with(const char *setting, unsigned long long most_unmapped,
                 unsigned long long least_unmapped, size_t least_kept, size_t most_kept) {
    struct child_end end;
    unsigned long long mapped = 0, unmapped = 0;
    size_t kept = 0;
    const char *environment[] = {"HAKMEM_PURGE_THREAD=0", setting, NULL};
    unit_rerun("counters", environment, 60, &end);
    REQUIRE(end.status == 0 && sscanf(end.err, "%llu %llu %zu", &mapped, &unmapped, &kept) == 3,
            "%s: status %#x, %s", setting, (unsigned)end.status, end.err);
    REQUIRE(unmapped <= most_unmapped && unmapped >= least_unmapped && kept >= least_kept &&
                kept <= most_kept,
            "%s: mapped %llu, unmapped %llu, kept %zu", setting, mapped, unmapped, kept);
}

static void every_knob_shows(void **state) {
    (void)state;
    with("HAKMEM_DISABLE_BATCH=0", 0, 0, 20 << 20, 32 << 20);
    with("HAKMEM_DISABLE_BATCH=1", 33, 33, 0, 0);
    with("HAKMEM_HUGE_CACHE=0", 33, 33, 0, 0);
    with("HAKMEM_HUGE_CACHE=4M", 32, 9, 3 << 20, 4 << 20);
}

int main(int argc, char **argv) {
    static const char *const variables[] = {"HAKMEM_PURGE_THREAD=0", NULL};
    if (argc == 2 && strcmp(argv[1], "counters") == 0) {
        hak_options_load();
        return show_counters();
    }
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_mappings_serve_again),
        cmocka_unit_test(parts_serve_each_other),
        cmocka_unit_test(what_is_kept_is_bounded),
        cmocka_unit_test(a_piece_gives_whole_pages_back),
        cmocka_unit_test(what_is_old_stays_so),
        cmocka_unit_test(a_piece_looks_at_few_parts),
        cmocka_unit_test(passes_begin_with_other_parts),
        cmocka_unit_test(zeroing_brings_no_pages),
        cmocka_unit_test(blocks_freed_last_are_known),
        cmocka_unit_test(every_knob_shows),
        cmocka_unit_test(a_long_table_is_fresh_memory),
        cmocka_unit_test(what_is_made_in_vain_is_made_again),
        cmocka_unit_test(a_table_that_grew_leaves_nothing),
        cmocka_unit_test(the_table_stays_right),
        cmocka_unit_test(what_is_no_huge_block_is_not_found),
        cmocka_unit_test(a_refused_request_changes_nothing),
    };
    return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
