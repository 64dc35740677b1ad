/* guard.h: guard pages, which cannot be read or written.
 *
 * Where the kernel has MADV_GUARD_INSTALL (Linux 6.13), a guard is made by it: the mapping stays
 * whole, whatever the number of guards. Elsewhere it is made by mprotect, which adds up to two
 * mappings. Then there are at most HAK_GUARDS_MAPPED guards; later blocks have none, and are
 * counted in `not_made`. big.c puts a guard behind each block above 64 KiB, guard_sample.c two around
 * each sampled block.
 *
 * GUARD UNITS. One of about GUARD_UNITS units of 64 KiB that slabs take becomes a guard for good: a
 * write that runs through many blocks ends there. It is a block of the class of 64 KiB, the only
 * one of its slab, and is never freed; the statistics count it as cached. The pool hands out units
 * in the order of their addresses, so a guard lies between slabs, at a random place. It costs
 * addresses, no pages, so it is not charged as committed. A superslab with a guard unit is never
 * unmapped, so none is made while addresses are short (hak_region_is_short). */
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

/* Makes the pages of a guard usable again; they read as zero or, if the guard is MAPPED, as before.
 * False when the system refuses: then they stay a guard. */
bool hak_guard_clear(void *start, size_t size, hak_guard_t guard);

/* The first is true when the caller must make a guard unit, which is counted from then on. The
 * second makes it of a block of 64 KiB; false, and no longer counted, when that fails or `unit` is
 * NULL. */
bool hak_guard_unit_is_due(hak_random_t *random);
bool hak_guard_unit_make(void *unit);

/* Bytes of guard units that the pool counts as used, but that are not charged. */
size_t hak_guard_units_uncharged(void);

/* Guard units so far. */
uint32_t hak_guard_unit_count(void);
