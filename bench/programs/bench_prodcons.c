/*
 * bench_prodcons - producers that only allocate and one consumer that only frees.
 *
 *   bench_prodcons [seconds] [producers] [min] [max] [queue] [seed]
 *
 * The blocks go through one queue of at most `queue` blocks, in batches. Prints the
 * peak of the live bytes (allocated and not yet freed, wherever the block stands), the
 * RSS before the first block (floor), the peak RSS, and
 * overhead = (peak RSS - floor) / peak live. An operation is one malloc + free pair.
 */
#include "bench.h"

#include <stdatomic.h>

#define BATCH 64

enum { SECONDS, PRODUCERS, MIN, MAX, QUEUE, SEED, ARGUMENTS };

struct batch {
    char *blocks[BATCH];
    uint64_t bytes;
};

struct producer {
    _Alignas(BENCH_LINE) uint32_t state; /* its thread's */
    struct batch batch;
};

/* All fields under `lock`, but those that are constant once the threads run. */
static struct {
    struct batch *batches;
    size_t capacity; /* constant */
    size_t first, used;
    uint64_t freed;
    uint32_t producing; /* producers that have not ended */
    bool stop;
    pthread_mutex_t lock;
    pthread_cond_t not_full, not_empty;
} queue = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .not_full = PTHREAD_COND_INITIALIZER,
    .not_empty = PTHREAD_COND_INITIALIZER,
};

static struct {
    uint32_t min, range;
    _Alignas(BENCH_LINE) atomic_ullong live, live_peak;
} load;

static void count_live(uint64_t bytes) {
    unsigned long long now = atomic_fetch_add(&load.live, bytes) + bytes;
    unsigned long long peak = atomic_load(&load.live_peak);

    while (now > peak && !atomic_compare_exchange_weak(&load.live_peak, &peak, now)) continue;
}

static bool put(const struct batch *batch) {
    bool stop;

    pthread_mutex_lock(&queue.lock);
    while (queue.used == queue.capacity) pthread_cond_wait(&queue.not_full, &queue.lock);
    queue.batches[(queue.first + queue.used) % queue.capacity] = *batch;
    queue.used++;
    stop = queue.stop;
    pthread_cond_signal(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
    return !stop;
}

static void *produce(void *argument) {
    struct producer *self = argument;

    do {
        self->batch.bytes = 0;
        for (int i = 0; i < BATCH; i++) {
            uint32_t size = load.min + bench_random(&self->state) % load.range;

            self->batch.blocks[i] = bench_malloc(size);
            self->batch.bytes += size;
        }
        count_live(self->batch.bytes);
    } while (put(&self->batch));
    pthread_mutex_lock(&queue.lock);
    queue.producing--;
    pthread_cond_signal(&queue.not_empty);
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

static void *consume(void *argument) {
    struct batch *batch = argument;

    for (;;) {
        pthread_mutex_lock(&queue.lock);
        while (queue.used == 0 && queue.producing > 0)
            pthread_cond_wait(&queue.not_empty, &queue.lock);
        if (queue.used == 0) break;
        *batch = queue.batches[queue.first];
        queue.first = (queue.first + 1) % queue.capacity;
        queue.used--;
        queue.freed += BATCH;
        pthread_cond_signal(&queue.not_full);
        pthread_mutex_unlock(&queue.lock);
        for (int i = 0; i < BATCH; i++) free(batch->blocks[i]);
        atomic_fetch_sub(&load.live, batch->bytes);
    }
    pthread_mutex_unlock(&queue.lock);
    return NULL;
}

/* Runs all threads for `ms` milliseconds and drains the queue; returns the time in ns. */
static uint64_t run(struct producer *producers, uint32_t count, struct batch *in_hand,
                    uint64_t ms) {
    pthread_t *threads = bench_table(count + 1, sizeof *threads);
    uint64_t start = bench_now_ns();

    queue.producing = count;
    for (uint32_t i = 0; i < count; i++) threads[i] = bench_thread(produce, &producers[i]);
    threads[count] = bench_thread(consume, in_hand);
    bench_sleep_ms(ms);
    pthread_mutex_lock(&queue.lock);
    queue.stop = true;
    pthread_mutex_unlock(&queue.lock);
    for (uint32_t i = 0; i <= count; i++) pthread_join(threads[i], NULL);
    return bench_now_ns() - start;
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [SECONDS] = BENCH_SECONDS(2000),
        [PRODUCERS] = {"producers", 1, 1024, 4, 0},
        [MIN] = {"min", 1, 1u << 24, 16, 0},
        [MAX] = {"max", 1, 1u << 24, 1024, 0},
        [QUEUE] = {"queue", BATCH, 1u << 28, 65536, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
    };
    struct producer *producers;
    struct batch *in_hand;
    uint32_t count;
    uint64_t ns, live;
    long floor, peak;
    char extra[200];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[MIN], &args[MAX]);
    count = (uint32_t)args[PRODUCERS].value;
    load.min = (uint32_t)args[MIN].value;
    load.range = (uint32_t)(args[MAX].value - args[MIN].value + 1);
    queue.capacity = args[QUEUE].value / BATCH;
    queue.batches = bench_table(queue.capacity, sizeof *queue.batches);
    in_hand = bench_table(1, sizeof *in_hand);
    producers = bench_table(count, sizeof *producers);
    for (uint32_t i = 0; i < count; i++)
        producers[i].state = bench_stream((uint32_t)args[SEED].value, i);

    floor = bench_rss_now_kb();
    ns = run(producers, count, in_hand, args[SECONDS].value);
    peak = bench_rss_peak_kb();
    live = atomic_load(&load.live_peak) / 1024;
    snprintf(extra, sizeof extra,
             "producers=%u live_kb=%llu floor_kb=%ld peak_kb=%ld overhead=%.3f", count,
             (unsigned long long)live, floor, peak,
             live > 0 ? (double)(peak - floor) / (double)live : 0.0);
    bench_report(queue.freed, ns, extra);
    return 0;
}
