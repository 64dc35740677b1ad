/* forks.h - forks in the middle of the run. */
#pragma once

#include "worker.h"

/* Forks; the child checks and frees blocks of this place, makes others, and ends. Waits for it. */
void fork_step(struct worker *worker);
