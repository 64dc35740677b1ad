/* lock_rank.c: the order of locks (src/os/lock_rank.h) in the debug build. Taking a pair in the wrong order prints
 * one line with both names and aborts. */
#include "unit.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "large/heap.h"
#include "large/user_heap_table.h"
#include "os/lock.h"
#include "shard/bin.h"

static const char *const names[] = {
#define RANK(name, text) text,
    HAK_LOCK_ORDER(RANK)
#undef RANK
};

extern const hak_lock_rank_row_t __start_hak_lock_ranks[], __stop_hak_lock_ranks[];

static hak_user_heap_t *own; /* a heap of the program */

/* The engine's own lock of a rank, and another one of the same rank: NULL for one that is alone. */
static hak_lock_t *lock_of(unsigned rank, unsigned number) {
    static hak_lock_t without_row[2];
    if (rank == HAK_LOCK_RANK_STACK) return &without_row[number];
    if (rank == HAK_LOCK_RANK_BIN) return &hak_bin_of(0, 1 + number)->lock; /* these are made */
    if (rank == HAK_LOCK_RANK_HEAP) return &hak_heap_at(number)->lock;
    if (rank == HAK_LOCK_RANK_TRANSFER) return &hak_heap_at(number)->transfer_lock;
    if (rank == HAK_LOCK_RANK_FINE && number) return &own->lock;
    for (const hak_lock_rank_row_t *row = __start_hak_lock_ranks; row < __stop_hak_lock_ranks;
         row++) {
        size_t offset = number * row->stride;
        if (row->rank == rank && offset < row->bytes)
            return (hak_lock_t *)((uintptr_t)row->first + offset);
    }
    return NULL;
}

typedef struct {
    unsigned held, taken;
} pair_t;

static void take_pair(const void *context) {
    const pair_t *pair = context;
    hak_lock_acquire_apart(lock_of(pair->held, 0));
    hak_lock_acquire_apart(lock_of(pair->taken, pair->held == pair->taken));
}

static void must_stop(void (*body)(const void *), const void *context, const char *line) {
    struct child_end end;
    child_run(body, context, 20, &end);
    REQUIRE(end.in_time && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT,
            "%s: status %x, stderr \"%s\"", line, (unsigned)end.status, end.err);
    char found[256] = "";
    const char *at = end.err; /* addresses are left out */
    for (size_t i = 0; *at && i + 1 < sizeof found;) {
        if (at[0] == ' ' && at[1] == '0' && at[2] == 'x')
            at += 1 + strcspn(at + 1, " \n");
        else
            found[i++] = *at++;
    }
    REQUIRE(strcmp(found, line) == 0, "\"%s\" instead of \"%s\"", found, line);
}

static void each_wrong_pair_is_named(void **state) {
    (void)state;
    unsigned pairs = 0;
    for (pair_t pair = {0, 0}; pair.held < HAK_LOCK_RANK_COUNT; pair.held++)
        for (pair.taken = 0; pair.taken <= pair.held; pair.taken++) {
            char line[256];
            if (!lock_of(pair.taken, pair.held == pair.taken)) continue;
            snprintf(line, sizeof line,
                     "hakmem: lock order: \"%s\" is waited for while the thread holds \"%s\"\n",
                     names[pair.taken], names[pair.held]);
            must_stop(take_pair, &pair, line);
            pairs++;
        }
    /* Below the diagonal; on it the ranks with several locks: bins, heaps, arrays, heaps of the
     * program, huge blocks, caches, lanes of samples, groups of shards. */
    assert_int_equal(pairs, HAK_LOCK_RANK_COUNT * (HAK_LOCK_RANK_COUNT - 1) / 2 + 8);
}

static void the_right_order_is_silent(void **state) {
    (void)state;
    for (unsigned rank = 0; rank < HAK_LOCK_RANK_COUNT; rank++)
        hak_lock_acquire_apart(lock_of(rank, 0));
    for (unsigned rank = 0; rank < HAK_LOCK_RANK_COUNT; rank++) /* released in any order */
        hak_lock_release_apart(lock_of(rank, 0));
}

static void a_try_has_no_order(void **state) {
    (void)state;
    hak_lock_t *bin = lock_of(HAK_LOCK_RANK_BIN, 0), *second = lock_of(HAK_LOCK_RANK_BIN, 1);
    hak_lock_acquire(second);
    assert_true(hak_lock_try(bin));
    hak_lock_release(second);
    hak_lock_release(bin);
}

static void wait_below_tried(const void *unused) {
    (void)unused;
    hak_lock_try(lock_of(HAK_LOCK_RANK_POOL, 0));
    hak_lock_acquire(lock_of(HAK_LOCK_RANK_BIN, 0));
}

static void release_free(const void *unused) {
    (void)unused;
    hak_lock_release(lock_of(HAK_LOCK_RANK_POOL, 0));
}

static void release_twice(const void *unused) {
    (void)unused;
    hak_lock_acquire(lock_of(HAK_LOCK_RANK_META, 0));
    hak_lock_acquire(lock_of(HAK_LOCK_RANK_BAND_COST, 0));
    hak_lock_release(lock_of(HAK_LOCK_RANK_META, 0));
    hak_lock_release(lock_of(HAK_LOCK_RANK_META, 0));
}

static void what_is_held_is_noted(void **state) {
    (void)state;
    must_stop(wait_below_tried, NULL,
              "hakmem: lock order: \"shard bin\" is waited for while the thread holds \"pool\"\n");
    must_stop(release_free, NULL,
              "hakmem: lock order: \"pool\" is released by a thread that does not hold it\n");
    must_stop(release_twice, NULL,
              "hakmem: lock order: \"records\" is released by a thread that does not hold it\n");
}

int main(void) {
    unit_open_shards(1);
    for (unsigned i = 0; i < 2; i++) hak_heap_open(i);
    own = hak_user_heap_make(0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wrong_pair_is_named),
        cmocka_unit_test(the_right_order_is_silent),
        cmocka_unit_test(a_try_has_no_order),
        cmocka_unit_test(what_is_held_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
