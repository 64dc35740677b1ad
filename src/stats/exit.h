/* exit.h: the reports that a process prints when it ends. */
#ifndef HAK_STATS_EXIT_H
#define HAK_STATS_EXIT_H

#include "base/base.h"
#include "options/options.h"
#include "stats/report.h"

/* Whether there is anything to print. */
HAK_FAST_PATH bool hak_stats_wanted(void) {
    return hak_option(HAK_OPTION_STATS) != 0 || hak_option(HAK_OPTION_TINY_STATS_DUMP) ||
           hak_option(HAK_OPTION_WARM_POOL_STATS) || hak_stats_times();
}

/* What must be done for a report at the end, as soon as one is wanted: before main, or where an
 * option is changed. Programs close stderr on their way out, and daemons have other files by its
 * number; so a copy is made, and what stderr was is noted. Only the first call does anything. */
HAK_SLOW_PATH void hak_stats_prepare(void);

/* Prints what is wanted. */
HAK_SLOW_PATH void hak_stats_report(void);

#endif
