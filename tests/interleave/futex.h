/* futex.h: a model of the kernel's futex, in place of the two calls of os.h. */
#pragma once

#include <stdbool.h>

/* A new execution: nobody sleeps. One sleep of each thread may end without a reason. */
void futex_reset(bool sleeps_are_interrupted);

bool futex_is_asleep(unsigned thread);
