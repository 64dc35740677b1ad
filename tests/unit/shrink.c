/* shrink.c: a realloc that shortens blocks where they are drives the purge as frees do: it wakes a helper that sleeps,
 * and without a helper its calls give back what is too much. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "hakmem.h"
#include "os/tick.h"
#include "thread/helper_thread.h"
#include "thread/purge_ahead.h"

/* The clock stands: nothing is due. */
uint64_t __wrap_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void) { return 1000000; }

static const char *const plain[] = {"HAKMEM_PURGE_THREAD=0", "HAKMEM_PURGE_DELAY_MS=500", NULL};
static const char *const hardened[] = {"HAKMEM_PURGE_THREAD=0", "HAKMEM_PURGE_DELAY_MS=500",
                                       "HAKMEM_PROFILE=HARDENED", NULL};

enum { BYTES = 64 << 20 };
static const size_t sizes[][2] = {{900 << 10, 100 << 10}, {4 << 20, 5 << 18}};

typedef struct {
    size_t from, to;
    bool in_heap, has_helper;
    bool is_refused; /* a new block of the size: the old one is cut as far as its heap can */
} trial_t;

static void shrink(const void *context) {
    const trial_t *trial = context;
    static void *blocks[BYTES / (900 << 10)];
    const size_t count = BYTES / trial->from;
    hakmem_heap_t *heap = trial->in_heap ? hakmem_heap_new(0) : NULL;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = heap ? hakmem_heap_malloc(heap, trial->from) : hakmem_malloc(trial->from);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, trial->from);
    }
    if (trial->is_refused) hakmem_heap_set_limit(heap, 1);
    if (trial->has_helper) atomic_store(&hak_helper_state, HAK_HELPER_ASLEEP);
    for (size_t i = 0; i < count; i++) {
        void *block = heap ? hakmem_heap_realloc(heap, blocks[i], trial->to)
                           : hakmem_realloc(blocks[i], trial->to);
        CHECK(block == blocks[i], "block %zu moves", i);
    }
    const bool sleeps = atomic_load(&hak_helper_state) == HAK_HELPER_ASLEEP;
    CHECK(!sleeps, "the helper sleeps on");
    const size_t excess = hak_purge_ahead_excess();
    /* Since the last look. */
    CHECK(trial->has_helper || excess < HAK_TICK_INTERVAL, "%zu bytes too many are kept", excess);
}

static void each(void **state) {
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        const trial_t trial = {sizes[i / 4][0], sizes[i / 4][1], i & 2, i & 1, false};
        char what[80];
        snprintf(what, sizeof what, "%zu to %zu bytes%s%s", trial.from, trial.to,
                 trial.in_heap ? ", in a heap" : "", trial.has_helper ? ", with a helper" : "");
        unit_child(shrink, &trial, 60, what);
    }
    for (unsigned i = 0; i < 2; i++) {
        const trial_t trial = {900 << 10, 30 << 10, true, i, true};
        unit_child(shrink, &trial, 60, i ? "without memory, with a helper" : "without memory");
    }
}

static void each_hardened(void **state) {
    struct child_end end;
    (void)state;
    unit_rerun("hardened", hardened, 240, &end);
    REQUIRE(end.in_time && end.status == 0, "hardened: %s", end.err);
}

int main(int argc, char **argv) {
    const struct CMUnitTest here[] = {cmocka_unit_test(each)};
    const struct CMUnitTest all[] = {cmocka_unit_test(each), cmocka_unit_test(each_hardened)};
    const bool is_again = argc > 1;
    unit_need_environment(argv, is_again ? hardened : plain);
    return is_again ? cmocka_run_group_tests_name("shrink.hardened", here, NULL, NULL)
                    : cmocka_run_group_tests_name("shrink", all, NULL, NULL);
}
