/* walk.h: finds superslabs that are mapped, or are not, without examining each.
 *
 * A zone (thp.h) counts its mapped units. If all or none of them are mapped, one look serves the
 * whole zone, and a heap has few zones. Only a zone with holes is examined superslab by superslab.
 * A caller that must not wait for that passes a number of looks, and continues later. All under the
 * region lock. */
#pragma once

#include "os/range.h"
#include "region/superslab.h"
#include "region/thp.h"

/* The position of a walk over ranges; all 0 at first. */
typedef struct {
    size_t at;    /* the next superslab to look at */
    size_t first; /* where the present range begins */
    bool is_in_range;
} hak_region_cursor_t;

/* The region as it is now. Superslabs below `carved` have records, those from there to `limit` are
 * mapped. */
typedef struct hak_region_walk {
    char *heap; /* address of unit 0 */
    hak_superslab_t *supers;
    size_t carved, limit;
} hak_region_walk_t;

/* The first run of mapped units in a range; if there is none, an empty run at the end of the
 * range. */
hak_thp_range_t hak_region_walk_run(const hak_region_walk_t *walk, hak_thp_range_t units);

/* Walks over a piece of the ranges below `carved`. Holes are left out, since other code may have
 * memory there. False after the last piece. */
bool hak_region_walk_each_range(const hak_region_walk_t *walk, hak_region_cursor_t *cursor,
                                hak_range_visitor_t visit, void *context);

/* Finds every n-th mapped superslab below `carved`, `most` at most, in their order. Returns how
 * many it found, and stores n in *stride. After the first 8,192 superslabs of zones with holes, it
 * picks superslabs of such zones as if their holes were spread evenly. */
unsigned hak_region_walk_sample(const hak_region_walk_t *walk, hak_superslab_t **found,
                                unsigned most, size_t *stride);
