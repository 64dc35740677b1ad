/* fork.h: what is done around a fork. */
#pragma once

#include "os/lock.h"

/* Each protects a static buffer for a collection of the statistics: the first that of a report to a stream
 * of the program, the second that of all other readers. They are taken in this order, and the lock of the
 * live page's refresh before them. A fork does not wait for them, since a thread may print for long; the
 * child sets them free. */
extern hak_lock_t hak_report_lock, hak_snapshot_lock;

/* pthread_atfork(3) for handlers that stay until the process ends. glibc removes those of pthread_atfork in exit(),
 * with the destructors of the library, while other threads fork: a fork would close the gate and never open it. It
 * removes none that has no handle. But where the archive is a part of a library that dlclose may unmap, handlers must go
 * with it: there they are those of pthread_atfork. Each may be NULL. */
void hak_fork_register(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Registers the handlers of the engine, once. */
void hak_fork_install(void);
