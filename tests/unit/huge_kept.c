/* huge_kept.c: mappings of freed huge blocks, which are kept for reuse until a purge. */
#include "unit.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "cache/cache.h"
#include "commit/commit.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/huge_table.h"
#include "options/environment.h"
#include "os/move.h"
#include "os/os.h"
#include "proc.h"
#include "purge.h"
#include "thread/thread.h"

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

/* Two kept mappings with a block between them, of 6 and 4 MiB, of which the second may have few pages. */
enum { FIRST = 6 << 20, SECOND = 4 << 20, BOTH = FIRST + SECOND - (1 << 19) };

static char *keep_two(size_t filled) {
    purge_huge(0);
    assert_true(hak_huge_free(hak_huge_alloc(FIRST + (1 << 20) + SECOND, 1, false)));
    char *first = hak_huge_alloc(FIRST, 1, false), *between = hak_huge_alloc(1 << 20, 1, false);
    char *second = hak_huge_alloc(SECOND, 1, false); /* all three lie in a row */
    assert_ptr_equal(second, between + (1 << 20));
    memset(first, 1, FIRST);
    memset(second, 2, filled);
    assert_int_equal(hak_huge_free(first), FIRST);
    assert_int_equal(hak_huge_free(second), SECOND);
    assert_int_equal(hak_huge_stats.kept_bytes, FIRST + SECOND);
    return between;
}

static void drop_two(char *between, char *block, size_t charged) {
    hak_huge_free(between);
    for (size_t k = 0; k < BOTH; k += 512) REQUIRE(block[k] == 0, "byte %zu is %d", k, block[k]);
    assert_int_equal(hak_huge_free(block), BOTH);
    purge_huge(0);
    assert_int_equal(hak_huge_stats.kept_bytes, 0);
    assert_true(hak_commit_bytes() <= charged + (1 << 20));
}

/* The longer one is lengthened, and pages of the other come to its end: nothing new is touched. */
static void pages_of_another_come_to_the_end(void **state) {
    (void)state;
    if (!hak_os_moves_several()) return;
    purge_huge(0);
    size_t charged = hak_commit_bytes();
    char *between = keep_two(SECOND);
    const size_t held = hak_huge_stats.held_bytes;
    const uint64_t moved = hak_huge_stats.moved;
    const long faults = proc_minor_faults();
    char *block = hak_huge_alloc(BOTH, 1, true);
    memset(block, 3, BOTH);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) /* have faults of their own */
    REQUIRE(proc_minor_faults() - faults < 64, "%ld page faults", proc_minor_faults() - faults);
#else
    (void)faults;
#endif
    memset(block, 0, BOTH);
    assert_int_equal(hak_huge_stats.moved, moved + 1);
    assert_int_equal(hak_huge_stats.held_bytes, held);
    assert_int_equal(hak_huge_stats.kept_bytes, FIRST + SECOND - BOTH);
    drop_two(between, block, charged);
}

/* Absent pages are not worth a move, and a process moves only so many pieces. */
static void few_pages_and_many_pieces_stay(void **state) {
    (void)state;
    const uint64_t moved = hak_huge_stats.moved;
    purge_huge(0);
    size_t charged = hak_commit_bytes();
    for (unsigned many = 0; many < 2; many++) {
        char *between = keep_two(many ? SECOND : SECOND / 4);
        if (many) hak_store_relaxed(&hak_huge_stats.moved, HAK_HUGE_MOVED_MOST);
        char *block = hak_huge_alloc(BOTH, 1, true);
        assert_int_equal(hak_huge_stats.moved, many ? HAK_HUGE_MOVED_MOST : moved);
        assert_int_equal(hak_huge_stats.kept_bytes, SECOND);
        drop_two(between, block, charged);
    }
    hak_store_relaxed(&hak_huge_stats.moved, moved);
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
        cmocka_unit_test(pages_of_another_come_to_the_end),
        cmocka_unit_test(few_pages_and_many_pieces_stay),
        cmocka_unit_test(parts_serve_each_other),
        cmocka_unit_test(what_is_kept_is_bounded),
        cmocka_unit_test(a_piece_gives_whole_pages_back),
        cmocka_unit_test(what_is_old_stays_so),
        cmocka_unit_test(a_piece_looks_at_few_parts),
        cmocka_unit_test(passes_begin_with_other_parts),
        cmocka_unit_test(zeroing_brings_no_pages),
        cmocka_unit_test(blocks_freed_last_are_known),
        cmocka_unit_test(every_knob_shows),
    };
    return cmocka_run_group_tests_name("huge_kept", tests, NULL, NULL);
}
