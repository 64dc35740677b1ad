/* commit.h: the bytes that HAKMEM keeps committed, and the limits on them.
 *
 * Committed = units that may have pages (handed out since they were last purged) + mappings of huge
 * blocks, in use or kept for reuse + memory for records + the pages of sampled blocks, from the
 * start on. The caller charges fresh memory before anybody may touch it, and releases it after its
 * pages went back to the system. Thread-safe. Each call is one atomic addition; with HAKMEM_LIMIT, a
 * charge is a compare-and-swap. There is a call for each unit or mapping that changes its state,
 * never for a block. */
#pragma once

#include "base/base.h"

/* False, and nothing charged, when the sum would exceed HAKMEM_LIMIT. */
bool hak_commit_charge(size_t bytes);

void hak_commit_release(size_t bytes);

/* Bytes charged now. Not above HAKMEM_LIMIT, unless the program has lowered that since. */
size_t hak_commit_bytes(void);

/* HAKMEM_LIMIT_SOFT in bytes; 0: none. Under `auto`, 0 before the first look at the control groups,
 * and more than can ever be committed if they set no limit. */
size_t hak_commit_soft(void);

/* The soft limit for callers that act before it is crossed. A limit that was set as a number counts
 * always; the one found by `auto` counts while more than half of it is committed. Otherwise 0. */
size_t hak_commit_soft_near(void);

/* Under `auto`, a heap below this size does not look at the control groups. */
enum { HAK_COMMIT_SMALL = 16 * 1024 * 1024 };

/* True once after the sum has crossed HAKMEM_LIMIT_SOFT, and again after each further sixteenth of
 * it: the caller then purges. The thread whose charge crossed the limit checks this at its next
 * tick. Under `auto`, before the first look at the control groups, true after a charge that led
 * above HAK_COMMIT_SMALL: the caller then looks at the groups. The charge itself makes no syscall,
 * since its caller may hold a lock. */
bool hak_commit_pressure(void);

/* Charges that the limit refused. */
uint64_t hak_commit_refused(void);
