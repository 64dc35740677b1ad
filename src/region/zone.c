/* zone.c: from units to zones, and what the kernel is told of them. */
#include "region/zone.h"

#include "os/os.h"
#include "region/unit.h"

enum { UNDECIDED, PLAIN, WISHED, REFUSED };
enum { DOUBLING_SHIFT = 4 }; /* log2 of the zones in each doubling */

static _Atomic uint8_t states[HAK_ZONES_MAX]; /* region lock to write */
static size_t mapped[HAK_ZONES_MAX];          /* region lock; units that are */

HAK_COMMON unsigned hak_zone_of(size_t unit) {
    size_t step = unit / HAK_ZONE_UNITS;
    if (step < 1u << DOUBLING_SHIFT) return (unsigned)step;
    unsigned shift = hak_highest_bit(step) - DOUBLING_SHIFT;
    unsigned zone = (shift << DOUBLING_SHIFT) + (unsigned)(step >> shift);
    HAK_ASSERT(zone < HAK_ZONES_MAX);
    return zone;
}

static size_t first_unit(unsigned zone) {
    unsigned shift = zone < 2u << DOUBLING_SHIFT ? 0 : (zone >> DOUBLING_SHIFT) - 1;
    return ((size_t)(zone - (shift << DOUBLING_SHIFT)) << shift) * HAK_ZONE_UNITS;
}

HAK_COMMON hak_zone_range_t hak_zone_range(unsigned zone) {
    return (hak_zone_range_t){first_unit(zone), first_unit(zone + 1)};
}

static void advise(char *heap, size_t first, size_t end, bool wish) {
    if (end <= first) return;
    hak_os_wish_huge(heap + (first << HAK_UNIT_SHIFT), (end - first) << HAK_UNIT_SHIFT, wish);
}

HAK_COMMON void hak_zone_mapped(char *heap, hak_zone_range_t units, bool dense) {
    for (size_t first = units.first, end; first < units.end; first = end) {
        unsigned zone = hak_zone_of(first);
        uint8_t state = hak_load_relaxed(&states[zone]);
        end = hak_min(hak_zone_range(zone).end, units.end);
        if (state == UNDECIDED) hak_store_relaxed(&states[zone], state = dense ? WISHED : PLAIN);
        if (state >= WISHED) advise(heap, first, end, state == WISHED);
        mapped[zone] += end - first;
    }
}

void hak_zone_unmapped(hak_zone_range_t superslab) {
    unsigned zone = hak_zone_of(superslab.first);
    mapped[zone] -= superslab.end - superslab.first;
    if (mapped[zone] == 0) hak_store_relaxed(&states[zone], UNDECIDED);
}

HAK_COMMON bool hak_zone_wishes(size_t unit) {
    return hak_load_relaxed(&states[hak_zone_of(unit)]) == WISHED;
}

bool hak_zone_refuses(size_t unit) {
    return hak_load_relaxed(&states[hak_zone_of(unit)]) == REFUSED;
}

void hak_zone_refuse(char *heap, size_t unit, size_t end) {
    unsigned zone = hak_zone_of(unit);
    hak_zone_range_t units = hak_zone_range(zone);
    if (hak_load_relaxed(&states[zone]) != WISHED) return;
    hak_store_relaxed(&states[zone], REFUSED);
    advise(heap, units.first, hak_min(units.end, end), false);
}

unsigned hak_zone_borders(size_t end) {
    unsigned borders = 0, last = end ? hak_zone_of(end - 1) : 0;
    for (unsigned zone = 1; zone <= last; zone++) {
        uint8_t below = hak_load_relaxed(&states[zone - 1]), here = hak_load_relaxed(&states[zone]);
        borders += hak_max(below, PLAIN) != hak_max(here, PLAIN);
    }
    return borders;
}
