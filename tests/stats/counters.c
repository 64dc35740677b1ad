/* counters.c - each figure of stats.def, moved by a small program that provokes it.
 *
 * A program runs in a process of its own; the figure is read before and after. A row of stats.def
 * without a row here fails the test. Figures of classes are read for the class of SIZE and for its
 * band, those of tiers for all four. The environment has HAKMEM_SHARDS=2, so that a thread's home
 * is another shard than main's, and HAKMEM_PURGE_THREAD=0. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "stats.h"

/* A class whose first blocks are not lent by the one above. */
enum { SIZE = 224, COUNT = 1000, MIB = 1024 * 1024, SECONDS = 60 };

static void *blocks[COUNT * 10];
static void *volatile kept; /* so that no call is optimised away */

static void allocate_some(size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) CHECK(blocks[i] = API(malloc)(size), "no memory");
}

static void free_some(size_t count) {
    for (size_t i = 0; i < count; i++) API(free)(blocks[i]);
}

/* ---- Programs -------------------------------------------------------------------------------- */

static void hold(void) { allocate_some(COUNT, SIZE); }

static void hold_and_free(void) {
    hold();
    free_some(COUNT);
}

static void free_and_trim(void) {
    hold_and_free();
    API(malloc_trim)(0);
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

static void trim_mid(void) {
    empty_and_fill_slabs();
    API(malloc_trim)(0);
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

static void in_a_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* The thread's home is the other shard; its own has no used blocks, this one's has. */
static void allocate_in_another_shard(void) {
    hold_every_other();
    in_a_thread(allocate_there, NULL);
}

static void free_in_another_shard(void) {
    hold();
    in_a_thread(free_there, NULL);
}

static void free_in_another_shard_and_drain(void) {
    hold();
    in_a_thread(free_there, blocks);
}

static pthread_barrier_t is_there;

static void *stay(void *unused) {
    kept = API(malloc)(SIZE);
    pthread_barrier_wait(&is_there);
    for (;;) pause();
    return unused;
}

static void have_a_thread(void) {
    pthread_t thread;
    pthread_barrier_init(&is_there, NULL, 2);
    CHECK(pthread_create(&thread, NULL, stay, NULL) == 0, "no thread");
    pthread_barrier_wait(&is_there);
}

static void hold_one_of_each_tier(void) {
    static const size_t sizes[] = {100, 10000, 300000, 3 * MIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) blocks[i] = API(malloc)(sizes[i]);
}

static void hold_large(void) { allocate_some(50, 900 * 1024); }

static void free_large(void) {
    hold_large();
    for (int i = 0; i < 50; i++) memset(blocks[i], 1, 900 * 1024);
    free_some(50);
}

static void trim_large(void) {
    free_large();
    API(malloc_trim)(0);
}

static void hold_huge(void) { blocks[0] = API(malloc)(64 * MIB); }

static void free_huge_blocks(size_t size) {
    blocks[0] = API(malloc)(size);
    API(free)(blocks[0]);
}

static void free_huge(void) {
    hold_huge();
    API(free)(blocks[0]);
    API(malloc_trim)(0);
}

static void grow_huge(void) {
    blocks[0] = API(malloc)(8 * MIB);
    CHECK(blocks[0] = API(realloc)(blocks[0], 80 * MIB), "no memory");
}

/* Half a KiB of bitmap for each 32 KiB. */
static void hold_very_small(void) {
    for (int i = 0; i < 2 * MIB; i++) kept = API(malloc)(8);
}

/* Blocks of a large size: reused, and freed by a thread of another shard. */
static void reuse_large(void) {
    free_large();
    hold_large();
}

static void *free_large_there(void *unused) {
    kept = API(malloc)(SIZE);
    free_some(50);
    return unused;
}

static void free_large_in_another_shard(void) {
    hold_large();
    in_a_thread(free_large_there, NULL);
}

static void *free_two_there(void *unused) {
    kept = API(malloc)(SIZE);
    free_some(2);
    return unused;
}

static void free_two_in_another_shard(void) {
    hold_large();
    in_a_thread(free_two_there, NULL);
}

static void reuse_what_another_shard_freed(void) {
    free_two_in_another_shard();
    hold_large();
}

static void *hold_large_there(void *unused) {
    kept = API(malloc)(SIZE);
    hold_large();
    return unused;
}

static void hold_large_of_another_shard(void) {
    free_large();
    in_a_thread(hold_large_there, NULL);
}

static void resize_large(void) {
    blocks[0] = API(malloc)(800000);
    blocks[0] = API(realloc)(blocks[0], 400000);
}

/* One block stays, so that something may be kept. */
static void keep_huge(void) {
    kept = API(malloc)(64 * MIB);
    free_huge_blocks(8 * MIB);
}

static void reuse_huge(void) {
    keep_huge();
    kept = API(malloc)(8 * MIB);
}

static void lengthen_huge(void) {
    keep_huge();
    kept = API(malloc)(12 * MIB);
}

static void ask_for_too_much(void) { kept = API(malloc)(256 * MIB); }

/* ---- The table ------------------------------------------------------------------------------- */

static const uint64_t any = UINT64_MAX / 2; /* nothing comes near */

static const struct trial {
    const char *group, *name;
    void (*program)(void);
    uint64_t least, most; /* by how much the figure then has grown */
    const char *setting;  /* NAME=VALUE in the environment, or NULL */
} trials[] = {
    {"classes", "uc_miss", hold, 1, COUNT, NULL},
    {"classes", "shared_lock", hold, 1, any, NULL},
    {"classes", "refilled", hold, COUNT - 100, 2 * COUNT, NULL},
    {"classes", "flushed", free_and_trim, COUNT, 2 * COUNT, NULL},
    {"classes", "flushed", hold, 0, 0, NULL},
    {"classes", "probe_hits", allocate_in_another_shard, 1, COUNT, NULL},
    {"classes", "remote_frees", free_in_another_shard_and_drain, COUNT, COUNT, NULL},
    {"classes", "drained", free_in_another_shard_and_drain, COUNT, COUNT, NULL},
    {"classes", "stage1", empty_and_fill_small_slabs, 1, any, NULL},
    {"classes", "live", hold, COUNT, COUNT, NULL},
    {"classes", "live_bytes", hold, COUNT *SIZE, COUNT *SIZE, NULL},
    {"classes", "cached", hold_and_free, 1, COUNT, NULL},
    {"classes", "cached_bytes", hold_and_free, SIZE, COUNT *SIZE, NULL},
    {"classes", "free", hold_every_other, 1, COUNT, NULL},
    {"classes", "slabs", hold, 3, 4, NULL},
    {"tiers", "live", hold_one_of_each_tier, 1, 1, NULL},
    {"tiers", "live_bytes", hold_one_of_each_tier, 100, 4 * MIB, NULL},
    {"total", "live", hold, COUNT, COUNT, NULL},
    {"total", "live_bytes", hold, COUNT *SIZE, COUNT *SIZE, NULL},
    {"total", "live_bytes", hold_huge, 64 * MIB, 64 * MIB, NULL},
    {"total", "uc_miss", hold, 1, COUNT, NULL},
    {"total", "shared_lock", hold, 1, any, NULL},
    {"total", "cached", hold_and_free, 1, COUNT, NULL},
    {"total", "cached_bytes", hold_and_free, SIZE, COUNT *SIZE, NULL},
    {"total", "free", hold_every_other, 1, COUNT, NULL},
    {"total", "free_bytes", hold_every_other, SIZE, COUNT *SIZE, NULL},
    {"pool", "stage1", empty_and_fill_slabs, 1, any, NULL},
    {"pool", "stage2", hold, 2, 4, NULL},
    {"pool", "stage3", hold_large, 40, 51, NULL},
    {"pool", "superslabs", hold_large, 40, 51, NULL},
    {"pool", "used_units", hold, 3, 4, NULL},
    {"pool", "dirty_units", empty_and_fill_slabs, 100, COUNT, NULL},
    {"pool", "purge_calls", trim_mid, 1, any, NULL},
    {"pool", "purged_units", trim_mid, 100, any, NULL},
    {"pool", "populated_units", hold, 3, 5, "HAKMEM_SS_PREFAULT=1"},
    {"large", "local", reuse_large, 50, 100, NULL},
    {"large", "remote", reuse_what_another_shard_freed, 1, 2, "HAKMEM_L25_PREF=remote"},
    {"large", "stolen", hold_large_of_another_shard, 1, 50, NULL},
    {"large", "runs", hold_large, 1, 50, NULL},
    {"large", "run_units", hold_large, 50 * 14, 50 * 20, NULL},
    {"large", "transferred", free_large_in_another_shard, 1, 50, NULL},
    {"large", "spilled", free_large_in_another_shard, 1, 50, NULL},
    {"large", "resized", resize_large, 1, 1, NULL},
    {"large", "purge_calls", trim_large, 1, any, NULL},
    {"large", "idle_bytes", free_large, 40 * MIB, 50 * MIB, NULL},
    {"large", "transfer_bytes", free_two_in_another_shard, 2 * 900 * 1024, 2 * MIB, NULL},
    {"huge", "mapped", hold_huge, 1, 1, NULL},
    {"huge", "reused", reuse_huge, 1, 1, NULL},
    {"huge", "grown", lengthen_huge, 1, 1, NULL},
    {"huge", "unmapped", free_huge, 1, 1, NULL},
    {"huge", "kept_bytes", keep_huge, 8 * MIB, 8 * MIB, NULL},
    {"remote", "frees", free_in_another_shard_and_drain, COUNT, COUNT, NULL},
    {"remote", "drained", free_in_another_shard_and_drain, COUNT, COUNT, NULL},
    {"remote", "pending", free_in_another_shard, 100, COUNT, NULL},
    {"os", "mmap", hold_huge, 1, 3, NULL},
    {"os", "munmap", free_huge, 1, 3, NULL},
    {"os", "madvise", trim_large, 1, any, NULL},
    {"os", "mprotect", hold_large, 1, any, NULL},
    {"os", "mremap", grow_huge, 1, 1, NULL},
    {"os", "committed_bytes", hold_huge, 64 * MIB, 65 * MIB, NULL},
    {"os", "refused", ask_for_too_much, 1, any, "HAKMEM_LIMIT=100M"},
    {"memory", "slab_bytes", hold, 3 * 65536, 4 * 65536, NULL},
    {"memory", "dirty_bytes", free_large, 100 * 65536, 50 * MIB, NULL},
    {"memory", "superslab_bytes", hold_large, 40 * MIB, 51 * MIB, NULL},
    {"memory", "metadata_bytes", hold_very_small, 256 * 1024, 8 * MIB, NULL},
    {"threads", "now", have_a_thread, 1, 1, NULL},
    {"threads", "caches", have_a_thread, 1, 1, NULL},
};

/* ---- Running them ---------------------------------------------------------------------------- */

enum { WHERE_MOST = 4, NAME_SIZE = 48 };

/* Every name that a row is read by; returns how many. */
static size_t names_of(const struct trial *trial, char names[WHERE_MOST][NAME_SIZE]) {
    static const char *const tiers[] = {"tiny", "mid", "large", "huge"};
    static const char *const of_class[] = {"classes.224", "bands.C5"};
    static const char *const of_tier[] = {"tiers.tiny", "tiers.mid", "tiers.large", "tiers.huge"};
    const char *const *places = &trial->group;
    size_t count = 1;
    if (strcmp(trial->group, "classes") == 0) {
        places = of_class;
        count = COUNT_OF(of_class);
    } else if (strcmp(trial->group, "tiers") == 0) {
        places = of_tier;
        count = COUNT_OF(tiers);
    }
    for (size_t i = 0; i < count; i++)
        snprintf(names[i], NAME_SIZE, "%s.%s", places[i], trial->name);
    return count;
}

static void measure(const struct trial *trial) {
    char names[WHERE_MOST][NAME_SIZE];
    uint64_t before[WHERE_MOST];
    size_t count = names_of(trial, names);
    API(free)(API(malloc)(SIZE)); /* this thread has its cache */
    for (size_t i = 0; i < count; i++) before[i] = stat_of(names[i]);
    trial->program();
    for (size_t i = 0; i < count; i++) {
        uint64_t now = stat_of(names[i]), grown = now - before[i];
        CHECK(now >= before[i] && grown >= trial->least && grown <= trial->most,
              "%s went from %llu to %llu, not up by %llu..%llu", names[i],
              (unsigned long long)before[i], (unsigned long long)now,
              (unsigned long long)trial->least, (unsigned long long)trial->most);
    }
}

/* In the child. A setting counts only where it stands in the environment from the start. */
static void run_trial(const void *context) {
    const struct trial *trial = context;
    char number[20], *arguments[] = {"counters", number, NULL};
    if (!trial->setting) {
        measure(trial);
        return;
    }
    snprintf(number, sizeof number, "%zu", (size_t)(trial - trials));
    putenv((char *)(uintptr_t)trial->setting);
    execv("/proc/self/exe", arguments);
    CHECK(false, "cannot be started again");
}

/* counters        every figure
 * counters TRIAL  one of them, in this process */
int main(int argc, char **argv) {
    unsigned missing = 0;
    if (argc > 1) {
        measure(&trials[argument(argc, argv, 1, 0)]);
        return 0;
    }
    watchdog(240, "statistics");
    for (size_t i = 0; i < COUNT_OF(stat_rows); i++) {
        unsigned found = 0;
        for (size_t k = 0; k < COUNT_OF(trials); k++)
            if (strcmp(trials[k].group, stat_rows[i].group) == 0 &&
                strcmp(trials[k].name, stat_rows[i].name) == 0)
                found++;
        if (found) continue;
        fprintf(stderr, "FAIL: no row of counters.c moves %s.%s\n", stat_rows[i].group,
                stat_rows[i].name);
        missing++;
    }
    CHECK(missing == 0, "%u figures without a program that moves them", missing);
    for (size_t k = 0; k < COUNT_OF(trials); k++) {
        struct child_end end;
        child_run(run_trial, &trials[k], SECONDS, &end);
        if (end.in_time && end.status == 0) continue;
        fprintf(stderr, "FAIL: %s.%s: status %#x: %s", trials[k].group, trials[k].name,
                (unsigned)end.status, end.err);
        missing++;
    }
    CHECK(missing == 0, "%u programs did not move their figure as they should", missing);
    printf("%zu figures moved by %zu programs\n", COUNT_OF(stat_rows), COUNT_OF(trials));
    return 0;
}
