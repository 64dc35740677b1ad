/*
 * bench_idle - what goes back to the system when a program has freed its memory and waits.
 *
 *   bench_idle [megabytes] [seconds] [blocked] [seed]
 *
 * Allocates `megabytes` in blocks of 16 B to 1 MiB (as many bytes in each doubling), uses
 * all of their pages, frees them in another order and then makes no call for `seconds`.
 * blocked = 1: a second thread does half of the work at the same time, frees its blocks and
 * waits for the end of the program, with whatever its caches hold. Printed: kept, the share of
 * what was freed that is still resident after the wait (returned = 1 - kept), and
 * lazyfree_kb, pages given up that the kernel still counts as ours. The speed is that of the
 * allocating and freeing; an operation is one malloc + free pair.
 */
#include "bench.h"

#include <semaphore.h>

#define PAGE 4096
#define LISTS 64 /* freed one after the other, so neighbours die at different times */
#define SMALLEST 16u
#define DOUBLINGS 16 /* to 1 MiB */

enum { MEGABYTES, SECONDS, BLOCKED, SEED, ARGUMENTS };

struct block {
    struct block *next;
    uint32_t size;
};

struct worker {
    struct block *lists[LISTS];
    uint64_t bytes, pairs;
    uint32_t state;
    sem_t filled, may_free, freed, may_end; /* used by the second thread */
};

/* Each doubling is half as likely as the one below, so all have the same bytes. */
static uint32_t next_size(uint32_t *state) {
    uint32_t doublings = (uint32_t)__builtin_ctz(bench_random(state) | 1u << DOUBLINGS);
    uint32_t base = SMALLEST << doublings;

    return doublings < DOUBLINGS ? base + bench_random(state) % base : base;
}

static void fill(struct worker *worker) {
    for (uint64_t used = 0; used < worker->bytes; worker->pairs++) {
        uint32_t size = next_size(&worker->state);
        struct block **list = &worker->lists[bench_random(&worker->state) % LISTS];
        char *bytes = bench_malloc(size);
        struct block *block = (struct block *)bytes;

        for (size_t at = PAGE; at < size - 1; at += PAGE) bytes[at] = 1;
        *block = (struct block){*list, size};
        *list = block;
        used += size;
    }
}

static void empty(struct worker *worker) {
    for (int i = 0; i < LISTS; i++) {
        struct block *next;

        for (struct block *block = worker->lists[i]; block != NULL; block = next) {
            next = block->next;
            free(block);
        }
    }
}

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0) continue;
}

static void *work(void *argument) {
    struct worker *worker = argument;

    fill(worker);
    sem_post(&worker->filled);
    wait_for(&worker->may_free);
    empty(worker);
    sem_post(&worker->freed);
    wait_for(&worker->may_end);
    return NULL;
}

static struct worker *new_worker(uint64_t bytes, uint32_t state) {
    struct worker *worker = bench_table(1, sizeof *worker);

    worker->bytes = bytes;
    worker->state = state;
    sem_init(&worker->filled, 0, 0);
    sem_init(&worker->may_free, 0, 0);
    sem_init(&worker->freed, 0, 0);
    sem_init(&worker->may_end, 0, 0);
    return worker;
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [MEGABYTES] = {"megabytes", 1, 1u << 16, 1024, 0},
        [SECONDS] = BENCH_SECONDS(2000),
        [BLOCKED] = {"blocked", 0, 1, 0, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
    };
    struct worker *mine, *other;
    uint64_t start, ns, bytes;
    long floor, full, idle;
    bool blocked;
    double kept;
    pthread_t thread = 0;
    char extra[240];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    blocked = args[BLOCKED].value != 0;
    bytes = args[MEGABYTES].value << 20;
    mine = new_worker(blocked ? bytes / 2 : bytes, (uint32_t)args[SEED].value);
    other = new_worker(bytes / 2, bench_stream((uint32_t)args[SEED].value, 1));

    floor = bench_rss_now_kb();
    start = bench_now_ns();
    if (blocked) thread = bench_thread(work, other);
    fill(mine);
    if (blocked) wait_for(&other->filled);
    full = bench_rss_now_kb();
    if (blocked) sem_post(&other->may_free);
    empty(mine);
    if (blocked) wait_for(&other->freed);
    ns = bench_now_ns() - start;
    bench_sleep_ms(args[SECONDS].value);
    idle = bench_rss_now_kb();
    kept = full > floor && idle > floor ? (double)(idle - floor) / (double)(full - floor) : 0;

    snprintf(extra, sizeof extra,
             "blocked=%d kept=%.4f returned=%.4f lazyfree_kb=%ld floor_kb=%ld full_kb=%ld "
             "idle_kb=%ld live_kb=%llu",
             blocked, kept, kept < 1 ? 1 - kept : 0,
             bench_proc_kb("/proc/self/smaps_rollup", "LazyFree:"), floor, full, idle,
             (unsigned long long)bytes / 1024);
    if (blocked) {
        sem_post(&other->may_end);
        pthread_join(thread, NULL);
    }
    bench_report(mine->pairs + (blocked ? other->pairs : 0), ns, extra);
    return 0;
}
