/* fork.h: the steps before and after a fork. */
#pragma once

#include "os/lock.h"

/* Each lock protects a static buffer for a collection of the statistics: the first the buffer of a report to a stream
 * of the program, the second that of all other readers. They are taken in this order, after the lock of the live page's
 * refresh. A fork does not wait for them, because a thread may print for a long time; the child releases them. */
extern hak_lock_t hak_report_lock, hak_snapshot_lock;

/* pthread_atfork(3) for handlers that stay until the process ends. In exit(), glibc removes the handlers of
 * pthread_atfork, with the destructors of the library, while other threads may fork: such a fork would close the gate
 * and never open it. glibc does not remove handlers that have no handle. But if the archive is part of a library that
 * dlclose may unmap, the handlers must go with the library; there pthread_atfork registers them. Each may be NULL. */
void hak_fork_register(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Registers the handlers of the engine, once. */
void hak_fork_install(void);
