/*
 * bench_cross - threads in a circle that free each other's blocks.
 *
 *   bench_cross [seconds] [size] [batch] [ring] [threads]
 *
 * Each of `threads` threads fills batches of `batch` blocks and hands them to the next
 * through a ring of `ring` batches; what it finds in its own ring it frees. With the
 * default of two threads they free each other's blocks. An operation is one
 * malloc + free pair.
 */
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>

enum { SECONDS, SIZE, BATCH, RING, THREADS, ARGUMENTS };

/* Single producer, single consumer: `head - tail` batches are in the ring. */
struct ring {
    char **blocks;                           /* [ring][batch] */
    _Alignas(BENCH_LINE) atomic_size_t head; /* written by the producer, release; pairs with take */
    _Alignas(BENCH_LINE) atomic_size_t tail; /* written by the consumer, release; pairs with put */
};

struct side {
    _Alignas(BENCH_LINE) struct ring *in; /* present thread's: */
    struct ring *out;
    uint64_t freed, most; /* most = most batches seen in `out` */
};

static struct {
    size_t size, batch, ring;
    atomic_bool stop;
    atomic_int producing; /* sides that may still put something in */
} load;

/* The blocks of batch number `index`. */
static char **batch_of(const struct ring *ring, size_t index) {
    return ring->blocks + index % load.ring * load.batch;
}

static bool put(struct side *side) {
    struct ring *ring = side->out;
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    size_t used = head - atomic_load_explicit(&ring->tail, memory_order_acquire);

    char **blocks = batch_of(ring, head);

    if (used == load.ring) return false;
    for (size_t i = 0; i < load.batch; i++) blocks[i] = bench_malloc(load.size);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    if (used + 1 > side->most) side->most = used + 1;
    return true;
}

static bool take(struct side *side) {
    struct ring *ring = side->in;
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    char **blocks = batch_of(ring, tail);

    if (tail == atomic_load_explicit(&ring->head, memory_order_acquire)) return false;
    for (size_t i = 0; i < load.batch; i++) free(blocks[i]);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    side->freed += load.batch;
    return true;
}

static void *work(void *argument) {
    struct side *side = argument;

    while (!atomic_load_explicit(&load.stop, memory_order_relaxed)) {
        bool put_one = put(side);
        bool took_one = take(side);

        if (!put_one && !took_one) sched_yield();
    }
    atomic_fetch_sub(&load.producing, 1);
    while (take(side) || atomic_load(&load.producing) > 0) continue;
    while (take(side)) continue;
    return NULL;
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [SECONDS] = BENCH_SECONDS(2000),         [SIZE] = {"size", 1, 1u << 20, 64, 0},
        [BATCH] = {"batch", 1, 1u << 16, 64, 0}, [RING] = {"ring", 1, 1u << 16, 64, 0},
        [THREADS] = {"threads", 2, 1024, 2, 0},
    };
    uint64_t start, ns, freed = 0, most = 0;
    struct ring *rings;
    struct side *sides;
    pthread_t *threads;
    uint32_t count;
    char extra[160];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    load.size = args[SIZE].value;
    load.batch = args[BATCH].value;
    load.ring = args[RING].value;
    count = (uint32_t)args[THREADS].value;
    rings = bench_table(count, sizeof *rings);
    sides = bench_table(count, sizeof *sides);
    threads = bench_table(count, sizeof *threads);
    atomic_store(&load.producing, (int)count);
    for (uint32_t i = 0; i < count; i++) {
        rings[i].blocks = bench_table(load.ring * load.batch, sizeof(char *));
        sides[i] = (struct side){.in = &rings[i], .out = &rings[(i + 1) % count]};
    }

    start = bench_now_ns();
    for (uint32_t i = 0; i < count; i++) threads[i] = bench_thread(work, &sides[i]);
    bench_sleep_ms(args[SECONDS].value);
    atomic_store(&load.stop, true);
    for (uint32_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
    ns = bench_now_ns() - start;

    for (uint32_t i = 0; i < count; i++) {
        freed += sides[i].freed;
        most += sides[i].most;
    }
    snprintf(extra, sizeof extra, "size=%zu batch=%zu ring=%zu threads=%u live_kb=%llu", load.size,
             load.batch, load.ring, count,
             (unsigned long long)(most * load.batch * load.size +
                                  count * load.ring * load.batch * sizeof(char *)) /
                 1024);
    bench_report(freed, ns, extra);
    return 0;
}
