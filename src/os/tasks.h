/* tasks.h: whether a thread is the only one that its process still has, and its end. */
#pragma once

#include "base/base.h"

/* True when all other threads of the process have ended, and *status is that of its first one, which is not the caller.
 * False, too, where the system does not tell. Reads a file of /proc; errno may change. */
bool hak_os_is_last_task(int *status);

/* Ends the calling thread, and nothing else: no handler, no destructor runs. The kernel takes the status of the last one for
 * that of the process, as it did with that of the first one before Linux 5.17. */
_Noreturn void hak_os_end_task(int status);
