/* cpu.h: what the process may use, CPUs and memory, and which CPU the caller runs on. */
#pragma once

#include "base/base.h"

/* Number of CPUs that this process may use, at least 1, as of the last look. The first call looks
 * at the affinity only. */
unsigned hak_os_cpu_count(void);

/* Looks again at the affinity, and at the limits of CPU time and memory of the process's control
 * groups. That takes some syscalls, so callers do it now and then only. True when a number has
 * changed. */
bool hak_os_look_at_limits(void);

/* Bytes of memory that the control groups of the process allow, as of the last look; UINT64_MAX for
 * no limit, 0 before the first look. */
uint64_t hak_os_memory_limit(void);

/* True when the process could use a CPU, by the system's number, at the last look. */
bool hak_os_cpu_is_allowed(unsigned cpu);

/* Index, from 0 on, of the caller's CPU among the CPUs of the last look; an arbitrary number when
 * the CPU was allowed later. On a machine of several nodes: the CPU's place in their order
 * (os/numa_topology.h). A syscall only if libc has neither rseq nor a vDSO function for it: musl on
 * AArch64. */
unsigned hak_os_this_cpu(void);

/* The calling thread serves the whole process: it no longer has the CPUs and the scheduling policy of the thread that
 * started it, but the CPUs of the last look and the policy of the process's first thread, unless that is a
 * real-time one. What the system refuses stays. */
void hak_os_become_helper(void);
