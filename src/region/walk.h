/* walk.h: searches for superslabs that are mapped, or are not, without a look at each.
 *
 * A zone (thp.h) counts its mapped units. Where all or none of a zone are, one look is enough for it, and a
 * heap has few zones. Only a zone with holes is looked at superslab by superslab; who cannot wait for that
 * gives a number of looks, and goes on later. All under the region lock. */
#pragma once

#include "os/range.h"
#include "region/superslab.h"
#include "region/thp.h"

/* Where a walk over ranges is; all 0 at first. */
typedef struct {
    size_t at,
        first; /* superslabs: the next one to look at, and where the range begins that it is in */
    bool is_in_range;
} hak_region_cursor_t;

/* The region as it is now. Superslabs below `carved` have records, those from there to `limit` are mapped. */
typedef struct hak_region_walk {
    char *heap; /* address of unit 0 */
    hak_superslab_t *supers;
    size_t carved, limit;
} hak_region_walk_t;

/* Moves *at to the first superslab below `end` (`limit` at most) that is mapped, or is not. False, with *at
 * where the walk ended, when there is none or no look is left. */
bool hak_region_walk_next(const hak_region_walk_t *walk, size_t *at, size_t end, bool mapped,
                          size_t *looks);

/* The first run of mapped units in a range; an empty one at its end where there is none. */
hak_thp_range_t hak_region_walk_run(const hak_region_walk_t *walk, hak_thp_range_t units);

/* A piece of a walk over the ranges below `carved`, without holes: others may have memory there. False when it has
 * been all. */
bool hak_region_walk_each_range(const hak_region_walk_t *walk, hak_region_cursor_t *cursor,
                                hak_range_visitor_t visit, void *context);

/* Every so many of the mapped superslabs below `carved`, `most` at most and in their order. Returns their number,
 * and the distance in *stride. In zones with holes, once the first 8,192 superslabs of such zones were looked at,
 * they are as far apart as that many would be if the holes were strewn evenly. */
unsigned hak_region_walk_sample(const hak_region_walk_t *walk, hak_superslab_t **found,
                                unsigned most, size_t *stride);
