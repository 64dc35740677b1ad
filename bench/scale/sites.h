/* sites.h: what each place in the code did: counters by the address of the instruction. */
#pragma once

#include <stdint.h>

typedef struct {
    const void *pc;
    uint64_t moves, upgrades, far, invalidations, false_moves;
    uint64_t accesses;     /* lines, as machine_totals counts them */
    uint64_t updates;      /* atomic read-modify-write operations */
    uint64_t failed;       /* of them: compare-and-swap that failed */
    uint64_t locks;        /* of pthread mutexes */
    uint64_t blocks;       /* times a thread went to sleep here */
    uint64_t line_wait_ns; /* waiting for a line that others moved */
    uint64_t wait_ns;      /* asleep, or between two looks of a spin loop */
} site_t;

enum { SITES_MOST = 1 << 16 };

uint32_t sites_index(const void *pc); /* made if there is none */
site_t *sites_at(uint32_t index);
uint32_t sites_count(void);
void sites_reset(void);

static inline site_t *sites_of(const void *pc) { return sites_at(sites_index(pc)); }
