/* large_sparse.c: large blocks of which the program uses few pages do not keep all of their memory resident; those
 * that it uses as a whole keep it, and are seldom looked at. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "large/large.h"
#include "large/view.h"
#include "options/environment.h"
#include "os/os.h"
#include "purge.h"
#include "region/region.h"
#include "rng.h"

enum {
    DEPTH = 1500, /* blocks, 129 MB */
    ROUNDS = 10,
    SHORTEST = 70000,
    SPREAD = 32000,
    PAGE = 4096,
    PIECE = 1024 * 1024,
    SLACK_KIB = 6 * 1024, /* a heap falls by 4 MiB before the first look */
    LOOKS_MOST =
        9, /* at 1.3 GB freed, with 4 MiB before the first and twice as much before each further one */
    CALLS_OF_LOOK = 16,
    CHURN_LONGEST = 1 << 20,
    TURNS = 100000,
};

static const char *const variables[] = {"HAKMEM_SHARDS=2", "HAKMEM_PURGE_THREAD=0", NULL};

static unsigned calls; /* of mincore */
static bool refuses;

/* Instead of libc's. */
int mincore(void *addr, size_t size, unsigned char *pages) {
    calls++;
    if (!refuses) return (int)syscall(SYS_mincore, addr, size, pages);
    errno = ENOSYS;
    return -1;
}

typedef enum { LAST_FIRST, FIRST_FIRST, AT_RANDOM, ORDERS } order_t;

typedef struct {
    size_t most_kib; /* of the heap resident when all blocks are in use */
    size_t purged, most_purged;
} seen_t;

static void add_resident(hak_superslab_t *super, void *bytes) {
    static unsigned char pages[HAK_SUPERSLAB_SIZE_MAX / HAK_GRAIN_SIZE];
    size_t page = hak_os_page_size();
    if (!hak_load_relaxed(&super->mapped)) return;
    CHECK(syscall(SYS_mincore, super->units[0].base, hak_superslab_size(), pages) == 0, "mincore");
    for (size_t i = 0; i < hak_superslab_size() / page; i++)
        *(size_t *)bytes += pages[i] & 1u ? page : 0;
}

static size_t resident_kib(void) {
    size_t bytes = 0;
    hak_region_each_superslab(add_resident, &bytes);
    return bytes / 1024;
}

/* What the piece of purge work at the end of a free does. */
static void serve(seen_t *seen) {
    hak_budget_t budget = {64, PIECE};
    unsigned heap = 0;
    if (!(hak_load_relaxed(&hak_budget_notes) & HAK_NOTE_SPARSE)) return;
    size_t purged = hak_large_purge_sparse_piece(&heap, &budget);
    if (!hak_budget_is_spent(&budget)) hak_store_relaxed(&hak_budget_notes, 0);
    seen->purged += purged;
    seen->most_purged = hak_max(seen->most_purged, purged);
}

static seen_t use(size_t pages, order_t order) {
    static char *blocks[DEPTH];
    struct rng rng = rng_make(4141);
    seen_t seen = {0};
    purge_large(0);
    calls = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < DEPTH; i++) {
            size_t size = SHORTEST + rng_below(&rng, SPREAD);
            blocks[i] = hak_large_alloc(0, size, 1, false);
            CHECK(blocks[i] != NULL, "no memory");
            for (size_t at = 0; at < hak_min(size, pages * PAGE); at += PAGE) blocks[i][at] = 1;
        }
        seen.most_kib = hak_max(seen.most_kib, resident_kib());
        if (order == AT_RANDOM) rng_shuffle(&rng, (void **)blocks, DEPTH);
        for (unsigned i = 0; i < DEPTH; i++) {
            char *block = blocks[order == LAST_FIRST ? DEPTH - 1 - i : i];
            CHECK(block[0] == 1, "a block has changed");
            CHECK(hak_large_free(0, block), "no block");
            serve(&seen);
        }
    }
    return seen;
}

static void check_sparse(const void *context) {
    order_t order = *(const order_t *)context;
    for (size_t pages = 1; pages <= 4; pages *= 2) {
        seen_t seen = use(pages, order);
        size_t used_kib = DEPTH * pages * PAGE / 1024;
        CHECK(seen.most_kib < 2 * used_kib + SLACK_KIB,
              "order %d: %zu KiB resident with %zu KiB in use", (int)order, seen.most_kib,
              used_kib);
        CHECK(seen.most_purged <= PIECE, "a piece of %zu bytes", seen.most_purged);
    }
}

static void few_pages_of_a_block(void **state) {
    (void)state;
    for (order_t order = 0; order < ORDERS; order++)
        unit_child(check_sparse, &order, 120, "blocks of which few pages are used");
}

static void check_dense(const void *unused) {
    (void)unused;
    seen_t seen = use(SIZE_MAX / PAGE, LAST_FIRST);
    CHECK(seen.purged == 0, "%zu bytes went back", seen.purged);
    CHECK(calls > 0 && calls <= LOOKS_MOST * CALLS_OF_LOOK, "%u calls of mincore", calls);
    CHECK(hak_large_idle() >= (size_t)DEPTH * SHORTEST, "only %zu bytes are kept",
          hak_large_idle());
    purge_large(0);
    CHECK(hak_large_idle() == 0, "%zu bytes are not purged", hak_large_idle());
}

static void all_pages_of_a_block(void **state) {
    (void)state;
    unit_child(check_dense, NULL, 120, "blocks of which all pages are used");
}

/* Of as many blocks as `context` has, one after the other goes and another one comes in its place, each with one page
 * written: what lies between blocks in use is in use again soon, and stays. */
static void check_churn(const void *context) {
    static char *blocks[DEPTH];
    const unsigned count = *(const unsigned *)context;
    struct rng rng = rng_make(4141);
    seen_t seen = {0};
    size_t freed = 0;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned at = rng_below(&rng, count);
        size_t size = HAK_UNIT_SIZE + 1 + rng_below(&rng, CHURN_LONGEST - HAK_UNIT_SIZE);
        if (blocks[at]) freed += hak_large_free(0, blocks[at]);
        serve(&seen);
        blocks[at] = hak_large_alloc(0, size, 1, false);
        CHECK(blocks[at] != NULL, "no memory");
        blocks[at][0] = 1;
    }
    CHECK(seen.purged <= freed / 20, "%u blocks: %zu of %zu KiB went back", count,
          seen.purged / 1024, freed / 1024);
}

static void blocks_that_come_and_go(void **state) {
    (void)state;
    for (unsigned count = 4; count <= 1024; count *= 4)
        unit_child(check_churn, &count, 120, "blocks that come and go");
}

static void check_refused(const void *unused) {
    (void)unused;
    refuses = true;
    seen_t seen = use(1, LAST_FIRST);
    CHECK(calls > 0 && seen.purged == 0, "%u calls, and %zu bytes went back", calls, seen.purged);
}

static void a_kernel_that_does_not_tell(void **state) {
    (void)state;
    unit_child(check_refused, NULL, 120, "mincore is refused");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    hak_options_load();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_pages_of_a_block),
        cmocka_unit_test(all_pages_of_a_block),
        cmocka_unit_test(blocks_that_come_and_go),
        cmocka_unit_test(a_kernel_that_does_not_tell),
    };
    return cmocka_run_group_tests_name("large_sparse", tests, NULL, NULL);
}
