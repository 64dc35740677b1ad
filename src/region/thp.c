/* thp.c: from units to zones, and the advice on them that the kernel gets. */
#include "region/thp.h"

#include "os/os.h"
#include "region/unit.h"
#include "region/walk.h"

enum { UNDECIDED, PLAIN, SPARSE, WISHED, PROBED, REFUSED };
enum { NO_ADVICE, FOR, AGAINST };
enum { DOUBLING_SHIFT = 4 }; /* log2 of the zones in each doubling */
enum { AGAIN_MS = 500 };     /* pause after the kernel had no room for advice */

static _Atomic uint8_t states[HAK_THP_ZONES_MAX]; /* region lock to write */
static size_t mapped[HAK_THP_ZONES_MAX];          /* region lock; units that are */
static uint64_t again_ms;                         /* region lock; 0, or see AGAIN_MS */

HAK_COMMON unsigned hak_thp_of(size_t unit) {
    size_t step = unit / HAK_THP_UNITS;
    if (step < 1u << DOUBLING_SHIFT) return (unsigned)step;
    unsigned shift = hak_highest_bit(step) - DOUBLING_SHIFT;
    unsigned zone = (shift << DOUBLING_SHIFT) + (unsigned)(step >> shift);
    HAK_ASSERT(zone < HAK_THP_ZONES_MAX);
    return zone;
}

/* Also for the number behind the last zone: the end of the last zone. */
HAK_FAST_PATH size_t first_unit(unsigned zone) {
    HAK_ASSERT(zone <= HAK_THP_ZONES_MAX);
    unsigned shift = zone < 2u << DOUBLING_SHIFT ? 0 : (zone >> DOUBLING_SHIFT) - 1;
    return ((size_t)(zone - (shift << DOUBLING_SHIFT)) << shift) * HAK_THP_UNITS;
}

HAK_COMMON hak_thp_range_t hak_thp_range(unsigned zone) {
    return (hak_thp_range_t){first_unit(zone), first_unit(zone + 1)};
}

static bool advise(char *heap, size_t first, size_t end, bool wish) {
    if (end <= first) return true;
    return hak_os_wish_huge(heap + (first << HAK_UNIT_SHIFT), (end - first) << HAK_UNIT_SHIFT,
                            wish);
}

/* End of the units at the beginning of a zone that are advised against huge pages. */
static size_t small_end(unsigned zone, uint8_t state) {
    size_t first = first_unit(zone);
    if (state == PROBED) return first + HAK_THP_UNITS;
    return state == SPARSE || state == REFUSED ? first_unit(zone + 1) : first;
}

static bool are_near(unsigned zone, unsigned further) {
    size_t distance = first_unit(further) - first_unit(zone);
    return further - zone < HAK_THP_PROBE_EVERY || distance < HAK_THP_PROBE_UNITS;
}

/* Looks on both sides, since zones are decided anew in any order. */
static bool has_probe_near(unsigned zone) {
    for (unsigned i = zone; i-- > 0 && are_near(i, zone);)
        if (hak_load_relaxed(&states[i]) == PROBED) return true;
    for (unsigned i = zone + 1; i < HAK_THP_ZONES_MAX && are_near(zone, i); i++)
        if (hak_load_relaxed(&states[i]) == PROBED) return true;
    return false;
}

static uint8_t decide(unsigned zone, hak_thp_wish_t wish) {
    static const uint8_t by_wish[] = {PLAIN, WISHED, PROBED, SPARSE};
    uint8_t state = by_wish[wish];
    if (state == PROBED && has_probe_near(zone)) state = WISHED;
    hak_store_relaxed(&states[zone], state);
    return state;
}

/* Units first .. end - 1 of a zone that is not plain have been mapped. */
static HAK_NEXT void advise_mapped(char *heap, unsigned zone, size_t first, size_t end,
                                   hak_thp_wish_t wish) {
    uint8_t state = hak_load_relaxed(&states[zone]);
    if (state == UNDECIDED) state = decide(zone, wish);
    size_t border = small_end(zone, state);
    advise(heap, first, hak_min(border, end), false);
    if (state == WISHED || state == PROBED) advise(heap, hak_max(first, border), end, true);
}

HAK_COMMON void hak_thp_mapped(char *heap, hak_thp_range_t units, hak_thp_wish_t wish) {
    for (size_t first = units.first, end; first < units.end; first = end) {
        unsigned zone = hak_thp_of(first);
        uint8_t state = hak_load_relaxed(&states[zone]);
        end = hak_min(hak_thp_range(zone).end, units.end);
        if (state == UNDECIDED && wish == HAK_THP_NONE) /* as in all heaps that are not large */
            hak_store_relaxed(&states[zone], state = PLAIN);
        if (HAK_UNLIKELY(state != PLAIN)) advise_mapped(heap, zone, first, end, wish);
        mapped[zone] += end - first;
    }
}

hak_thp_range_t hak_thp_small_pages(unsigned zone) {
    uint8_t state = hak_load_relaxed(&states[zone]);
    hak_thp_range_t units = hak_thp_range(zone);
    if (state == PROBED) return (hak_thp_range_t){units.first, small_end(zone, state)};
    return state == PLAIN || state == SPARSE ? units : (hak_thp_range_t){0, 0};
}

void hak_thp_unmapped(hak_thp_range_t superslab) {
    unsigned zone = hak_thp_of(superslab.first);
    mapped[zone] -= superslab.end - superslab.first;
    if (mapped[zone] == 0) hak_store_relaxed(&states[zone], UNDECIDED);
}

size_t hak_thp_mapped_units(unsigned zone) { return mapped[zone]; }

bool hak_thp_is_decided(size_t unit) {
    return hak_load_relaxed(&states[hak_thp_of(unit)]) != UNDECIDED;
}

HAK_COMMON bool hak_thp_wishes(size_t unit) {
    uint8_t state = hak_load_relaxed(&states[hak_thp_of(unit)]);
    return state == WISHED || state == PROBED;
}

HAK_COMMON bool hak_thp_asks(size_t unit) {
    unsigned zone = hak_thp_of(unit);
    uint8_t state = hak_load_relaxed(&states[zone]); /* once: a caller may be without the lock */
    return state == WISHED || (state == PROBED && unit >= small_end(zone, state));
}

HAK_COMMON bool hak_thp_refuses(size_t unit) {
    return hak_load_relaxed(&states[hak_thp_of(unit)]) == REFUSED;
}

void hak_thp_refuse(const hak_region_walk_t *walk, size_t unit) {
    unsigned zone = hak_thp_of(unit);
    hak_thp_range_t units = hak_thp_range(zone), run;
    if (!hak_thp_asks(unit) || (again_ms && hak_os_now_ms() < again_ms)) return;
    for (; units.first < units.end; units.first = run.end) {
        run = hak_region_walk_run(walk, units);
        if (advise(walk->heap, run.first, run.end, false)) continue;
        again_ms = hak_os_now_ms() + AGAIN_MS;
        return;
    }
    again_ms = 0;
    hak_store_relaxed(&states[zone], REFUSED);
}

HAK_BEHIND unsigned hak_thp_borders(size_t end) {
    unsigned borders = 0, last = end ? hak_thp_of(end - 1) : 0;
    int before = NO_ADVICE;
    for (unsigned zone = 0; zone <= last; zone++) {
        uint8_t state = hak_load_relaxed(&states[zone]);
        size_t border = small_end(zone, state);
        int rest = state == WISHED || state == PROBED ? FOR : NO_ADVICE;
        int first = border > first_unit(zone) ? AGAINST : rest;
        borders += zone > 0 && first != before;
        before = border < first_unit(zone + 1) ? rest : first;
        borders += before != first;
    }
    return borders;
}
