/*
 * bench_latency - how long single calls of malloc and free take under churn.
 *
 *   bench_latency [seconds] [min] [max] [megabytes] [seed]
 *
 * The working set swings between an eighth and all of `megabytes`, with sizes min..max (as
 * many per doubling) and random victims, so that an allocator which gives memory back has
 * reason to do so all the time. Each call is timed (time stamp counter, calibrated; elsewhere
 * the monotonic clock) and counted in a histogram with 16 steps per doubling: quantiles are
 * right to 6 %, and include the cost of reading the timer, which is printed. What the system
 * takes from a call is in it, so the highest quantiles mean something on a quiet machine
 * only. An operation is one malloc or free.
 */
#include "bench.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define STEPS 16 /* of the histogram per doubling */
#define BUCKETS (64 * STEPS)
#define CHECK_TIME 256 /* operations between looks at the clock */

enum { SECONDS, MIN, MAX, MEGABYTES, SEED, ARGUMENTS };

struct histogram {
    uint64_t counts[BUCKETS], count, longest;
};

struct block {
    char *bytes;
    uint32_t size;
};

static struct histogram mallocs, frees;

static inline uint64_t ticks(void) {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return bench_now_ns();
#endif
}

static inline void count(struct histogram *histogram, uint64_t value) {
    uint32_t doublings = value < STEPS ? 0 : 59 - (uint32_t)__builtin_clzll(value);
    /* value >> doublings is in STEPS .. 2 * STEPS - 1, or less when doublings is 0 */
    uint64_t bucket = (uint64_t)doublings * STEPS + (value >> doublings);

    histogram->counts[bucket]++;
    histogram->count++;
    if (value > histogram->longest) histogram->longest = value;
}

/* The upper end of the bucket in which `share` of all values end. */
static double quantile(const struct histogram *histogram, double share) {
    uint64_t wanted = (uint64_t)((double)histogram->count * share), sum = 0;

    for (uint32_t i = 0; i < BUCKETS; i++) {
        sum += histogram->counts[i];
        if (sum > wanted) {
            uint32_t doublings = i < 2 * STEPS ? 0 : i / STEPS - 1;

            return (double)((uint64_t)(i - doublings * STEPS + 1) << doublings);
        }
    }
    return (double)histogram->longest;
}

/* One malloc or free per step; returns the steps done and sets the peak of live bytes. */
static uint64_t run(struct block *blocks, uint64_t count_most, const struct bench_arg *args,
                    uint64_t *live_peak) {
    uint64_t high = args[MEGABYTES].value << 20, low = high / 8, live = 0, steps = 0, used = 0;
    uint64_t end = bench_now_ns() + args[SECONDS].value * 1000000;
    uint32_t state = (uint32_t)args[SEED].value;
    bool growing = true;

    for (; steps % CHECK_TIME != 0 || bench_now_ns() < end; steps++) {
        /* Three of four calls go the way of the swing. */
        bool allocate =
            live <= low || (used < count_most && (bench_random(&state) % 4 != 0) == growing);
        uint64_t begun;

        if (allocate) {
            uint32_t size =
                bench_size_log(&state, (uint32_t)args[MIN].value, (uint32_t)args[MAX].value);

            begun = ticks();
            blocks[used].bytes = malloc(size);
            count(&mallocs, ticks() - begun);
            if (blocks[used].bytes == NULL) bench_fail(1, "malloc(%u) gave NULL", size);
            blocks[used].bytes[0] = blocks[used].bytes[size - 1] = 1;
            blocks[used++].size = size;
            live += size;
            if (live > *live_peak) *live_peak = live;
        } else {
            uint64_t victim = bench_random(&state) % used;

            begun = ticks();
            free(blocks[victim].bytes);
            count(&frees, ticks() - begun);
            live -= blocks[victim].size;
            blocks[victim] = blocks[--used];
        }
        if (live >= high || used == count_most) growing = false;
        if (live <= low) growing = true;
    }
    while (used > 0) free(blocks[--used].bytes);
    return steps;
}

/*
 * Room for the blocks that can be alive. The mean size is above max / doublings, so four times
 * what fits at that size is never reached; megabytes / min is the most there can be.
 */
static uint64_t most_blocks(const struct bench_arg *args) {
    uint64_t bytes = args[MEGABYTES].value << 20, doublings = 1, by_mean, by_least;

    while (args[MIN].value << doublings <= args[MAX].value) doublings++;
    by_mean = 4 * doublings * bytes / args[MAX].value;
    by_least = bytes / args[MIN].value;
    return (by_mean < by_least ? by_mean : by_least) + 1000;
}

static uint64_t timer_cost(void) {
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 1000; i++) {
        uint64_t begun = ticks(), cost = ticks() - begun;

        least = cost < least ? cost : least;
    }
    return least;
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [SECONDS] = BENCH_SECONDS(2000),           [MIN] = {"min", 16, 1u << 24, 16, 0},
        [MAX] = {"max", 16, 1u << 24, 65536, 0},   [MEGABYTES] = {"megabytes", 1, 1u << 14, 128, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
    };
    uint64_t start, first_tick, ns, steps, live_peak = 0, count_most;
    struct block *blocks;
    double scale; /* ns per tick */
    char extra[240];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[MIN], &args[MAX]);
    count_most = most_blocks(args);
    blocks = bench_table(count_most, sizeof *blocks);

    start = bench_now_ns();
    first_tick = ticks();
    steps = run(blocks, count_most, args, &live_peak);
    ns = bench_now_ns() - start;
    scale = (double)ns / (double)(ticks() - first_tick);

    snprintf(extra, sizeof extra,
             "p50_ns=%.0f p99_ns=%.0f p999_ns=%.0f max_ns=%.0f free_p99_ns=%.0f free_p999_ns=%.0f "
             "free_max_ns=%.0f timer_ns=%.0f live_kb=%llu",
             quantile(&mallocs, 0.5) * scale, quantile(&mallocs, 0.99) * scale,
             quantile(&mallocs, 0.999) * scale, (double)mallocs.longest * scale,
             quantile(&frees, 0.99) * scale, quantile(&frees, 0.999) * scale,
             (double)frees.longest * scale, (double)timer_cost() * scale,
             (unsigned long long)(live_peak + count_most * sizeof *blocks) / 1024);
    bench_report(steps, ns, extra);
    return 0;
}
