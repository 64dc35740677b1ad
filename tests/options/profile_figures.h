/* profile_figures.h - figures that the options of the heap profiler move; each is taken in a process of
 * its own. */
#pragma once

/* Samples of 4,096 blocks of 1 KiB. */
long sampled_blocks(void);

/* Profiles that were written while 8 MiB were allocated in blocks of 1 KiB and kept, or each freed at once. The
 * options have PROF_FILE name a folder. */
#define FOLDER_OF_PROFILES "effects_of_prof."
long profiles_while_growing(void);
long profiles_while_changing(void);

/* The error number of a profile on demand: files that cannot be made leave nothing behind. */
long error_of_dump(void);

/* The highest signal that has an action; 0: none of those above 50. */
long handled_signal(void);
