/* thp.h: which parts of the heap's addresses may have huge pages.
 *
 * The kernel counts a mapping for each range whose advice differs from its neighbours', and allows
 * about 65,000 mappings. So huge pages are requested and refused zone by zone. The first zones are
 * 2 MiB long; later ones are a sixteenth to a thirty-second of the heap below them. A heap of 8
 * TiB, the maximum, has 304 zones, at most every fourth of which is PROBED and has a border inside.
 * So huge pages never add more than 380 mappings.
 *
 *   UNDECIDED -> PLAIN     the heap was not dense when the first superslab of the zone was mapped
 *   UNDECIDED -> WISHED    the heap was dense: mapped memory of the zone is advised to have huge
 *                          pages
 *   UNDECIDED -> PROBED    the same, except for the first 2 MiB of the zone, which are advised
 *                          against huge pages: inside a huge page nobody can tell which parts the
 *                          program uses
 *   UNDECIDED -> SPARSE    the heap was dense, but the program does not fill its blocks
 *                          (thp_wish.h): mapped memory of the zone is advised against huge pages,
 *                          which some kernels make without a request
 *   WISHED, PROBED -> REFUSED  a part of the zone that may have huge pages was purged, and the
 *                          kernel would fill the gap again to make one. Mapped memory of the zone
 *                          is advised against huge pages; holes are not, since other code may have
 *                          memory there. If the kernel refuses the advice for some of it because of
 *                          too many mappings, the state stays. Purges try again half a second
 *                          later, since each attempt walks over the zone. The same where a large
 *                          heap takes a superslab of the zone and has many already (pool/pool.c)
 *   any       -> UNDECIDED all superslabs of the zone are holes: their gaps, and the page tables
 *                          that keep the kernel from making huge pages, went with the mappings
 *
 * Under the region lock. A caller may read `state` without the lock, if it then checks again. */
#pragma once

#include "base/base.h"
#include "options/options.h"

enum {
    HAK_THP_EARLY =
        2, /* HAKMEM_THP: huge pages also where it is not known that the program will fill them */
    HAK_THP_UNITS = 32, /* of the first zones: 2 MiB, a huge page where a page is 4 KiB */
    HAK_THP_ZONES_MAX = 304,
    HAK_THP_PROBE_EVERY = 4,   /* zones, at most one of which is PROBED: a quarter of the heap */
    HAK_THP_PROBE_UNITS = 512, /* or 32 MiB, if that is more */
};

/* What a heap that grows wants for zones that are not decided. */
typedef enum {
    HAK_THP_NONE,    /* PLAIN */
    HAK_THP_ALL,     /* WISHED */
    HAK_THP_PROBE,   /* WISHED, or PROBED where no zone near it is */
    HAK_THP_AGAINST, /* SPARSE */
} hak_thp_wish_t;

/* A range of units of the heap, counted from its first one. */
typedef struct {
    size_t first, end;
} hak_thp_range_t;

/* True under THP=2. False under a LIMIT, which a huge page could exceed. */
HAK_FAST_PATH bool hak_thp_is_early(void) {
    return hak_option(HAK_OPTION_THP) == HAK_THP_EARLY && !hak_option(HAK_OPTION_LIMIT);
}

/* The zone of a unit; its units. */
unsigned hak_thp_of(size_t unit);
hak_thp_range_t hak_thp_range(unsigned zone);

/* Called when units of the heap have just been mapped: advises the kernel according to their zones.
 * `wish` decides the state of a zone that is not decided: pool/pool.c says whether the heap is
 * dense, region.c whether it is large, thp_wish.c whether its pages are used. The second is called
 * when a superslab has been unmapped. Region lock held. */
void hak_thp_mapped(char *heap, hak_thp_range_t units, hak_thp_wish_t wish);
void hak_thp_unmapped(hak_thp_range_t superslab);

/* Units of a zone that are mapped. Region lock held. */
size_t hak_thp_mapped_units(unsigned zone);

/* The units of a zone that have small pages as far as we know: all, the probe, or none. Region lock
 * held. */
hak_thp_range_t hak_thp_small_pages(unsigned zone);

/* True when the zone of the unit is decided; when huge pages are requested for the zone; when they
 * are requested for the unit, which lies in no probe; when they were requested for the zone, and
 * are refused. */
bool hak_thp_is_decided(size_t unit);
bool hak_thp_wishes(size_t unit);
bool hak_thp_asks(size_t unit);
bool hak_thp_refuses(size_t unit);

/* Refuses huge pages in the zone of a unit from now on, if the unit may have them. Region lock
 * held. */
struct hak_region_walk;
void hak_thp_refuse(const struct hak_region_walk *walk, size_t unit);

/* Number of borders, below the unit `end`, between units with different advice. */
unsigned hak_thp_borders(size_t end);
