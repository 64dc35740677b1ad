/* machine.h: the simulated machine: CPUs with private caches, a directory, nodes, and a clock each.
 *
 * A line has one owner (the only copy, perhaps modified) or any number of sharers. A CPU that reads
 * a line which another CPU holds, or writes one which another CPU holds, makes a transfer:
 *   move     it had no copy; the line comes from another CPU's cache
 *   upgrade  it had a shared copy and now owns the line; no data moves
 * Where nobody has written since the CPU last held the line, or ever, a read is a copy and no transfer: all
 * caches have the line as memory has it, so the cache that CPUs share serves it as it serves a fetch.
 * Each transfer costs near_ns within a node and far_ns between nodes. Transfers that change the owner
 * of a line are served one after the other; a CPU that comes meanwhile waits at the line. A line
 * that no CPU holds is a fetch: from memory or from a cache that CPUs share.
 *
 * A move is false sharing when the CPU, until it loses the line again, uses no word (4 bytes) that
 * another CPU has written since it last held the line.
 *
 * Only the thread that holds the baton of sched.h calls anything here, so nothing is locked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CPUS_MOST = 256, LINE_SIZE = 64, LINE_WORDS = 16, LINE_SITES = 4, LINE_UPDATES = 8 };

typedef enum { ACCESS_READ, ACCESS_WRITE, ACCESS_UPDATE } access_t;

typedef struct {
    unsigned cpus, node_cpus, cache_kib, ways;
    unsigned hit_ns, fetch_ns, near_ns, far_ns;
} machine_options_t;

/* What was counted since the last reset. */
typedef struct {
    uint64_t accesses, fetches, copies, kernel_calls;
} machine_totals_t;

extern machine_options_t machine_options;
extern machine_totals_t machine_totals;
extern uint64_t machine_clock[CPUS_MOST]; /* ns */

void machine_start(void);
void machine_reset(void); /* forgets what was counted; the caches stay as they are */

/* An access of `cpu` by the code at `pc`. */
void machine_access(unsigned cpu, const void *addr, size_t size, access_t kind, const void *pc);

/* The range is no longer what it was: no cache holds a line of it. */
void machine_drop(const void *addr, size_t size);

static inline unsigned machine_node(unsigned cpu) { return cpu / machine_options.node_cpus; }
