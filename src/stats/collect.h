/* collect.h: reads the counters of all layers. */
#pragma once

#include "stats/stats.h"

/* Collects all figures. They are 11 KB, and a thread's stack may have no more than 16 KB, so they
 * have one static place. It belongs to the caller until the caller passes the pointer to
 * hak_stats_end; other callers wait. In between the caller must not call code outside the
 * library. This function and the next ones return NULL where they could wait for their own thread
 * (hak_gate_begin_question). */
const hak_stats_t *hak_stats_begin(void);
void hak_stats_end(const hak_stats_t *stats);

/* The same, but returns NULL also when another caller has the place for longer than `tries`
 * milliseconds. For code that must not wait until a report is written. */
const hak_stats_t *hak_stats_begin_within(unsigned tries);

/* Collects all figures into a second static place, for a report to a pipe or a terminal, whose
 * reader may be slow. Until hak_stats_copy_end, other callers of this function wait; callers of
 * hak_stats_begin do not. */
const hak_stats_t *hak_stats_copy(void);
void hak_stats_copy_end(const hak_stats_t *stats);

/* The same as hak_stats_begin for a caller that may have interrupted any code, for instance exit()
 * in a signal handler. NULL when a lock is not free within a second: then the interrupted code
 * probably holds it, and the figures would be wrong. */
const hak_stats_t *hak_stats_try_begin(void);
