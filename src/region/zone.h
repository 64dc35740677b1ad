/* zone.h: which parts of the heap's addresses may have huge pages.
 *
 * The kernel counts a mapping for each stretch that differs from its neighbours, and allows some
 * 65,000. So huge pages are asked for and refused by zones: 2 MiB long at the beginning of the
 * heap, a sixteenth to a thirty-second of what lies below further on. A heap of 8 TiB, as much as
 * there can be, has 304 of them, so huge pages never make more than 304 mappings of it, whatever
 * it has gone through.
 *
 *   UNDECIDED -> PLAIN     the heap was not dense when it grew into the zone
 *   UNDECIDED -> WISHED    it was: what is mapped in the zone is advised to have huge pages
 *   WISHED    -> REFUSED   a part of the zone was purged: the kernel would fill the gap again to
 *                          make a huge page. What is mapped in the zone is advised against it
 *
 * Under the region lock; `state` may be read without it, by who then asks again. */
#ifndef HAK_ZONE_H
#define HAK_ZONE_H

#include "base/base.h"

enum {
    HAK_ZONE_UNITS = 32, /* of the first zones: 2 MiB, a huge page where a page is 4 KiB */
    HAK_ZONES_MAX = 304,
};

/* A range of units of the heap, counted from its first one. */
typedef struct {
    size_t first, end;
} hak_zone_range_t;

/* The zone of a unit; its units. */
unsigned hak_zone_of(size_t unit);
hak_zone_range_t hak_zone_range(unsigned zone);

/* Units of the heap have just been mapped at `start`: advises the kernel as the zone says, which a
 * heap that is `dense` or not decides where it grows into it. Region lock held. */
void hak_zone_mapped(char *heap, hak_zone_range_t units, bool dense);

/* True when huge pages are asked for where the unit lies. */
bool hak_zone_wishes(size_t unit);

/* No more huge pages in the zone of a unit, of which what is below `end` is mapped. `heap` is the
 * address of unit 0. Region lock held. */
void hak_zone_refuse(char *heap, size_t unit, size_t end);

/* Borders between a zone with advice and one with another, below the unit `end`. */
unsigned hak_zone_borders(size_t end);

#endif
