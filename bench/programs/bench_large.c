/*
 * bench_large - a random working set of large blocks whose pages are used.
 *
 *   bench_large [seconds] [min] [max] [slots] [pages] [seed] [threads]
 *
 * Each thread has `slots` blocks of its own and replaces one at random by one of min..max
 * bytes. pages = 1: a byte of every page is written, as by programs that fill their
 * buffers; 0: both ends only, which shows the allocator without the cost of the pages. Both
 * ends are checked when the block is freed. The time starts when all slots are filled. An
 * operation is one free + malloc pair.
 */
#include "bench.h"

#include <semaphore.h>
#include <stdatomic.h>

#define PAGE 4096

enum { SECONDS, MIN, MAX, SLOTS, PAGES, SEED, THREADS, ARGUMENTS };

struct slot {
    char *block;
    size_t size;
};

struct worker {
    _Alignas(BENCH_LINE) struct slot *slots; /* its thread's */
    uint32_t state;
    uint64_t ops, live, live_peak;
};

static struct {
    uint32_t min, range, slots;
    bool pages;
    sem_t filled; /* posted by each worker, once */
    atomic_bool stop;
} load;

static void discard(struct worker *worker, struct slot *slot) {
    if (slot->block == NULL) return;
    if (slot->block[0] != (char)slot->size || slot->block[slot->size - 1] != (char)slot->size)
        bench_fail(1, "a block of %zu bytes has changed", slot->size);
    free(slot->block);
    worker->live -= slot->size;
    slot->block = NULL;
}

static void replace(struct worker *worker, struct slot *slot) {
    size_t size = load.min + bench_random(&worker->state) % load.range;

    discard(worker, slot);
    slot->block = bench_malloc(size);
    slot->size = size;
    for (size_t at = PAGE; load.pages && at < size - 1; at += PAGE) slot->block[at] = 1;
    worker->live += size;
    if (worker->live > worker->live_peak) worker->live_peak = worker->live;
}

static void *work(void *argument) {
    struct worker *worker = argument;

    for (uint32_t i = 0; i < load.slots; i++) replace(worker, &worker->slots[i]);
    sem_post(&load.filled);
    while (!atomic_load_explicit(&load.stop, memory_order_relaxed)) {
        replace(worker, &worker->slots[bench_random(&worker->state) % load.slots]);
        worker->ops++;
    }
    for (uint32_t i = 0; i < load.slots; i++) discard(worker, &worker->slots[i]);
    return NULL;
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [SECONDS] = BENCH_SECONDS(2000),          [MIN] = {"min", 1, 1u << 30, 65536, 0},
        [MAX] = {"max", 1, 1u << 30, 1048576, 0}, [SLOTS] = {"slots", 1, 1u << 20, 200, 0},
        [PAGES] = {"pages", 0, 1, 1, 0},          [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
        [THREADS] = {"threads", 1, 1024, 1, 0},
    };
    uint64_t start, ns, ops = 0, live = 0;
    struct worker *workers;
    pthread_t *threads;
    uint32_t count;
    char extra[160];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[MIN], &args[MAX]);
    load.min = (uint32_t)args[MIN].value;
    load.range = (uint32_t)(args[MAX].value - args[MIN].value + 1);
    load.slots = (uint32_t)args[SLOTS].value;
    load.pages = args[PAGES].value != 0;
    count = (uint32_t)args[THREADS].value;
    workers = bench_table(count, sizeof *workers);
    threads = bench_table(count, sizeof *threads);
    for (uint32_t i = 0; i < count; i++) {
        workers[i].slots = bench_table(load.slots, sizeof *workers[i].slots);
        workers[i].state = bench_stream((uint32_t)args[SEED].value, i);
    }

    sem_init(&load.filled, 0, 0);
    for (uint32_t i = 0; i < count; i++) threads[i] = bench_thread(work, &workers[i]);
    for (uint32_t i = 0; i < count; i++)
        while (sem_wait(&load.filled) != 0) continue;
    start = bench_now_ns();
    bench_sleep_ms(args[SECONDS].value);
    atomic_store(&load.stop, true);
    for (uint32_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
    ns = bench_now_ns() - start;

    for (uint32_t i = 0; i < count; i++) {
        ops += workers[i].ops;
        live += workers[i].live_peak + load.slots * sizeof *workers[i].slots;
    }
    snprintf(extra, sizeof extra, "threads=%u pages=%d ns_per_op=%.1f live_kb=%llu", count,
             load.pages, (double)ns * count / (double)(ops > 0 ? ops : 1),
             (unsigned long long)live / 1024);
    bench_report(ops, ns, extra);
    return 0;
}
