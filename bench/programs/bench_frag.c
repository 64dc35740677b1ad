/*
 * bench_frag - how much memory an allocator keeps for live blocks: RSS over live bytes, both
 * minus their values at the start.
 *
 *   bench_frag NAME [megabytes] [seed] [cycles]
 *
 *   phase  A change of phase, as between the loading and the serving of a program:
 *          `megabytes` of 64 B blocks, all freed but every 1,024th, then as many bytes in
 *          4 KiB blocks. frag = peak RSS / peak live.
 *   drift  A long run with about `megabytes` alive: sizes drift from 32 B to 4 KiB and back,
 *          three times, in generations: most blocks die young, a quarter lives while up to
 *          7.5 x `megabytes` are allocated after them, of 40 x in all.
 *          frag = RSS / live, mean over the second half of the run.
 *   hour   The same for `cycles`, 30 unless given; 9,000 are about an hour. growth = peak RSS after
 *          the first tenth of the run / peak RSS in it, both net of the start.
 *   cache  A cache of `megabytes` with random eviction, whose values get longer by 30 % in
 *          each of 12 generations, from 40 B to 1 KB. frag as in drift.
 *
 * Lists run through the blocks themselves, so tables are small. An operation is one malloc
 * or free. Also printed: the RSS at the start, at its peak and at the end, and live bytes.
 */
#include "bench.h"

#define SAMPLES 32

enum { MEGABYTES, SEED, CYCLES, ARGUMENTS };

struct block {
    struct block *next;
    uint32_t size;
};

static struct {
    uint64_t bytes, bytes_peak, calls;
    long floor_kb;
    double ratio_sum; /* of samples of RSS / live */
    uint32_t samples;
    long first_kb, later_kb; /* peaks of samples in the first tenth of a long run, and after it */
} seen;

static struct block *new_block(uint32_t size, struct block *next) {
    struct block *block = bench_malloc(size);

    *block = (struct block){next, size};
    seen.calls++;
    seen.bytes += size;
    if (seen.bytes > seen.bytes_peak) seen.bytes_peak = seen.bytes;
    return block;
}

static void discard(struct block *block) {
    seen.calls++;
    seen.bytes -= block->size;
    free(block);
}

static double over_live(long rss_kb, uint64_t live) {
    return live > 0 ? (double)(rss_kb - seen.floor_kb) * 1024 / (double)live : 0;
}

static void take_sample(void) {
    seen.ratio_sum += over_live(bench_rss_now_kb(), seen.bytes);
    seen.samples++;
}

/* --- phase --------------------------------------------------------------------- */

#define SMALL 64
#define BIG 4096
#define KEEP 1024

static double run_phase(uint64_t megabytes, uint32_t seed, uint64_t cycles) {
    uint64_t bytes = megabytes << 20;
    struct block *first = NULL, **end = &first, *kept = NULL, *next;

    (void)seed, (void)cycles;
    for (uint64_t i = 0; i < bytes / SMALL; i++) {
        *end = new_block(SMALL, NULL);
        end = &(*end)->next;
    }
    for (uint64_t i = 0; first != NULL; i++, first = next) {
        next = first->next;
        if (i % KEEP == 0) {
            first->next = kept;
            kept = first;
        } else {
            discard(first);
        }
    }
    for (uint64_t i = 0; i < bytes / BIG; i++) kept = new_block(BIG, kept);
    return over_live(bench_rss_peak_kb(), seen.bytes_peak);
}

/* --- drift --------------------------------------------------------------------- */

#define TURNOVER 40 /* bytes allocated in DRIFT_CYCLES / bytes alive */
#define TICK 4096   /* bytes allocated: the clock that ages are measured with */
#define DRIFT_CYCLES 3
#define HOUR_CYCLES 30
#define CYCLE_SAMPLES 20 /* in a long run */
#define SMALLEST_CENTRE 32u
#define DOUBLINGS 7 /* from there to the largest centre */

/* How many ticks a block lives, below `most`; the mean is 0.13 x that. */
static uint32_t life_time(uint32_t *state, uint32_t most) {
    uint32_t what = bench_random(state) % 100;

    if (what < 45) return bench_size_log(state, 1, most / 64);
    if (what < 75) return bench_size_log(state, 1, most / 4);
    return 1 + bench_random(state) % (most - 1);
}

/* A size around a centre that goes up and down by doublings, with an even spread between. */
static uint32_t drifted_size(uint32_t *state, uint64_t tick, uint64_t ticks, uint64_t cycles) {
    uint64_t at = tick * cycles * 2 * DOUBLINGS * 256 / ticks % (2 * DOUBLINGS * 256);
    uint32_t centre;

    if (at > DOUBLINGS * 256) at = 2 * DOUBLINGS * 256 - at;
    centre = SMALLEST_CENTRE << at / 256;
    centre += (uint32_t)(centre * (at % 256) / 256);
    return bench_size_log(state, centre / 2, 2 * centre);
}

static void sample_drift(uint64_t tick, uint64_t ticks) {
    if (tick >= ticks / 2 && tick % (ticks / 2 / SAMPLES) == 0) take_sample();
}

static void sample_hour(uint64_t tick, uint64_t ticks) {
    static uint64_t next;
    long *peak_kb = tick < ticks / 10 ? &seen.first_kb : &seen.later_kb, now_kb;

    if (tick < next) return;
    next = tick + TURNOVER * seen.bytes / DRIFT_CYCLES / CYCLE_SAMPLES / TICK;
    now_kb = bench_rss_now_kb() - seen.floor_kb;
    if (now_kb > *peak_kb) *peak_kb = now_kb;
    take_sample();
}

static void drift(uint64_t megabytes, uint32_t seed, uint64_t cycles,
                  void (*sample)(uint64_t tick, uint64_t ticks)) {
    uint64_t ticks = TURNOVER * (megabytes << 20) / TICK * cycles / DRIFT_CYCLES, allocated = 0;
    uint32_t slots = (uint32_t)((megabytes << 20) / TICK * 15 / 2);
    struct block **dying = bench_table(slots, sizeof(struct block *)); /* [tick % slots] */
    uint32_t state = seed;

    seen.floor_kb = bench_rss_now_kb();
    for (uint64_t tick = 0; tick < ticks; tick++) {
        struct block **now = &dying[tick % slots], *next;

        for (; *now != NULL; *now = next) {
            next = (*now)->next;
            discard(*now);
        }
        while (allocated < (tick + 1) * TICK) {
            struct block **later = &dying[(tick + life_time(&state, slots)) % slots];

            *later = new_block(drifted_size(&state, tick, ticks, cycles), *later);
            allocated += (*later)->size;
        }
        sample(tick, ticks);
    }
}

static double run_drift(uint64_t megabytes, uint32_t seed, uint64_t cycles) {
    drift(megabytes, seed, cycles != 0 ? cycles : DRIFT_CYCLES, sample_drift);
    return seen.ratio_sum / seen.samples;
}

static double run_hour(uint64_t megabytes, uint32_t seed, uint64_t cycles) {
    drift(megabytes, seed, cycles != 0 ? cycles : HOUR_CYCLES, sample_hour);
    return seen.ratio_sum / seen.samples;
}

/* --- cache --------------------------------------------------------------------- */

#define GENERATIONS 12
#define FIRST_VALUE 40

static double run_cache(uint64_t megabytes, uint32_t seed, uint64_t cycles) {
    uint64_t budget = megabytes << 20, count = 0;
    struct block **entries = bench_table(budget / FIRST_VALUE * 2, sizeof(struct block *));
    uint32_t state = seed, length = FIRST_VALUE;

    (void)cycles;
    seen.floor_kb = bench_rss_now_kb();
    for (int generation = 0; generation < GENERATIONS; generation++, length += length * 3 / 10) {
        for (uint64_t written = 0; written < budget;) {
            uint32_t size = length * 3 / 4 + bench_random(&state) % (length / 2);

            while (seen.bytes + size > budget) {
                uint64_t victim = bench_random(&state) % count;

                discard(entries[victim]);
                entries[victim] = entries[--count];
            }
            entries[count++] = new_block(size, NULL);
            written += size;
        }
        if (generation >= GENERATIONS / 2) take_sample();
    }
    return seen.ratio_sum / seen.samples;
}

/* --- all ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    double (*run)(uint64_t megabytes, uint32_t seed, uint64_t cycles);
    uint64_t megabytes;
} kinds[] = {{"phase", run_phase, 500},
             {"drift", run_drift, 32},
             {"hour", run_hour, 32},
             {"cache", run_cache, 64}};
#define NAMES "phase drift hour cache"

static size_t kind_named(const char *name) {
    for (size_t i = 0; name != NULL && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(name, kinds[i].name) == 0) return i;
    if (name != NULL && bench_wants_help(name)) {
        printf("usage: bench_frag NAME [megabytes] [seed] [cycles]; NAME is one of: " NAMES "\n");
        bench_flush();
        exit(0);
    }
    bench_fail(2, "which kind? One of: " NAMES "%s%s", name != NULL ? "; not " : "",
               name != NULL ? name : "");
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [MEGABYTES] = {"megabytes", 1, 1u << 16, 0, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
        [CYCLES] = {"cycles", 0, 1000000, 0, 0},
    };
    uint64_t start, ns;
    char extra[240];
    double frag;
    size_t kind;

    bench_start();
    kind = kind_named(argc > 1 ? argv[1] : NULL);
    args[MEGABYTES].value = kinds[kind].megabytes;
    bench_arguments(args, ARGUMENTS, argc - 1, argv + 1);

    seen.floor_kb = bench_rss_now_kb();
    start = bench_now_ns();
    frag = kinds[kind].run(args[MEGABYTES].value, (uint32_t)args[SEED].value, args[CYCLES].value);
    ns = bench_now_ns() - start;

    snprintf(extra, sizeof extra,
             "kind=%s frag=%.3f live_kb=%llu live_end_kb=%llu floor_kb=%ld peak_kb=%ld end_kb=%ld",
             kinds[kind].name, frag, (unsigned long long)seen.bytes_peak / 1024,
             (unsigned long long)seen.bytes / 1024, seen.floor_kb, bench_rss_peak_kb(),
             bench_rss_now_kb());
    if (seen.first_kb > 0) {
        size_t used = strlen(extra);
        snprintf(extra + used, sizeof extra - used, " growth=%.3f",
                 (double)seen.later_kb / (double)seen.first_kb);
    }
    bench_report(seen.calls, ns, extra);
    return 0;
}
