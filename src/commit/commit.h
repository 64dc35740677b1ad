/* commit.h: the bytes that HAKMEM keeps committed, and the limits on them.
 *
 * Committed = units that may have pages (handed out since they were last purged)
 * + mappings of huge blocks, in use or kept for reuse + memory for records
 * + the pages of sampled blocks, from the start on. Whoever is about to let fresh
 * memory be touched charges it first; whoever has given pages back to the system
 * releases them. Thread-safe; one atomic addition a call, and a
 * call is made per unit or mapping that changes its state, never per block. */
#pragma once

#include "base/base.h"

/* False, and nothing charged, when the sum would exceed HAKMEM_LIMIT. */
bool hak_commit_charge(size_t bytes);

void hak_commit_release(size_t bytes);

/* Bytes charged now. Never above HAKMEM_LIMIT. */
size_t hak_commit_bytes(void);

/* HAKMEM_LIMIT_SOFT in bytes; 0: none. Under `auto` 0 before the first look at the control groups, and
 * more than can be committed where these set no limit. */
size_t hak_commit_soft(void);

/* The same where it must be kept in mind before it is crossed: a number always, what `auto` has found
 * while more than half of it is committed; else 0. */
size_t hak_commit_soft_near(void);

/* Under `auto` a smaller heap does not look at the control groups. */
enum { HAK_COMMIT_SMALL = 16 * 1024 * 1024 };

/* True once after the sum has crossed HAKMEM_LIMIT_SOFT, and again after each further
 * sixteenth of it: the caller then purges. The thread that has crossed it looks at its next tick.
 * Under `auto`, before the first look at the control groups, true after a charge that led above
 * HAK_COMMIT_SMALL: the caller then makes that look. A charge makes no syscall, since it may be made under a
 * lock. */
bool hak_commit_pressure(void);

/* Charges that the limit refused. */
uint64_t hak_commit_refused(void);
