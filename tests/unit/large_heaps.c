/* large_heaps.c: heaps of blocks above 64 KiB: whose CPU has which, and what they lend to each other and to the pool. */
#include "unit.h"

#include <pthread.h>

#include "cpu.h"
#include "hakmem.h"
#include "large/heap.h"
#include "large/large.h"
#include "large/view.h"
#include "os/cpu.h"
#include "os/os.h"
#include "pool/pool.h"
#include "purge.h"

enum { LEAST = HAK_CLASS_MAX + 1 };

static const char *const variables[] = {"HAKMEM_SHARDS=8", "HAKMEM_PURGE_THREAD=0", NULL};

/* A superslab that is wholly free serves small blocks before a new one is made. */
static void free_superslabs_are_lent(void **state) {
    (void)state;
    enum { COUNT = 64 };
    static hak_unit_t *units[4096];
    void *blocks[COUNT];
    bool zeroed;
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_large_alloc(0, HAK_LARGE_MAX, 1, false);
    for (unsigned i = 0; i < COUNT; i++) assert_true(hak_large_free(0, blocks[i]));
    assert_true(hak_heap_at(0)->lent >= COUNT / 2);
    uint64_t fresh = hak_pool_stats.stage3;
    unsigned count = 0;
    while (hak_heap_at(0)->lent > 0 && count < 4096) units[count++] = hak_pool_take(1, &zeroed);
    assert_int_equal(hak_pool_stats.stage3, fresh);
    while (count > 0) hak_pool_give(units[--count], 1);
}

enum { FIRST_NEW = 100 }; /* from here on heaps have nothing yet */

/* What a pool that has no free unit asks of heaps that are at work: the recent blocks of one of them. */
static void a_borrow_asks_little(const void *unused) {
    enum { HEAPS = 64, WAITING = 200, MISSES = 20 };
    static void *blocks[HEAPS][WAITING + 1];
    bool zeroed;
    (void)unused;
    CHECK(hakmem_option_set("L25_TC_SPILL", "200") == 0, "no option");
    purge_large(0);
    for (unsigned h = 0; h < HEAPS; h++)
        for (unsigned i = 0; i <= WAITING; i++)
            blocks[h][i] = hak_large_alloc(FIRST_NEW + h, LEAST, 1, false);
    for (unsigned h = 0; h < HEAPS; h++) {
        for (unsigned i = 1; i <= WAITING; i++) hak_large_free(0, blocks[h][i]);
        hak_large_free(FIRST_NEW + h, blocks[h][0]); /* beside the next in a superslab */
    }
    for (unsigned miss = 0; miss < MISSES; miss++) {
        unsigned recent = 0;
        uint64_t fresh = hak_pool_stats.stage3;
        while (hak_pool_stats.stage3 == fresh) CHECK(hak_pool_take(1, &zeroed), "no unit");
        for (unsigned h = 0; h < HEAPS; h++) {
            const hak_heap_t *heap = hak_heap_at(FIRST_NEW + h);
            recent += heap->recent.count;
            CHECK(heap->transfer_count == WAITING, "%u of %u blocks wait in heap %u",
                  heap->transfer_count, (unsigned)WAITING, FIRST_NEW + h);
        }
        CHECK(recent + miss + 1 == HEAPS, "%u recent blocks after %u misses", recent, miss + 1);
    }
}

/* A recent block may be all that keeps a superslab, of one heap or another, from the pool. */
static void a_recent_block_keeps_no_superslab(const void *unused) {
    enum { HEAPS = 4 };
    void *blocks[HEAPS];
    bool zeroed;
    (void)unused;
    purge_large(0);
    for (unsigned i = 0; i < HEAPS; i++)
        blocks[i] = hak_large_alloc(FIRST_NEW + i, LEAST, 1, false);
    for (unsigned i = 0; i < HEAPS; i++) hak_large_free(FIRST_NEW + i, blocks[i]);
    uint64_t fresh = hak_pool_stats.stage3;
    unsigned units = HEAPS * hak_superslab_units();
    for (unsigned i = 0; i < units; i++) CHECK(hak_pool_take(1, &zeroed), "no unit");
    CHECK(hak_pool_stats.stage3 == fresh, "%u superslabs are mapped",
          (unsigned)(hak_pool_stats.stage3 - fresh));
}

static void check_about(size_t most) {
    size_t idle = hak_large_idle(), about = hak_large_idle_about();
    CHECK(hak_max(idle, about) - hak_min(idle, about) <= most, "%zu bytes are idle, not about %zu",
          idle, about);
}

/* What leaves a heap, or merges in it, when the pool borrows is published as by any other call. */
static void a_borrow_is_published(const void *unused) {
    enum { COUNT = 64, WAITING = 200, HEAP = 3, MOST = 4 << 20 };
    void *blocks[WAITING];
    bool zeroed;
    (void)unused;
    CHECK(hakmem_option_set("L25_TC_SPILL", "200") == 0, "no option");
    purge_large(0);
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_large_alloc(0, HAK_LARGE_MAX, 1, false);
    for (unsigned i = 0; i < COUNT; i++) hak_large_free(0, blocks[i]);
    CHECK(hak_heap_at(0)->lent >= COUNT / 2, "%zu superslabs", (size_t)hak_heap_at(0)->lent);
    while (hak_heap_at(0)->lent > 0) {
        CHECK(hak_pool_take(1, &zeroed), "no unit");
        check_about(MOST);
    }
    for (unsigned i = 0; i < WAITING; i++)
        blocks[i] = hak_large_alloc(HEAP, HAK_LARGE_MAX, 1, false);
    for (unsigned i = 0; i < WAITING; i++) hak_large_free(HEAP + 1, blocks[i]);
    for (unsigned i = 0; i < 2 * hak_superslab_units(); i++) {
        CHECK(hak_pool_take(1, &zeroed), "no unit");
        check_about(2 * MOST);
    }
}

static void heaps_lend_in_small_steps(void **state) {
    (void)state;
    unit_child(a_borrow_asks_little, NULL, 60, "little");
    unit_child(a_recent_block_keeps_no_superslab, NULL, 60, "recent");
    unit_child(a_borrow_is_published, NULL, 60, "published");
}

/* A heap that its own CPU works with keeps free memory, half as much as it has in use; one that
 * another CPU worked with last keeps none. */
static void a_busy_heap_keeps_some(const void *unused) {
    enum { COUNT = 300, SIZE = 2 * HAK_UNIT_SIZE, WANTED = 100, RUN = 16 };
    (void)unused;
    void *blocks[COUNT];
    purge_large(0);
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_large_alloc(0, SIZE, 1, false);
    for (unsigned i = 1; i < COUNT; i += 4) hak_large_free(0, blocks[i]);
    uint64_t stolen = hak_large_stats().stolen, runs = hak_large_stats().runs;
    while (hak_large_stats().runs == runs) {
        CHECK(hak_large_alloc(1, SIZE, 1, false), "no block");
        CHECK(hak_large_stats().stolen == stolen, "a block of a heap that has a third to spare");
    }
    for (unsigned i = 2; i < COUNT; i += 4) hak_large_free(0, blocks[i]);
    for (unsigned i = 0; i < WANTED; i++) CHECK(hak_large_alloc(1, SIZE, 1, false), "no block");
    stolen = hak_large_stats().stolen - stolen;
    CHECK(stolen >= WANTED - RUN, "%u of %u blocks", (unsigned)stolen, (unsigned)WANTED);
    hak_large_free(0, blocks[3]); /* its own CPU works with it again */
    runs = hak_large_stats().runs;
    for (unsigned i = 0; i < 2 * RUN && hak_large_stats().runs == runs; i++)
        CHECK(hak_large_alloc(1, SIZE, 1, false), "no block");
    CHECK(hak_large_stats().runs > runs, "a heap takes from one that is worked with again");
}

/* What another CPU has freed serves that CPU, before fresh memory does. */
static void what_came_back_serves(const void *unused) {
    enum { COUNT = 4, SIZE = HAK_LARGE_MAX - HAK_UNIT_SIZE };
    (void)unused;
    void *blocks[COUNT];
    for (unsigned i = 0; i < COUNT; i++) blocks[i] = hak_large_alloc(0, SIZE, 1, false);
    for (unsigned i = 0; i < COUNT; i++) CHECK(hak_large_free(1, blocks[i]), "not known");
    const uint64_t stolen = hak_large_stats().stolen, runs = hak_large_stats().runs;
    for (unsigned i = 0; i < COUNT; i++) CHECK(hak_large_alloc(1, SIZE, 1, false), "no block");
    CHECK(hak_large_stats().runs == runs, "fresh memory beside %u free blocks", (unsigned)COUNT);
    CHECK(hak_large_stats().stolen == stolen + COUNT, "not all came from the other heap");
}

static void *no_work(void *unused) { return unused; }

static void one_thread_has_one_heap(const void *unused) {
    (void)unused;
    stay_on_cpu(1);
    CHECK(hak_large_home() == 0, "heap %u", hak_large_home());
}

static void the_home_is_the_cpus(const void *unused) {
    (void)unused;
    pthread_t thread; /* what a process of one thread does tells nothing */
    CHECK(pthread_create(&thread, NULL, no_work, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    unsigned count = hak_os_cpu_count();
    for (int cpu = 0; cpu < 2; cpu++) {
        stay_on_cpu(cpu);
        CHECK(hak_os_this_cpu() == (unsigned)cpu, "CPU %d of %u is number %u", cpu, count,
              hak_os_this_cpu());
        CHECK(hak_large_home() == (unsigned)cpu, "heap %u", hak_large_home());
    }
}

static void each_cpu_has_a_heap(void **state) {
    (void)state;
    if (hak_os_cpu_count() < 2) skip(); /* or the time of one */
    unit_child(the_home_is_the_cpus, NULL, 60, "home");
#ifndef __SANITIZE_THREAD__ /* has a thread of its own */
    if (hak_os_knows_threads()) unit_child(one_thread_has_one_heap, NULL, 60, "one thread");
#else
    (void)one_thread_has_one_heap;
#endif
}

static void other_cpus_take_what_they_freed(void **state) {
    (void)state;
    unit_child(what_came_back_serves, NULL, 60, "came back");
}

static void heaps_share_what_they_can_spare(void **state) {
    (void)state;
    unit_child(a_busy_heap_keeps_some, NULL, 60, "share");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_cpus_take_what_they_freed), /* first: of heaps that are new */
        cmocka_unit_test(free_superslabs_are_lent),
        cmocka_unit_test(heaps_lend_in_small_steps),
        cmocka_unit_test(each_cpu_has_a_heap),
        cmocka_unit_test(heaps_share_what_they_can_spare),
    };
    return cmocka_run_group_tests_name("large_heaps", tests, NULL, NULL);
}
