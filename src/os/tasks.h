/* tasks.h: whether a thread is the only one that its process still has, and its end. */
#pragma once

#include "base/base.h"

/* True when all other threads of the process have ended, and *status is that of its first one, which is not the caller.
 * False, too, where the system does not tell. Reads a file of /proc; errno may change. */
bool hak_os_is_last_task(int *status);

/* Ends the calling thread only: no handler and no destructor runs. If it is the last thread, and `status` is that of the
 * first one, the process ends with that status, whichever of the two the kernel takes. */
_Noreturn void hak_os_end_task(int status);
