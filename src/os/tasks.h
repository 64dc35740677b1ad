/* tasks.h: whether a thread is the only one that its process still has, and its end. */
#pragma once

#include "base/base.h"

/* True when all other threads of the process have ended; then *status is the exit status of its first thread, which is
 * not the caller. Also false if the system does not tell. Reads a file of /proc; errno may change. */
bool hak_os_is_last_task(int *status);

/* Ends only the calling thread; no handler and no destructor runs. If it is the last thread, the process ends, with the
 * status of this thread or of the first one; the kernel chooses. So the caller passes that of the first one. */
_Noreturn void hak_os_end_task(int status);
