/* warm_figures.h - what the options of warm slabs change. All bands are promoted. */
#pragma once

/* After refills of a class of C7 with many half-used slabs: slabs bound to this thread, and
 * refills carved without a lock. */
long slabs_bound(void);
long refills_carved(void);

/* Lines on stderr about slabs that are bound to a thread, and about those that come from the
 * pool or go back to it. */
long lines_of_warm_slabs(void);
long lines_of_hand_overs(void);
