/*
 * bench_churn - short threads that allocate and exit.
 *
 *   bench_churn [threads] [blocks] [handed] [min] [max] [parallel] [seed]
 *
 * `threads` threads run in all, `parallel` at a time. Each allocates `blocks` blocks of
 * min..max bytes; handed = 0: it frees them itself, 1: main frees them after the thread
 * has ended. RSS is read after a tenth of the threads and at the end. An operation is
 * one malloc + free pair.
 */
#include "bench.h"

enum { THREADS, BLOCKS, HANDED, MIN, MAX, PARALLEL, SEED, ARGUMENTS };

struct job {
    char **blocks; /* the thread's while it runs, then main's */
    uint32_t state;
    uint64_t bytes;
};

static struct {
    uint32_t blocks, min, range;
    bool handed;
} load;

static void free_all(const struct job *job) {
    for (uint32_t i = 0; i < load.blocks; i++) free(job->blocks[i]);
}

static void *work(void *argument) {
    struct job *job = argument;

    job->bytes = 0;
    for (uint32_t i = 0; i < load.blocks; i++) {
        uint32_t size = load.min + bench_random(&job->state) % load.range;

        job->blocks[i] = bench_malloc(size);
        job->bytes += size;
    }
    if (!load.handed) free_all(job);
    return NULL;
}

/* One wave of `parallel` threads; returns the bytes its blocks had together. */
static uint64_t wave(struct job *jobs, pthread_t *threads, uint32_t parallel) {
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < parallel; i++) threads[i] = bench_thread(work, &jobs[i]);
    for (uint32_t i = 0; i < parallel; i++) pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < parallel; i++) {
        bytes += jobs[i].bytes;
        if (load.handed) free_all(&jobs[i]);
    }
    return bytes;
}

static void print_result(uint64_t total, uint64_t ns, uint64_t live, long rss_tenth, long rss_end) {
    char extra[200];

    snprintf(extra, sizeof extra,
             "threads=%llu handed=%d threads_per_s=%.0f live_kb=%llu rss_tenth_kb=%ld "
             "rss_end_kb=%ld growth=%.4f",
             (unsigned long long)total, load.handed, (double)total / ((double)ns / 1e9),
             (unsigned long long)live / 1024, rss_tenth, rss_end,
             rss_tenth > 0 ? (double)rss_end / (double)rss_tenth : 0.0);
    bench_report(total * load.blocks, ns, extra);
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [THREADS] = {"threads", 1, 1u << 30, 10000, 0},
        [BLOCKS] = {"blocks", 1, 1u << 20, 200, 0},
        [HANDED] = {"handed", 0, 1, 0, 0},
        [MIN] = {"min", 1, 1u << 24, 16, 0},
        [MAX] = {"max", 1, 1u << 24, 1024, 0},
        [PARALLEL] = {"parallel", 1, 1024, 2, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
    };
    uint64_t start, ns, total, live = 0, done = 0;
    uint32_t parallel;
    struct job *jobs;
    pthread_t *threads;
    long rss_tenth = 0;

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[MIN], &args[MAX]);
    total = args[THREADS].value;
    parallel = (uint32_t)args[PARALLEL].value;
    load.blocks = (uint32_t)args[BLOCKS].value;
    load.min = (uint32_t)args[MIN].value;
    load.range = (uint32_t)(args[MAX].value - args[MIN].value + 1);
    load.handed = args[HANDED].value != 0;
    jobs = bench_table(parallel, sizeof *jobs);
    threads = bench_table(parallel, sizeof *threads);
    for (uint32_t i = 0; i < parallel; i++) {
        jobs[i].blocks = bench_table(load.blocks, sizeof(char *));
        jobs[i].state = bench_stream((uint32_t)args[SEED].value, i);
    }

    start = bench_now_ns();
    while (done < total) {
        uint32_t now = total - done < parallel ? (uint32_t)(total - done) : parallel;
        uint64_t bytes = wave(jobs, threads, now);

        live = bytes > live ? bytes : live;
        done += now;
        if (rss_tenth == 0 && done >= total / 10) rss_tenth = bench_rss_now_kb();
    }
    ns = bench_now_ns() - start;
    print_result(total, ns, live, rss_tenth, bench_rss_now_kb());
    return 0;
}
