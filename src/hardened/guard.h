/* guard.h: pages that nobody can read or write.
 *
 * A guard is made by MADV_GUARD_INSTALL where the kernel has it (Linux 6.13): the mapping stays
 * whole, whatever the number of guards. Elsewhere by mprotect, which makes two mappings more: then
 * there are HAK_GUARDS_MAPPED of them at most, and what comes later has no guard, and counts as lost.
 *
 * GUARD UNITS. One of about GUARD_UNITS units of 64 KiB that slabs take becomes a guard for good: a
 * write that runs through many blocks ends there. It is a block of the class of 64 KiB, the only one
 * of its slab, that nobody gives back; the statistics count it as cached. The pool gives units in
 * the order of their addresses, so a guard lies between slabs; which ones is random. It costs
 * addresses, no pages. A superslab with a guard unit is never unmapped, so none is made while addresses are
 * short (hak_region_is_short). */
#pragma once

#include "base/base.h"
#include "hardened/hardened.h"

typedef enum { HAK_GUARD_NONE, HAK_GUARD_ADVISED, HAK_GUARD_MAPPED } hak_guard_t;

enum { HAK_GUARDS_MAPPED = 256 }; /* of a process; each is up to two of its 1,000 mappings */

typedef struct {
    _Atomic uint32_t mapped; /* guards that were made by protection, and are there still */
    _Atomic uint64_t not_made;
} hak_guard_stats_t;

extern hak_guard_stats_t hak_guard_stats;

/* Makes whole pages a guard; what they held is lost. NONE when the system refuses. */
hak_guard_t hak_guard_set(void *start, size_t size);

/* The same by advice only, which is cheap for any number of pages. */
bool hak_guard_set_by_advice(void *start, size_t size);

/* Makes pages usable again that hak_guard_set has made a guard; they read as zero, or, MAPPED, as
 * before. False when the system refuses: they are a guard still. */
bool hak_guard_clear(void *start, size_t size, hak_guard_t guard);

/* True when the caller shall make a guard unit, which counts from now on. The second makes it of a
 * block of 64 KiB, or NULL; false when it is none after all. */
bool hak_guard_unit_is_due(hak_random_t *random);
bool hak_guard_unit_make(void *unit);

/* Guard units so far. */
uint32_t hak_guard_unit_count(void);
