/* timing.c: adds up the times of timing.def, and computes their percentiles. */
#include "debug/timing.h"

#if HAKMEM_DEBUG

#include "options/options.h"
#include "os/os.h"

const hak_timing_row_t hak_timing_rows[HAK_TIMINGS] = {
#define TIMING(name, tier, help) {#name, #tier},
#include "debug/timing.def"
};

/* Range r counts times from 2^(r-1) to below 2^r ns; the last range counts all longer ones. */
enum { SETS = 8, RANGES = 30, READINGS = 256 };

/* Any thread adds, and any thread reads. */
typedef struct {
    _Atomic uint64_t total, longest; /* ns */
    _Atomic uint64_t ranges[RANGES]; /* number of times in each range */
} HAK_ALIGNED(HAK_LINE) times_t;

static times_t times[SETS][HAK_TIMINGS];

/* Chooses a set by the address of a thread-local variable; those of two threads lie at least
 * a page apart. */
static unsigned set_of_thread(void) {
    static __thread char own;
    uint64_t mixed = ((uintptr_t)&own >> 12) * 0x9e3779b97f4a7c15u;
    return (unsigned)(mixed >> 32) % SETS;
}

hak_timer_t hak_timing_begin(bool wanted, hak_timing_t category) {
    hak_timer_t timer = {category, 0};
    if (wanted && hak_option(HAK_OPTION_TIMING)) timer.start = hak_os_now_ns();
    return timer;
}

void hak_timing_end(const hak_timer_t *timer) {
    if (!timer->start) return;
    uint64_t ns = hak_os_now_ns() - timer->start;
    unsigned range = ns ? hak_highest_bit(ns) + 1 : 0;
    times_t *sum = &times[set_of_thread()][timer->category];
    hak_add_relaxed(&sum->total, ns);
    hak_add_relaxed(&sum->ranges[hak_min(range, RANGES - 1)], 1);
    uint64_t longest = hak_load_relaxed(&sum->longest);
    while (ns > longest && !hak_cas_acquire(&sum->longest, &longest, ns)) {
    }
}

/* An upper bound for the `percent` percentile: the end of the range in which it lies. */
static uint64_t percentile(const uint64_t ranges[RANGES], uint64_t count, unsigned percent,
                           uint64_t longest) {
    uint64_t below = 0;
    for (unsigned i = 0; i + 1 < RANGES; i++) {
        below += ranges[i];
        if (below && below * 100 >= count * percent) return hak_min((uint64_t)1 << i, longest);
    }
    return longest;
}

void hak_timing_read(hak_timing_t category, uint64_t figures[HAK_TIMING_FIGURE_COUNT]) {
    uint64_t ranges[RANGES] = {0}, count = 0, total = 0, longest = 0;
    for (unsigned set = 0; set < SETS; set++) {
        times_t *sum = &times[set][category];
        total += hak_load_relaxed(&sum->total);
        longest = hak_max(longest, hak_load_relaxed(&sum->longest));
        for (unsigned i = 0; i < RANGES; i++) ranges[i] += hak_load_relaxed(&sum->ranges[i]);
    }
    for (unsigned i = 0; i < RANGES; i++) count += ranges[i];
    figures[HAK_TIMING_count] = count;
    figures[HAK_TIMING_total_ns] = total;
    figures[HAK_TIMING_mean_ns] = count ? total / count : 0;
    figures[HAK_TIMING_p50_ns] = percentile(ranges, count, 50, longest);
    figures[HAK_TIMING_p99_ns] = percentile(ranges, count, 99, longest);
    figures[HAK_TIMING_max_ns] = longest;
}

uint64_t hak_timing_clock_ns(void) {
    uint64_t first = hak_os_now_ns(), last = first;
    for (unsigned i = 0; i < READINGS; i++) last = hak_os_now_ns();
    return (last - first) / READINGS;
}

#endif
