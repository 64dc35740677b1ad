/* exit.h: the reports that a process prints when it ends. */
#pragma once

#include "base/base.h"
#include "options/options.h"
#include "stats/timing.h"

/* Whether there is anything to print. */
HAK_FAST_PATH bool hak_stats_wanted(void) {
    return hak_option(HAK_OPTION_STATS) != 0 || hak_option(HAK_OPTION_TINY_STATS_DUMP) ||
           hak_option(HAK_OPTION_WARM_POOL_STATS) || hak_stats_times();
}

/* Prepares for a report at the end. Called as soon as a report is wanted: before main, or when an
 * option is changed. Programs close stderr before they end, and daemons open other files under its
 * number; so this copies stderr and notes which file it was. Only the first call has an effect. */
HAK_SLOW_PATH void hak_stats_prepare(void);

/* Prints the reports that the options request. */
HAK_SLOW_PATH void hak_stats_report(void);

/* Closes the copy of stderr, before the code of this library goes. */
void hak_stats_forsake(void);

/* The file to report to: the present stderr if it is a pipe or a terminal, or still the file of
 * the start; otherwise the copy of the stderr that the process had at its start. The program may
 * have closed either of them, and a file with data may have got its number, so both are compared
 * with the file of the start. -1 when there is no stderr. */
int hak_stats_stderr(void);

/* Prints a line on stderr: what could not be written to a file, and why. `buffer` has HAK_OUT_CHUNK
 * bytes. */
void hak_stats_complain(const char *what, const char *name, int error, char *buffer);
