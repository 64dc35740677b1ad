/* counters.c - programs that move the figures of stats.def; those of the debug build: ways.c. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu.h"
#include "trials.h"

/* ---- Programs -------------------------------------------------------------------------------- */

void hold(void) { allocate_some(COUNT, SIZE); }

void hold_and_free(void) {
    hold();
    free_some(COUNT);
}

void free_and_trim(void) {
    hold_and_free();
    API(malloc_trim)(0);
}

/* 2^17 call stacks. */
__attribute__((noinline)) static void allocate_below(unsigned depth) {
    if (depth == 0) {
        API(free)(kept);
        kept = API(malloc)(SIZE);
        return;
    }
    allocate_below(depth - 1);
    __asm__ volatile("");
    allocate_below(depth - 1);
    __asm__ volatile(""); /* no tail call */
}

static void allocate_everywhere(void) { allocate_below(17); }

static void hold_heaps(void) {
    for (int i = 0; i < 20; i++) {
        hakmem_heap_t *heap = hakmem_heap_new(0);
        CHECK(heap && hakmem_heap_malloc(heap, 100) && hakmem_heap_malloc(heap, 70000) &&
                  hakmem_heap_malloc(heap, 2 * MIB + 1),
              "no block of a heap");
    }
}

static void double_limits(void) {
    CHECK(hakmem_option_set("CACHE_BUDGET", "128M") == 0 &&
              hakmem_option_set("LIMIT_SOFT", "128M") == 0,
          "an option is refused");
}

static void hold_empty(void) { allocate_some(COUNT, 0); }

static void hold_and_free_empty(void) {
    hold_empty();
    free_some(COUNT);
}

static void hold_empty_in_heap(void) {
    hakmem_heap_t *heap = hakmem_heap_new(0);
    for (int i = 0; i < COUNT; i++)
        CHECK(heap && hakmem_heap_malloc(heap, 0), "no block of a heap");
}

static void hold_every_other(void) {
    hold();
    for (int i = 0; i < COUNT; i += 2) API(free)(blocks[i]);
    API(malloc_trim)(0);
}

/* One block fills a slab; an emptied slab is kept and used again. */
static void empty_and_fill_slabs(void) {
    for (int round = 0; round < 2; round++) {
        allocate_some(COUNT, 61440);
        free_some(COUNT);
    }
}

/* The same with the class that is looked at. */
static void empty_and_fill_small_slabs(void) {
    for (int round = 0; round < 20; round++) {
        allocate_some(10 * COUNT, SIZE);
        free_some(10 * COUNT);
    }
    empty_and_fill_slabs();
}

static void *allocate_there(void *unused) {
    (void)unused;
    for (int i = 0; i < 10; i++) kept = API(malloc)(SIZE);
    return NULL;
}

static void *free_there(void *trim) {
    kept = API(malloc)(SIZE);
    free_some(COUNT);
    if (trim) API(malloc_trim)(0);
    return NULL;
}

void in_a_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* The thread's home is the other shard; its own has no used blocks, this one's has. */
void allocate_in_another_shard(void) {
    hold_every_other();
    in_a_thread(allocate_there, NULL);
}

void free_in_another_shard(void) {
    hold();
    in_a_thread(free_there, NULL);
}

void free_in_another_shard_and_drain(void) {
    hold();
    in_a_thread(free_there, blocks);
}

static void *stay(void *is_there) {
    void *volatile own = API(malloc)(SIZE);
    (void)own;
    sem_post(is_there);
    for (;;) pause();
    return NULL;
}

static void have_threads(int count) {
    static sem_t is_there;
    pthread_t thread;
    CHECK(sem_init(&is_there, 0, 0) == 0, "no semaphore");
    for (int i = 0; i < count; i++)
        CHECK(pthread_create(&thread, NULL, stay, &is_there) == 0, "no thread");
    for (int i = 0; i < count; i++)
        while (sem_wait(&is_there) != 0) continue;
}

static void have_a_thread(void) { have_threads(1); }

static void hold_one_of_each_tier(void) {
    static const size_t sizes[] = {100, 10000, 300000, 3 * MIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) blocks[i] = API(malloc)(sizes[i]);
}

static void free_mid(void) {
    allocate_some(10 * COUNT, 10000);
    for (int i = 0; i < 10 * COUNT; i++) memset(blocks[i], 1, 10000);
    free_some(10 * COUNT);
}

static void trim_mid(void) {
    free_mid();
    API(malloc_trim)(0);
}

enum { OFF_CLASS = 4112, OFF_CLASS_COUNT = 6000 };

/* So many that they get a class of their own; it is there once half of them are. */
static void hold_off_class(void) { allocate_some(OFF_CLASS_COUNT, OFF_CLASS); }

/* The ring gets deep; what it gives up comes back by refills. */
static void swing_mid(void) {
    for (int round = 0; round < 20; round++) {
        allocate_some(COUNT / 10, 10000);
        free_some(COUNT / 10);
    }
}

/* More threads than CPUs: what the ring gives up waits in the CPU's depot. */
void swing_beside_threads(void) {
    have_threads((int)sysconf(_SC_NPROCESSORS_CONF));
    swing_mid();
}

static void have_many_threads(void) { have_threads(8); }

static void populate(void) {
    CHECK(hakmem_option_set("SS_PREFAULT", "2") == 0, "there is no SS_PREFAULT");
    allocate_some(COUNT, 10000);
}

/* 100 MB in slabs. */
static void grow_ragged(void) {
    for (int i = 0; i < 3000; i++) kept = API(malloc)(33000); /* a slab each, half of it unused */
}

static void grow_dense(void) {
    for (int i = 0; i < 100000; i++) kept = API(malloc)(1000);
}

/* One block in each slab stays. */
static void purge_sparse(void) {
    allocate_some(10 * COUNT, SIZE);
    for (int i = 0; i < 10 * COUNT; i++)
        if (i % 292) API(free)(blocks[i]);
    API(malloc_trim)(0);
}

/* Each superslab keeps a block, which is a slab. */
static void purge_live_superslabs(void) {
    allocate_some(COUNT, 61440);
    for (int i = 0; i < COUNT; i++)
        if (i % 4) API(free)(blocks[i]);
    API(malloc_trim)(0);
}

static void go_beyond_the_budget(void) {
    CHECK(hakmem_option_set("SS_BUDGET", "2") == 0, "there is no SS_BUDGET");
    allocate_some(COUNT, 61440);
}

static void *allocate_slab_there(void *unused) {
    kept = API(malloc)(61440);
    return unused;
}

/* A slab that this thread's shard keeps empty, and a thread of the other shard. */
void leave_empty_slabs(void) {
    allocate_some(100, 61440);
    free_some(100);
    in_a_thread(allocate_slab_there, NULL);
}

/* Half a KiB of bitmap for each 32 KiB. */
static void hold_very_small(void) {
    for (int i = 0; i < 2 * MIB; i++) kept = API(malloc)(8);
}

static void choose(const char *policy) {
    CHECK(hakmem_option_set("TINY_POLICY_PROFILE", policy) == 0, "there is no policy %s", policy);
}

/* More blocks than a cache holds, until the policy has looked at it. */
static void work_and_learn(void) {
    choose("auto");
    CHECK(hakmem_option_set("LEARN", "on") == 0, "there is no LEARN");
    for (int round = 0; round < 50; round++) {
        allocate_some(10 * COUNT, SIZE);
        free_some(10 * COUNT);
    }
}

/* Only a thread that has made some hundred slow calls binds slabs. */
static void grow_old(void) {
    for (int round = 0; round < 10; round++) {
        allocate_some(COUNT, 61440);
        free_some(COUNT);
    }
}

static void promote_all(void) {
    grow_old();
    choose("tinyplus_all");
}

static void promote_all_and_none(void) {
    promote_all();
    choose("legacy");
}

/* Slabs half of whose blocks are free, then refills from them, up to that block. */
void refill_warm_to(int last) {
    promote_all();
    hold_every_other();
    for (int i = 0; i < last; i += 2) blocks[i] = API(malloc)(SIZE);
}

void refill_warm(void) { refill_warm_to(COUNT); }

/* The slabs have some left. */
static void refill_warm_in_part(void) { refill_warm_to(COUNT / 4); }

static void refill_warm_and_trim(void) {
    refill_warm_in_part();
    API(malloc_trim)(0);
}

/* The thread that has the slabs rests; two looks find that out. */
static void *sweep_there(void *unused) {
    API(malloc_trim)(0);
    return unused;
}

static void rest_warm(void) {
    refill_warm_in_part();
    in_a_thread(sweep_there, NULL);
}

static void refill_cold(void) {
    choose("legacy");
    hold_every_other();
    for (int i = 0; i < COUNT; i += 2) blocks[i] = API(malloc)(SIZE);
}

/* ---- The table ------------------------------------------------------------------------------- */

const struct trial counter_trials[] = {
    {"classes", "uc_miss", hold, 1, COUNT},
    {"classes", "shared_lock", hold, 1, any},
    {"classes", "refilled", hold, COUNT - 100, 2 * COUNT},
    {"classes", "flushed", free_and_trim, COUNT, 2 * COUNT},
    {"classes", "flushed", hold, 0, 0},
    {"classes", "probe_hits", allocate_in_another_shard, 1, COUNT},
    {"classes", "remote_frees", free_in_another_shard_and_drain, COUNT, COUNT},
    {"classes", "drained", free_in_another_shard_and_drain, COUNT, COUNT},
    {"classes", "stage1", empty_and_fill_small_slabs, 1, any},
    {"classes", "warm_hit", refill_warm, 1, COUNT},
    {"classes", "warm_hit", refill_cold, 0, 0},
    {"classes", "tls_carve_attempt", refill_warm, 1, COUNT},
    {"classes", "tls_carve_success", refill_warm, 1, COUNT},
    {"classes", "tls_carve_success", refill_cold, 0, 0},
    {"classes", "refilled", refill_warm, COUNT + COUNT / 2 - 100, 2 * COUNT},
    {"warm", "hits", refill_warm, 1, COUNT},
    {"warm", "misses", refill_warm, 1, COUNT},
    {"warm", "prefilled", refill_warm, 1, 40},
    {"warm", "prefilled", refill_cold, 0, 0},
    {"warm", "bound", refill_warm_in_part, 1, 4},
    {"warm", "bound", refill_warm_and_trim, 0, 0},
    {"warm", "bound", rest_warm, 0, 0},
    {"warm", "revoked", rest_warm, 1, 40},
    {"classes", "live", hold, COUNT, COUNT},
    {"classes", "live_bytes", hold, COUNT *SIZE, COUNT *SIZE},
    {"classes", "cached", hold_and_free, 1, COUNT},
    {"classes", "cached_bytes", hold_and_free, SIZE, COUNT *SIZE},
    {"classes", "free", hold_every_other, 1, COUNT},
    {"classes", "slabs", hold, 3, 4},
    {"bands", "score", work_and_learn, 1000, any},
    {"bands", "promoted", work_and_learn, 1, 1},
    {"bands", "promoted", promote_all, 1, 1},
    {"bands", "promoted", promote_all_and_none, 0, 0},
    {"policy", "looks", work_and_learn, 1, 50},
    {"policy", "promotions", promote_all, 7, 8},
    {"policy", "demotions", promote_all_and_none, 8, 8},
    {"tiers", "live", hold_one_of_each_tier, 1, 1},
    {"tiers", "live_bytes", hold_one_of_each_tier, 100, 4 * MIB},
    {"total", "live", hold, COUNT, COUNT},
    {"total", "live_bytes", hold, COUNT *SIZE, COUNT *SIZE},
    {"total", "live_bytes", hold_huge, 64 * MIB, 64 * MIB + 1024},
    {"total", "uc_miss", hold, 1, COUNT},
    {"total", "shared_lock", hold, 1, any},
    {"total", "cached", hold_and_free, 1, COUNT},
    {"total", "cached_bytes", hold_and_free, SIZE, COUNT *SIZE},
    {"total", "free", hold_every_other, 1, COUNT},
    {"total", "free_bytes", hold_every_other, SIZE, COUNT *SIZE},
    {"pool", "stage1", empty_and_fill_slabs, 1, any},
    {"pool", "stage2", hold, 2, 4},
    {"pool", "stage3", hold_large, 40, 51},
    {"pool", "huge_superslabs", grow_dense, 60, 100},
    {"pool", "huge_superslabs", hold_large, 0, 0},
    {"pool", "huge_superslabs", grow_ragged, 0, 0},
    {"pool", "unmapped", trim_large, 40, 51},
    {"pool", "superslabs", hold_large, 40, 51},
    {"pool", "used_units", hold, 3, 4},
    {"pool", "dirty_units", free_mid, 100, 2000},
    {"pool", "purge_calls", trim_mid, 1, any},
    {"pool", "purged_units", trim_mid, 100, 2000},
    {"pool", "purged_partial", purge_live_superslabs, COUNT / 2, COUNT},
    {"pool", "budget_hits", go_beyond_the_budget, COUNT / 2, COUNT},
    {"pool", "populated_units", populate, 16, any},
    {"pool", "nodes", have_a_thread, 0, 15},
    {"pool", "near_units", hold, 0, any}, /* unit.node has a machine for them */
    {"pool", "far_units", hold, 0, any},
    {"large", "local", reuse_large, LARGE_COUNT, any},
    {"large", "remote", reuse_large_of_others, 1, LARGE_COUNT},
    {"large", "stolen", steal_large, 1, LARGE_COUNT},
    {"large", "runs", hold_large, 1, 50},
    {"large", "run_units", hold_large, 16, any},
    {"large", "resized", resize_large, 1, 1},
    {"large", "transferred", hold_and_free_large_there, 1, LARGE_COUNT},
    {"large", "spilled", hold_and_free_large_there, 1, LARGE_COUNT},
    {"large", "idle_bytes", free_large, 40 * MIB, 51 * MIB},
    {"large", "transfer_bytes", hold_and_free_large_there, LARGE, LARGE *LARGE_COUNT},
    {"large", "purge_calls", trim_large, 1, any},
    {"huge", "mapped", hold_huge, 1, 1},
    {"huge", "reused", reuse_huge, 1, 24},
    {"huge", "grown", lengthen_huge, 1, any},
    {"huge", "unmapped", free_huge, 1, 3},
    {"huge", "kept_bytes", reuse_huge, 8 * MIB, 48 * MIB},
    {"mid", "dyn1_size", hold_off_class, 4224, 4224},
    {"mid", "dyn1_hits", hold_off_class, OFF_CLASS_COUNT / 2, OFF_CLASS_COUNT + 31},
    {"mid", "dyn1_hits", free_mid, 0, 0},
    {"mid", "ring_hits", swing_mid, COUNT / 10, 2 * COUNT},
    {"mid", "ring_hits", hold, 0, 0},
    {"mid", "lifo_hits", swing_mid, 0, 0},
    {"mid", "ace_samples", hold_off_class, 32, OFF_CLASS_COUNT},
    {"mid", "ace_waste", hold_off_class, 256 * 1024, OFF_CLASS_COUNT * (4608 - 4224)},
    {"remote", "frees", free_in_another_shard_and_drain, COUNT, COUNT},
    {"remote", "drained", free_in_another_shard_and_drain, COUNT, COUNT},
    {"depot", "taken", swing_mid, 0, 0},
    {"remote", "pending", free_in_another_shard, 100, COUNT},
    {"os", "mmap", hold_huge, 1, 3},
    {"os", "munmap", free_huge, 1, 3},
    {"os", "madvise", trim_large, 1, any},
    {"os", "mprotect", hold_very_small, 1, any},
    {"os", "mremap", grow_huge, 1, 1},
    {"os", "refused", refuse_huge, 1, any},
    {"os", "committed_bytes", hold_huge, 64 * MIB, 65 * MIB},
    {"memory", "slab_bytes", hold, 3 * 65536, 4 * 65536},
    {"memory", "dirty_bytes", free_large, 100 * 65536, 50 * MIB},
    {"memory", "sparse_purged", purge_sparse, 16 * 4096, 40 * 65536},
    {"memory", "call_pieces", free_large_for_long, 1, 1000},
    {"memory", "call_looks_most", free_large_for_long, 1, 64},
    {"memory", "call_bytes_most", free_large_for_long, 65536, MIB},
    {"memory", "superslab_bytes", hold_large, 40 * MIB, 51 * MIB},
    {"memory", "metadata_bytes", hold_very_small, 256 * 1024, 8 * MIB},
    {"memory", "mappings", grow_dense, 1, 60},
    {"heaps", "count", hold_heaps, 20, 20},
    {"heaps", "blocks", hold_heaps, 60, 60},
    {"heaps", "live_bytes", hold_heaps, 20 * (100 + 70000 + 2 * MIB),
     20 * (200 + 131072 + 3 * MIB)},
    {"heaps", "committed_bytes", hold_heaps, 20 * (3 * 65536 + 2 * MIB), 20 * 4 * MIB},
    {"threads", "now", have_a_thread, 1, 1},
    {"threads", "shard_most", have_many_threads, 4, 4},
    {"threads", "caches", have_a_thread, 1, 1},
    {"limits", "cpus", have_a_thread, 0, any}, /* stats.limits has exact figures */
    {"limits", "memory_bytes", hold, 0, any},
    {"limits", "shards", hold, 0, 0},
};

const size_t counter_trial_count = COUNT_OF(counter_trials);

#define GUARDING "HAKMEM_CONF=HARDENED:1,GUARD_LARGE:1"
#define PROFILED "HAKMEM_CONF=HAKMEM_PROF:1,HAKMEM_PROF_FILE:/dev/null,"

const struct set_trial set_trials[] = {
    {{"pool", "adopted_empty", leave_empty_slabs, 1, 1}, "HAKMEM_TINY_PROFILE=larson_guard"},
    {{"mid", "lifo_hits", swing_mid, 2, COUNT}, "HAKMEM_TLS_LO_MAX=100"},
    {{"depot", "taken", swing_beside_threads, 20, 2 * COUNT}, "HAKMEM_CACHE_BUDGET=1M"},
    {{"depot", "blocks", swing_beside_threads, 1, 64}, "HAKMEM_CACHE_BUDGET=1M"},
    {{"mid", "ring_hits", swing_mid, 0, 0}, "HAKMEM_POOL_TLS_RING=0"},
    {{"limits", "cache_bytes", double_limits, 64 * MIB, 64 * MIB}, "HAKMEM_CACHE_BUDGET=64M"},
    {{"limits", "soft_bytes", double_limits, 64 * MIB, 64 * MIB}, "HAKMEM_LIMIT_SOFT=64M"},
    {{"sampled", "blocks", hold, 100, 128}, "HAKMEM_GUARD_SAMPLE=1"},
    {{"sampled", "live", hold, 100, 128}, "HAKMEM_GUARD_SAMPLE=1"},
    {{"sampled", "live", hold_and_free, 0, 0}, "HAKMEM_GUARD_SAMPLE=1"},
    {{"sampled", "full", hold, COUNT - 128, COUNT - 100}, "HAKMEM_GUARD_SAMPLE=1"},
    {{"total", "live", hold, COUNT, COUNT}, "HAKMEM_GUARD_SAMPLE=1"},
    {{"total", "live", hold_empty, COUNT, COUNT}, GUARDING ",GUARD_EMPTY:1"},
    {{"total", "live", hold_and_free_empty, 0, 0}, GUARDING ",GUARD_EMPTY:1"},
    {{"guards", "mapped", hold_guarded_blocks, 0, 0}, GUARDING},
    {{"guards", "mapped", hold_blocks_without_advice, PROTECTED_COUNT, PROTECTED_COUNT}, GUARDING},
    {{"guards", "mapped", free_blocks_without_advice, 0, 0}, GUARDING},
    {{"guards", "lost", hold_guarded_blocks, 0, 0}, GUARDING},
    {{"guards", "lost", hold_blocks_without_advice, GUARDED_COUNT - PROTECTED_COUNT,
      GUARDED_COUNT - PROTECTED_COUNT},
     GUARDING},
    {{"profile", "samples", hold_and_free, 120, 280}, PROFILED "HAKMEM_PROF_RATE:1024"},
    {{"profile", "live", hold, 120, 280}, PROFILED "HAKMEM_PROF_RATE:1024"},
    {{"profile", "live", hold_and_free, 0, 3}, PROFILED "HAKMEM_PROF_RATE:1024"},
    {{"profile", "live", hold_empty_in_heap, COUNT, COUNT}, PROFILED "HAKMEM_PROF_RATE:1"},
    {{"profile", "sites", hold, 1, 4}, PROFILED "HAKMEM_PROF_RATE:1"},
    {{"profile", "dropped", allocate_everywhere, 1, 1 << 17}, PROFILED "HAKMEM_PROF_RATE:1"},
};
const size_t set_trial_count = COUNT_OF(set_trials);
