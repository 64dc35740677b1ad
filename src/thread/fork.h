/* fork.h: what is done around a fork. */
#pragma once

#include "os/lock.h"

/* Protects the only buffer for a collection of the statistics. Only the lock of the live page's
 * refresh is taken before it. A fork does not wait for it, since a thread may be printing from the
 * buffer for long; the child sets it free. */
extern hak_lock_t hak_snapshot_lock;

/* Registers the handlers, once. */
void hak_fork_install(void);
