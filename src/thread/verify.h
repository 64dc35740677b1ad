/* verify.h: all invariants of the engine at once. */
#pragma once

#include "error/check.h"

/* Checks the list of caches, and the sums over all layers. Every thread is outside the engine. */
void hak_thread_check(hak_check_t *check); /* in thread.c, as what it looks at */

/* Runs every check while all other threads are kept outside the engine, as for a fork; it takes a
 * time that grows with the heap. Returns the number of violations; SIZE_MAX in a signal handler that has interrupted a
 * change or a check. No lock held. */
size_t hak_verify(void);

/* In the child of a fork. */
void hak_verify_forget(void);
