/* thp.c: from units to zones, and what the kernel is told of them. */
#include "region/thp.h"

#include "os/os.h"
#include "region/unit.h"

enum { UNDECIDED, PLAIN, WISHED, REFUSED };
enum { DOUBLING_SHIFT = 4 }; /* log2 of the zones in each doubling */

static _Atomic uint8_t states[HAK_THP_ZONES_MAX]; /* region lock to write */
static size_t mapped[HAK_THP_ZONES_MAX];          /* region lock; units that are */

HAK_COMMON unsigned hak_thp_of(size_t unit) {
    size_t step = unit / HAK_THP_UNITS;
    if (step < 1u << DOUBLING_SHIFT) return (unsigned)step;
    unsigned shift = hak_highest_bit(step) - DOUBLING_SHIFT;
    unsigned zone = (shift << DOUBLING_SHIFT) + (unsigned)(step >> shift);
    HAK_ASSERT(zone < HAK_THP_ZONES_MAX);
    return zone;
}

static size_t first_unit(unsigned zone) {
    unsigned shift = zone < 2u << DOUBLING_SHIFT ? 0 : (zone >> DOUBLING_SHIFT) - 1;
    return ((size_t)(zone - (shift << DOUBLING_SHIFT)) << shift) * HAK_THP_UNITS;
}

HAK_COMMON hak_thp_range_t hak_thp_range(unsigned zone) {
    return (hak_thp_range_t){first_unit(zone), first_unit(zone + 1)};
}

static void advise(char *heap, size_t first, size_t end, bool wish) {
    if (end <= first) return;
    hak_os_wish_huge(heap + (first << HAK_UNIT_SHIFT), (end - first) << HAK_UNIT_SHIFT, wish);
}

HAK_COMMON void hak_thp_mapped(char *heap, hak_thp_range_t units, bool dense) {
    for (size_t first = units.first, end; first < units.end; first = end) {
        unsigned zone = hak_thp_of(first);
        uint8_t state = hak_load_relaxed(&states[zone]);
        end = hak_min(hak_thp_range(zone).end, units.end);
        if (state == UNDECIDED) hak_store_relaxed(&states[zone], state = dense ? WISHED : PLAIN);
        if (state >= WISHED) advise(heap, first, end, state == WISHED);
        mapped[zone] += end - first;
    }
}

void hak_thp_unmapped(hak_thp_range_t superslab) {
    unsigned zone = hak_thp_of(superslab.first);
    mapped[zone] -= superslab.end - superslab.first;
    if (mapped[zone] == 0) hak_store_relaxed(&states[zone], UNDECIDED);
}

HAK_COMMON bool hak_thp_wishes(size_t unit) {
    return hak_load_relaxed(&states[hak_thp_of(unit)]) == WISHED;
}

bool hak_thp_refuses(size_t unit) { return hak_load_relaxed(&states[hak_thp_of(unit)]) == REFUSED; }

void hak_thp_refuse(char *heap, size_t unit, size_t end) {
    unsigned zone = hak_thp_of(unit);
    hak_thp_range_t units = hak_thp_range(zone);
    if (hak_load_relaxed(&states[zone]) != WISHED) return;
    hak_store_relaxed(&states[zone], REFUSED);
    advise(heap, units.first, hak_min(units.end, end), false);
}

unsigned hak_thp_borders(size_t end) {
    unsigned borders = 0, last = end ? hak_thp_of(end - 1) : 0;
    for (unsigned zone = 1; zone <= last; zone++) {
        uint8_t below = hak_load_relaxed(&states[zone - 1]), here = hak_load_relaxed(&states[zone]);
        borders += hak_max(below, PLAIN) != hak_max(here, PLAIN);
    }
    return borders;
}
