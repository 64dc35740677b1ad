/* profile_figures.h - figures that the options of the heap profiler move; each is taken in a process of
 * its own. */
#pragma once

/* Samples of 4,096 blocks of 1 KiB. */
long sampled_blocks(void);

/* The error number of a profile on demand: files that cannot be made leave nothing behind. */
long error_of_dump(void);

/* The highest signal that has an action; 0: none of those above 50. */
long handled_signal(void);
