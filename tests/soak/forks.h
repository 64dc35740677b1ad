/* forks.h - forks in the middle of the run. */
#ifndef TESTS_SOAK_FORKS_H
#define TESTS_SOAK_FORKS_H

#include "worker.h"

/* Forks; the child checks and frees blocks of this place, makes others, and ends. Waits for it. */
void fork_step(struct worker *worker);

#endif
