/* verify.h: the canaries of all blocks in use, on demand. */
#pragma once

#include "error/check.h"

/* Walks over all blocks, with every thread outside the engine. Threads that allocate and free
 * without the engine go on: a block that they free or resize meanwhile is left out. */
void hak_hardened_check(hak_check_t *check);
