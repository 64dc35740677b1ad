/* timing.h: measures how long the steps of timing.def take, while HAKMEM_TIMING is 1.
 *
 * In the debug build only. In other builds nothing of this is compiled, and the macros do
 * nothing but run the step.
 *
 * A time is the difference of two readings of the monotonic clock (clock_gettime, which the
 * vDSO answers without a system call), in nanoseconds. It is added to one of a few sets of
 * counters. The thread determines the set, so that threads seldom write the same cache line;
 * the counters are atomic, since two threads may share a set. A step counts once it ends. */
#pragma once

#include "base/base.h"
#include "classes/classes.h"

/* The figures of a category. p50 and p99 are upper bounds of the percentiles: ranges double in
 * width, so a bound may be up to twice the true value. */
#define HAK_TIMING_FIGURES(FIGURE) \
    FIGURE(count) FIGURE(total_ns) FIGURE(mean_ns) FIGURE(p50_ns) FIGURE(p99_ns) FIGURE(max_ns)

#if HAKMEM_DEBUG

typedef enum {
#define TIMING(name, ...) HAK_TIMING_##name,
#include "debug/timing.def"
    HAK_TIMINGS
} hak_timing_t;

typedef struct {
    char name[20], tier[6];
} hak_timing_row_t;

extern const hak_timing_row_t hak_timing_rows[HAK_TIMINGS];

enum {
#define FIGURE(name) HAK_TIMING_##name,
    HAK_TIMING_FIGURES(FIGURE)
#undef FIGURE
        HAK_TIMING_FIGURE_COUNT
};

void hak_timing_read(hak_timing_t category, uint64_t figures[HAK_TIMING_FIGURE_COUNT]);

/* The cost of reading the clock, which each time contains: the mean of some readings now. */
uint64_t hak_timing_clock_ns(void);

/* A step under way; it is not timed when `start` is 0. */
typedef struct {
    hak_timing_t category;
    uint64_t start;
} hak_timer_t;

hak_timer_t hak_timing_begin(bool wanted, hak_timing_t category);
void hak_timing_end(const hak_timer_t *timer);

/* Times from here to the end of the enclosing block, on every exit. */
#define HAK_TIMED_IF(wanted, category)                                              \
    __attribute__((unused, cleanup(hak_timing_end))) hak_timer_t timer_##category = \
        hak_timing_begin((wanted), HAK_TIMING_##category)

#else
#define HAK_TIMED_IF(wanted, category) ((void)0)
#endif

#define HAK_TIMED(category) HAK_TIMED_IF(true, category)

/* The same, if the class is of the mid tier. */
#define HAK_TIMED_MID(category, class_index) \
    HAK_TIMED_IF(hak_tier_of_class(class_index) == HAK_MID, category)

/* Times one statement. */
#define HAK_TIME(category, ...) \
    do {                        \
        HAK_TIMED(category);    \
        __VA_ARGS__;            \
    } while (0)
#define HAK_TIME_MID(category, class_index, ...) \
    do {                                         \
        HAK_TIMED_MID(category, class_index);    \
        __VA_ARGS__;                             \
    } while (0)
