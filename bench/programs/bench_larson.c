/*
 * bench_larson - a server whose threads pass their blocks on (after Larson and Krishnan).
 *
 *   bench_larson [seconds] [min] [max] [chunks] [rounds] [seed] [threads] [own]
 *
 * Each of `threads` lines of threads owns `chunks` blocks, allocated by main. A thread
 * frees a random block of its line and allocates one of min..max bytes in its place,
 * rounds x chunks times; then it starts a successor, which inherits the blocks, and
 * ends. An operation is one free + malloc pair.
 *
 * With `own` there are no successors: each thread makes its blocks itself, replaces own x chunks of them, and ends;
 * `seconds` and `rounds` do not count. cpu_ops are operations for each second of CPU time, which a busy machine
 * changes less.
 */
#include "bench.h"

#include <semaphore.h>
#include <stdatomic.h>

enum { SECONDS, MIN, MAX, CHUNKS, ROUNDS, SEED, THREADS, OWN, ARGUMENTS };

struct line {
    _Alignas(BENCH_LINE) char **blocks; /* present thread of the line */
    uint32_t *sizes;                    /* of the blocks, to know the live bytes */
    uint32_t state;
    uint64_t ops, lives;
    uint64_t live, live_peak;
    sem_t done; /* posted by the line's last thread */
};

static struct {
    uint32_t min, range, chunks;
    uint64_t steps; /* of one thread's life */
    bool is_own;    /* it makes the blocks, and has no successor */
    atomic_bool stop;
} load;

static void replace(struct line *line, uint32_t victim) {
    uint32_t size = load.min + bench_random(&line->state) % load.range;

    free(line->blocks[victim]);
    line->blocks[victim] = bench_malloc(size);
    line->live += size - (uint64_t)line->sizes[victim];
    line->sizes[victim] = size;
    if (line->live > line->live_peak) line->live_peak = line->live;
}

static void fill(struct line *line) {
    for (uint32_t i = 0; i < load.chunks; i++) replace(line, i);
}

static void *live_once(void *argument) {
    struct line *line = argument;
    uint64_t step;

    line->lives++;
    if (load.is_own) fill(line);
    for (step = 0; step < load.steps; step++) {
        /* A life that begins late on a busy machine does something, too. */
        if (step && atomic_load_explicit(&load.stop, memory_order_relaxed)) break;
        replace(line, bench_random(&line->state) % load.chunks);
    }
    line->ops += step;
    if (load.is_own || atomic_load_explicit(&load.stop, memory_order_relaxed))
        sem_post(&line->done);
    else
        pthread_detach(bench_thread(live_once, line));
    return NULL;
}

static void prepare(struct line *line, uint32_t seed) {
    line->blocks = bench_table(load.chunks, sizeof *line->blocks);
    line->sizes = bench_table(load.chunks, sizeof *line->sizes);
    line->state = seed;
    if (sem_init(&line->done, 0, 0) != 0) bench_fail(1, "sem_init: %s", strerror(errno));
    if (!load.is_own) fill(line);
}

static uint64_t cpu_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [SECONDS] = BENCH_SECONDS(5000),
        [MIN] = {"min", 1, 1u << 24, 8, 0},
        [MAX] = {"max", 1, 1u << 24, 1000, 0},
        [CHUNKS] = {"chunks", 1, 1u << 24, 5000, 0},
        [ROUNDS] = {"rounds", 1, 1u << 24, 100, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
        [THREADS] = {"threads", 1, 4096, 1, 0},
        [OWN] = {"own", 0, 1u << 24, 0, 0},
    };
    struct line *lines;
    uint64_t start, cpu, ns, ops = 0, lives = 0, live = 0;
    uint32_t threads;
    char extra[160];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[MIN], &args[MAX]);
    threads = (uint32_t)args[THREADS].value;
    load.min = (uint32_t)args[MIN].value;
    load.range = (uint32_t)(args[MAX].value - args[MIN].value + 1);
    load.chunks = (uint32_t)args[CHUNKS].value;
    load.is_own = args[OWN].value != 0;
    load.steps = args[load.is_own ? OWN : ROUNDS].value * load.chunks;
    lines = bench_table(threads, sizeof *lines);
    for (uint32_t i = 0; i < threads; i++)
        prepare(&lines[i], bench_stream((uint32_t)args[SEED].value, i));

    start = bench_now_ns();
    cpu = cpu_ns();
    for (uint32_t i = 0; i < threads; i++) pthread_detach(bench_thread(live_once, &lines[i]));
    if (!load.is_own) {
        bench_sleep_ms(args[SECONDS].value);
        atomic_store(&load.stop, true);
    }
    for (uint32_t i = 0; i < threads; i++)
        while (sem_wait(&lines[i].done) != 0) continue;
    ns = bench_now_ns() - start;
    cpu = cpu_ns() - cpu;

    for (uint32_t i = 0; i < threads; i++) {
        ops += lines[i].ops;
        lives += lines[i].lives;
        live += lines[i].live_peak + load.chunks * (sizeof *lines->blocks + sizeof *lines->sizes);
    }
    snprintf(extra, sizeof extra, "threads=%u lives=%llu live_kb=%llu cpu_ops=%.0f", threads,
             (unsigned long long)lives, (unsigned long long)live / 1024,
             (double)ops / ((double)(cpu != 0 ? cpu : 1) / 1e9));
    bench_report(ops, ns, extra);
    return 0;
}
