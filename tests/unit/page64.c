/* page64.c: purges with pages of 64 KiB: the test reports that page size to the engine. */
#include "unit.h"

#include <stdbool.h>
#include <string.h>

#include "large/heap.h"
#include "large/large.h"
#include "large/view.h"
#include "os/os.h"

enum {
    PAGE_SIZE = 64 * 1024,
    FIRST = 17 * HAK_GRAIN_SIZE, /* so that each gap begins one grain behind a page */
    KEPT = 18 * HAK_GRAIN_SIZE,
    GAP = 30 * HAK_GRAIN_SIZE, /* and ends one grain before the end of the next */
    GAPS = 10,
    REST = 1000 * 1024,
    RESTS = 8,
    CALL_BYTES = 1024 * 1024, /* of a call's piece */
    SHORT = 20 * HAK_GRAIN_SIZE,
    LONG = 25 * HAK_GRAIN_SIZE,
};

static const char *const variables[] = {"HAKMEM_SHARDS=2", "HAKMEM_PURGE_THREAD=0",
                                        "HAKMEM_SS_SIZE=2M", "HAKMEM_THP=0", NULL};

size_t __wrap_hak_os_page_size(void);
size_t __wrap_hak_os_page_size(void) { return PAGE_SIZE; }

static char *touched(size_t size) {
    char *block = hak_large_alloc(0, size, 1, false);
    REQUIRE(block != NULL, "no memory");
    memset(block, 1, size);
    return block;
}

static void purge(hak_budget_t budget) {
    unsigned heap = 0;
    hak_large_purge_piece(&heap, 0, &budget);
}

static bool is_touched(const char *block, size_t size) {
    return *block == 1 && memcmp(block, block + 1, size - 1) == 0;
}

/* The last page of a block that was freed goes back, although hardly any of it was ever touched: nothing else of it is
 * in use. A page that a block in use has a part of stays. */
static void an_end_within_a_page_goes_back(void **state) {
    (void)state;
    const size_t before = hak_large_idle();
    char *first = touched(SHORT), *second = touched(SHORT), *third = touched(SHORT);
    char *last = touched(LONG);
    REQUIRE((uintptr_t)first % PAGE_SIZE == 0 && last == first + (size_t)3 * SHORT,
            "the blocks are not in a row");
    hak_large_free(0, second);
    hak_large_free(0, last);
    purge(HAK_BUDGET_ALL);
    const size_t most = SHORT + PAGE_SIZE - (size_t)3 * SHORT % PAGE_SIZE;
    CHECK(hak_large_idle() - before == most, "idle are %zu bytes, not %zu",
          hak_large_idle() - before, most);
    CHECK(is_touched(first, SHORT) && is_touched(third, SHORT), "a block has lost its contents");
    hak_large_free(0, first);
    hak_large_free(0, third);
    purge(HAK_BUDGET_ALL);
    CHECK(hak_large_idle() == before, "idle are %zu bytes", hak_large_idle() - before);
    char *zero = hak_large_alloc(0, REST, 1, true);
    REQUIRE(zero != NULL, "no memory");
    CHECK(*zero == 0 && memcmp(zero, zero + 1, REST - 1) == 0, "purged memory is not zero");
    hak_large_free(0, zero);
    purge(HAK_BUDGET_ALL);
}

/* A superslab with more gaps than a piece has room for, none of which holds a whole page, keeps
 * its pages. What became free after it goes back all the same. */
static void gaps_without_a_page_stop_nobody(void **state) {
    (void)state;
    char *gaps[GAPS], *rests[RESTS];
    REQUIRE((uintptr_t)touched(FIRST) % PAGE_SIZE == 0, "the first block begins no page");
    for (int i = 0; i < GAPS; i++) {
        gaps[i] = touched(GAP);
        touched(KEPT);
    }
    for (int i = 0; i < RESTS; i++) rests[i] = touched(REST);
    for (int i = 0; i < GAPS; i++) hak_large_free(0, gaps[i]);
    for (int i = 0; i < RESTS; i++) hak_large_free(0, rests[i]);
    size_t before = hak_large_idle();
    REQUIRE(before >= GAPS * (size_t)GAP + RESTS * (size_t)REST, "idle are %zu bytes", before);
    for (int piece = 0; piece < 2 * RESTS; piece++) purge((hak_budget_t){64, CALL_BYTES});
    size_t most = GAPS * (size_t)GAP + 2 * PAGE_SIZE;
    CHECK(hak_large_idle() <= most, "idle are %zu bytes of %zu", hak_large_idle(), before);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_within_a_page_goes_back),
        cmocka_unit_test(gaps_without_a_page_stop_nobody),
    };
    return cmocka_run_group_tests_name("page64", tests, NULL, NULL);
}
