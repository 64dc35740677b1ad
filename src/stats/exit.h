/* exit.h: the reports that a process prints when it ends. */
#ifndef HAK_STATS_EXIT_H
#define HAK_STATS_EXIT_H

#include "base/base.h"

/* What must be done at start for a report at the end, if one is wanted: programs close
 * stderr on their way out. Called once, before main. */
void hak_stats_prepare(void);

#endif
