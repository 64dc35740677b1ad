/* extent.h: the free memory of one large heap, in grains of 4 KiB.
 *
 * An extent is a stretch of at most HAK_EXTENT_MAX free grains; it may cross units and
 * superslabs. Memory that becomes free joins its free neighbours at once. A longer stretch is
 * cut into several extents, always where a superslab begins: two extents touch only there. The
 * record of an extent lies in the descriptors of the unit in which it begins and of the unit in
 * which it ends:
 *
 *   extent_first = length << 4 | first grain, counted in its unit;  0 = none begins
 *   extent_last  = length << 4 | last grain, counted in its unit;   0 = none ends
 *
 * One of each is enough for a unit: between two extents lies the border of a superslab, or
 * a block, and the smallest block (17 grains) is longer than a unit (16).
 *
 * Bins: there is one for each length up to 256 grains, then four for each doubling. An insertion
 * looks at the first few extents of its bin, so only these are sorted by address, the lowest
 * first. An allocation takes the best fit, since that touches the fewest pages in the long run.
 * Everything here is under the lock of the heap.
 *
 * No search walks over the heap: `looks` counts the units that searches look at, for the tests.
 * The limit on the length serves this, too: in the middle of an extent nothing tells where it
 * begins, so a search goes back unit by unit. */
#pragma once

#include "base/base.h"
#include "region/unit.h"
#include "region/superslab.h"

enum {
    HAK_EXTENT_EXACT = HAK_LARGE_MAX / HAK_GRAIN_SIZE, /* lengths with a bin of their own */
    HAK_EXTENT_MAX_SHIFT = 23 - HAK_GRAIN_SHIFT,       /* 8 MiB */
    HAK_EXTENT_MAX = 1 << HAK_EXTENT_MAX_SHIFT,        /* grains */
    HAK_EXTENT_BINS = HAK_EXTENT_EXACT + 1 + 4 * (HAK_EXTENT_MAX_SHIFT - 8) + 1,
    HAK_EXTENT_WORDS = (HAK_EXTENT_BINS + 63) / 64,
};

typedef struct {
    uint16_t owner; /* constant from the heap's first superslab on; of its units */
    uint64_t filled[HAK_EXTENT_WORDS]; /* bit set <=> the bin is not empty */
    hak_unit_t *bins[HAK_EXTENT_BINS]; /* units that extents begin in */
    uint64_t looks;                    /* units that searches looked at so far */
} hak_extents_t;

/* Takes the best fit for `grains`, at a multiple of `align_grains` (a power of two); the
 * rest stays free. NULL when nothing fits. An extent of grains + align_grains - 1 fits
 * wherever it begins, and is always found; of shorter ones only a few are looked at. */
char *hak_extents_take(hak_extents_t *extents, size_t grains, size_t align_grains);

/* Takes grains from the front of the extent that begins at `start`; false when none does,
 * or a shorter one. One unit is looked at. */
bool hak_extents_take_front(hak_extents_t *extents, char *start, size_t grains);

/* Takes exactly these grains; false when they are not all free. Looks at two units when
 * they are the front or the end of an extent, else at up to 131. */
bool hak_extents_take_at(hak_extents_t *extents, char *start, size_t grains);

/* Makes grains free; they join their neighbours. */
void hak_extents_give(hak_extents_t *extents, char *start, size_t grains);

/* Length of the extent that begins in a unit and its first byte; 0 when none does. */
size_t hak_extent_in(const hak_unit_t *unit, char **start);
