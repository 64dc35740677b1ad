/* page64.c: purges with pages of 64 KiB: the test reports that page size to the engine. */
#include "unit.h"

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
    for (int piece = 0; piece < 2 * RESTS; piece++) {
        hak_budget_t budget = {64, CALL_BYTES};
        unsigned heap = 0;
        hak_large_purge_piece(&heap, 0, &budget);
    }
    size_t most = GAPS * (size_t)GAP + 2 * PAGE_SIZE;
    CHECK(hak_large_idle() <= most, "idle are %zu bytes of %zu", hak_large_idle(), before);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_without_a_page_stop_nobody),
    };
    return cmocka_run_group_tests_name("page64", tests, NULL, NULL);
}
