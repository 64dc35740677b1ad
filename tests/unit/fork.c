/* fork.c: forks while threads allocate at full speed: the child finds no half-done step. */
#include "unit.h"

#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/cpu_depot.h"
#include "hakmem.h"
#include "large/heap.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/huge_table.h"
#include "large/large.h"
#include "meta/meta.h"
#include "os/cpu.h"
#include "os/gate.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/table.h"
#include "shard/warm_slab.h"
#include "thread/home_group.h"
#include "thread/thread.h"
#include "thread/verify.h"

enum { THREADS = 6, FORKS = 160 / UNIT_DIVISOR, PASSING = 64, SECONDS = 60 };

static atomic_bool stop;
static _Atomic(void *) passing[PASSING]; /* blocks on their way from thread to thread */

static size_t size_of(unsigned number) {
    static const size_t most[] = {200, 3000, 60000, 400000};
    return 1 + number % most[number / 7 % 4];
}

/* Blocks of three tiers, freed by others; now and then all that is free goes back. */
static void *work(void *argument) {
    unsigned number = (unsigned)(uintptr_t)argument * 7919;
    while (!atomic_load(&stop)) {
        for (unsigned i = 0; i < 500; i++) {
            number = number * 1664525 + 1013904223;
            free(atomic_exchange(&passing[number >> 20 & (PASSING - 1)],
                                 malloc(size_of(number >> 8))));
        }
        if (number >> 28 == 0) malloc_trim(0);
    }
    return NULL;
}

/* ---- In the child ---------------------------------------------------------------------------- */

static void is_free(const hak_lock_t *lock, const char *what) {
    CHECK(lock->state == 0, "a lock of %s is held: %u", what, lock->state);
}

static void check_locks(void) {
    static const char others[] = "the process";
    HAK_EACH_SHARD (shard)
        for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
            is_free(&hak_bin_of(shard, i)->lock, "a bin");
    HAK_EACH_HEAP (i) {
        is_free(&hak_heap_at(i)->lock, "a large heap");
        is_free(&hak_heap_at(i)->transfer_lock, "a large heap");
    }
    is_free(&hak_pool_lock, others);
    is_free(&hak_region_lock, others);
    for (unsigned i = 0; i < hak_huge_table_count(); i++) is_free(&hak_huge_table[i].lock, others);
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++) is_free(&hak_kept_parts[i].lock, others);
    is_free(&hak_meta_lock, others);
    is_free(&hak_thread_list_lock, others);
}

typedef struct {
    size_t used_grains, block_grains; /* of large superslabs */
    size_t used_units;
} sums_t;

static bool is_pending(const hak_unit_t *slab) {
    uint16_t owner = slab->owner;
    const hak_unit_t *at = hak_bin_of(hak_owner_shard(owner), hak_owner_class(owner))->pending;
    while (at && at != slab) at = at->pending_next;
    return at != NULL;
}

/* No remote free is half done, and nobody has a claim. */
static void check_slab(const hak_unit_t *slab) {
    unsigned words = hak_classes[hak_owner_class(slab->owner)].words;
    uint64_t found = 0;
    for (unsigned w = 0; w < words; w++)
        if (hak_slab_remote(slab, words)[w]) found |= (uint64_t)1 << w;
    CHECK(found == slab->remote_words, "remote words %#llx, noted are %#llx",
          (unsigned long long)found, (unsigned long long)slab->remote_words);
    CHECK(!found || is_pending(slab), "remote blocks of a slab that is not pending");
    CHECK(!(slab->owner & HAK_OWNER_WARM) || !(slab->slot->state & 1), "a slab is claimed");
}

static void check_superslab(hak_superslab_t *super, void *context) {
    sums_t *sums = context;
    for (unsigned i = 0; i < hak_superslab_units(); i++) {
        const hak_unit_t *unit = &super->units[i];
        bool in_pool = super->free >> i & 1;
        if (super->large) {
            sums->block_grains += hak_large_length(unit->large);
            continue;
        }
        CHECK(in_pool == (unit->owner == 0), "unit %u is lost: owner %#x, %s the pool", i,
              unit->owner, in_pool ? "in" : "not in");
        if (hak_owner_is_bin(unit->owner)) check_slab(unit);
    }
    if (super->large) sums->used_grains += super->used_grains;
    sums->used_units +=
        super->large ? hak_superslab_units() : hak_superslab_units() - hak_bit_count(super->free);
}

/* What is freed is in a transfer array: each such block is counted there. */
static void check_heap(const void *unused) {
    sums_t sums = {0, 0, 0};
    size_t live = 0;
    (void)unused;
    check_locks();
    hak_region_each_superslab(check_superslab, &sums);
    HAK_EACH_HEAP (i) live += hak_heap_at(i)->live;
    CHECK(sums.used_grains == sums.block_grains, "%zu grains are used, those of blocks are %zu",
          sums.used_grains, sums.block_grains);
    CHECK(live == sums.block_grains, "%zu grains are live, those of blocks are %zu", live,
          sums.block_grains);
    CHECK(hak_pool_stats.used_units == sums.used_units, "%zu units are used, counted are %zu",
          sums.used_units, (size_t)hak_pool_stats.used_units);
    malloc_trim(0);
}

static void a_child_finds_no_half_done_step(void **state) {
    pthread_t threads[THREADS];
    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < FORKS; i++) unit_child(check_heap, NULL, SECONDS, "the child's heap");
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < PASSING; i++) free(atomic_exchange(&passing[i], NULL));
}

/* ---- A fork of a thread that is inside -------------------------------------------------------- */

static void *be_inside(void *unused) {
    (void)unused;
    hak_gate_enter();
    usleep(100000);
    hak_gate_leave();
    return NULL;
}

static void go_on_inside(const void *unused) {
    (void)unused;
    CHECK(hak_pool_lock.state == 1, "the interrupted step is not ours");
    hak_lock_release(&hak_pool_lock);
    check_locks();
    free(malloc(100000));
}

/* As in a signal handler that interrupted malloc: the child ends what its thread had begun. */
static void a_thread_that_is_inside_forks(void **state) {
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, be_inside, NULL), 0);
    pthread_detach(thread); /* the child cannot join it, and has it on its sanitizer's list */
    hak_lock_acquire(&hak_pool_lock);
    unit_child(go_on_inside, NULL, SECONDS, "a fork inside");
    hak_lock_release(&hak_pool_lock);
}

/* ---- A fork beside one that began alone ---------------------------------------------------------- */

static enum { AT_REST, ALONE, CLOSED, ENDED } _Atomic phase;
static pthread_t first, beside;

static void await(unsigned end) {
    while (atomic_load(&phase) != end) sched_yield();
}

static void *fork_beside(void *unused) {
    (void)unused;
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
    return NULL;
}

/* The first thread forks alone, and this starts another one, which forks as well. That fork has closed the
 * gate, and waits here until the first one is over. */
static void start_beside(void) {
    if (atomic_load(&phase) == AT_REST) return;
    if (pthread_equal(pthread_self(), first)) {
        if (pthread_create(&beside, NULL, fork_beside, NULL) == 0) await(CLOSED);
    } else {
        atomic_store(&phase, CLOSED);
        await(ENDED);
    }
}

/* Before the engine's own, so it runs after that. */
__attribute__((constructor(101))) static void register_first(void) {
    pthread_atfork(start_beside, NULL, NULL);
}

/* A sanitizer's own thread is one more. */
static void a_fork_alone_leaves_the_gate_to_another_one(void **state) {
    int status = -1;
    (void)state;
    hakmem_free(hakmem_malloc(100));
    if (!hak_os_is_single_threaded()) skip();
    first = pthread_self();
    atomic_store(&phase, ALONE);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(SECONDS * PATIENCE);
        for (unsigned i = 0; i < 3; i++) hakmem_free(hakmem_malloc(100000 << i));
        _exit(hak_gate_is_awaited());
    }
    bool is_closed = hak_gate_is_awaited();
    atomic_store(&phase, ENDED);
    pthread_join(beside, NULL);
    atomic_store(&phase, AT_REST);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    REQUIRE(is_closed, "a fork that began alone opens the gate of another one");
    REQUIRE(!hak_gate_is_awaited(), "the gate stays closed");
    fclose(fopen("/dev/null", "r")); /* takes libc's list of streams */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fork_alone_leaves_the_gate_to_another_one),
        cmocka_unit_test(a_child_finds_no_half_done_step),
        cmocka_unit_test(a_thread_that_is_inside_forks),
    };
    watchdog(110, "a fork test hangs");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
