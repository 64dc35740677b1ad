/* resident.h: the parts of the resident memory of a process. */
#pragma once

#include <sys/types.h>

#include "live_stats/live_page.h"

/* Bytes. The parts from `live` on are measured independently of `rss`; their sum may differ from
 * it. `pinned` is what blocks in use keep of `sparse`: it lies in the same pages. */
#define RESIDENT_PARTS(PART) \
    PART(rss)                \
    PART(swap)               \
    PART(pinned)             \
    PART(live)               \
    PART(rounding)           \
    PART(sparse)             \
    PART(caches)             \
    PART(dirty)              \
    PART(metadata)           \
    PART(other)

typedef struct {
#define PART(name) uint64_t name;
    RESIDENT_PARTS(PART)
#undef PART
} resident_t;

/* Measures a process by its live page and /proc. Returns NULL, or the problem. */
const char *resident_measure(pid_t pid, const hak_live_page_t *page, resident_t *resident);

/* Which grains of 4 KiB of a unit that the live page lists were resident then, a bit each. */
uint16_t resident_grains(uint32_t superslab, unsigned unit);
