/* region.c: the window of addresses: its layout, growth and holes, and the look-up of a pointer. */
#include "region/region.h"

#include "base/probe.h"
#include "options/options.h"
#include "os/os.h"
#include "os/window.h"
#include "region/areas.h"
#include "region/superslab_list.h"
#include "region/thp.h"
#include "region/thp_wish.h"
#include "region/verify.h"
#include "region/walk.h"

enum {
    STEP_UNITS = 1024,    /* 64 MiB: a longer step is at most a 64th of the heap */
    HUGE_MIN_UNITS = 256, /* 16 MiB: one huge page too many is at most an eighth of the heap */
    EARLY_UNITS = 64,     /* 4 MiB: from here on heaps get huge pages under THP=2 */
    HOLE_TRIES = 24,      /* skips over a foreign mapping; each is twice as long as the last */
    REFUSALS_MOST = 16,   /* refused windows in one search, until smaller ones are tried */
    HOLES_LOOKED_AT = 32, /* holes that a search for the first of a row looks at */
    SHORT_LEAST = 256,    /* units, 16 MiB; for a smaller heap addresses are never short */
    SHORT_PART = 32,      /* a heap above this part of the limit packs its blocks */
};

hak_map_t hak_map HAK_MAP_LINE;
hak_lock_t hak_region_lock HAK_OWN_LINE;
_Atomic uint32_t hak_region_short;
HAK_LOCK_RANK(REGION, hak_region_lock, hak_region_check_at_release);

/* Under the lock, unless a field says otherwise. Superslabs are counted from the first one. The fields that are
 * constant once there is a region have a cache line of their own, which look-ups read. */
static struct {
    char *heap;              /* constant; NULL while there is no region */
    hak_superslab_t *supers; /* constant: by number of the superslab */
    hak_unit_t *slabs;       /* constant: by number of the unit */
    size_t first_unit;       /* constant: the number of unit 0 in the map */
    size_t window_end;       /* constant: superslabs that the window has room for */
    hak_areas_t areas HAK_ALIGNED(HAK_LINE);
    _Atomic size_t carved; /* superslabs below it were handed out, or are holes; anyone reads */
    size_t limit;          /* superslabs carved .. limit-1 are mapped */
    _Atomic size_t mapped; /* number of mapped superslabs; anyone reads */
    size_t pieces;
    hak_superslab_t *unmapped; /* holes that were superslabs, by `next` and `prev` */
} region;

static const char heap_name[] HAK_NEAR = "hakmem: heap";

/* ---- layout ---- */

static hak_os_answer_t place(char *window, size_t size) {
    hak_os_answer_t answer = hak_areas_place(&region.areas, window, size, &region.heap);
    region.supers = (hak_superslab_t *)(void *)region.areas.supers.base;
    region.slabs = (hak_unit_t *)(void *)region.areas.units.base;
    region.first_unit = (size_t)(region.heap - region.areas.map.base) >> HAK_UNIT_SHIFT;
    region.window_end = size / 2 >> HAK_UNIT_SHIFT >> hak_map.super_shift;
    return answer;
}

/* ---- growth ---- */

static char *address_of(size_t super) {
    return region.heap + (super << hak_map.super_shift << HAK_UNIT_SHIFT);
}

static size_t number_of(const hak_superslab_t *super) { return (size_t)(super - region.supers); }

static size_t unit_of(const hak_superslab_t *super) {
    return number_of(super) << hak_map.super_shift;
}

static bool is_mapped(size_t super) {
    if (super >= hak_load_relaxed(&region.carved)) return super < region.limit;
    return hak_load_relaxed(&region.supers[super].mapped);
}

static hak_region_walk_t walk_now(void) {
    return (hak_region_walk_t){region.heap, region.supers, hak_load_relaxed(&region.carved),
                               region.limit};
}

/* The number of a superslab's neighbours that are mapped. */
static size_t mapped_neighbours(size_t super) {
    return (size_t)(super > 0 && is_mapped(super - 1)) + is_mapped(super + 1);
}

/* Superslabs first .. first + count - 1 have been mapped. The first touch makes the pages: 2 MiB at
 * a time, where huge pages are requested. */
static HAK_COMMON void note_mapped(size_t first, size_t count, hak_thp_wish_t wish) {
    hak_os_name(address_of(first), count * hak_superslab_size(), heap_name);
    hak_thp_range_t units = {first << hak_map.super_shift, (first + count) << hak_map.super_shift};
    hak_thp_mapped(region.heap, units, wish);
    HAK_ADD_OWNED(&region.mapped, count);
}

/* Partner: a thread that gets a block, in any way. */
static void publish_limit(void) {
    size_t units = region.first_unit + (region.limit << hak_map.super_shift);
    hak_store_release(&hak_map.unit_end, units);
}

/* Adds `count` superslabs from number `first` on, behind all others. Maps their addresses before it
 * commits records, since records are never given back and a try that fails must not leave any. */
static HAK_COMMON hak_os_answer_t extend(size_t first, size_t count, hak_thp_wish_t wish) {
    char *start = address_of(first);
    if (first + count > region.window_end) return HAK_OS_REFUSED;
    hak_os_answer_t answer = hak_os_map_at(start, count * hak_superslab_size());
    if (answer != HAK_OS_MAPPED) return answer;
    if (!hak_areas_commit(&region.areas, region.first_unit, first, first + count)) {
        hak_os_unmap(start, count * hak_superslab_size());
        return HAK_OS_REFUSED;
    }
    note_mapped(first, count, wish);
    if (first == 0 || !is_mapped(first - 1)) region.pieces++;
    if (first > region.limit) hak_store_release(&region.carved, first); /* what is between: holes */
    region.limit = first + count;
    if (HAK_LIKELY(hak_map.supers != 0)) publish_limit();
    return answer;
}

/* A step is a quarter of what is mapped, so the number of calls is logarithmic; from 256 MiB on it
 * is 64 MiB or a 64th, whichever is more. If each slab has a superslab to itself, a step is one
 * superslab. */
static HAK_COMMON size_t next_step(hak_thp_wish_t wish) {
    size_t have = hak_load_relaxed(&region.mapped);
    size_t most = hak_max((size_t)STEP_UNITS >> hak_map.super_shift, have / 64);
    size_t step = hak_min(hak_max(have / 4, 1), most);
    if (HAK_UNLIKELY(!hak_option(HAK_OPTION_TINY_USE_SUPERSLAB))) return 1;
    /* A step with huge pages ends where one does, so that none is lost between two steps. */
    size_t huge = HAK_THP_UNITS >> hak_map.super_shift;
    if (wish) step += -(region.limit + step) & (huge - 1);
    return hak_min(step, region.window_end - region.limit);
}

/* Notes whether addresses are short, and the size above which blocks are packed. Since packed blocks
 * are slower, the small ones are packed only above half of the limit. Lock held. */
static void look_at_limit(void) {
    size_t units = hak_load_relaxed(&region.mapped) << hak_map.super_shift;
    if (HAK_LIKELY(units < SHORT_LEAST)) return;
    size_t limit = hak_os_address_limit() >> HAK_UNIT_SHIFT;
    uint32_t above = units > limit / 2            ? HAK_SMALL_MAX / 2
                     : units > limit / SHORT_PART ? HAK_SMALL_MAX
                                                  : 0;
    if (above != hak_load_relaxed(&hak_region_short)) hak_store_relaxed(&hak_region_short, above);
}

/* Grows behind a foreign mapping, whose length is unknown. */
static HAK_BEHIND bool grow_behind_a_hole(hak_thp_wish_t wish) {
    size_t skip = 1;
    for (unsigned tries = 0; tries < HOLE_TRIES; tries++, skip *= 2) {
        hak_os_answer_t answer = extend(region.limit + skip, 1, wish);
        if (answer != HAK_OS_TAKEN) return answer == HAK_OS_MAPPED;
    }
    return false;
}

static HAK_COMMON bool is_large(void) {
    size_t units = hak_load_relaxed(&region.mapped) << hak_map.super_shift;
    return units >= HUGE_MIN_UNITS || (units >= EARLY_UNITS && hak_thp_is_early());
}

/* The wish (thp.h) for superslabs that are about to be mapped. */
static HAK_COMMON hak_thp_wish_t wish_for(bool dense) {
    if (!dense || !is_large()) return HAK_THP_NONE;
    return hak_thp_wish_of(region.supers, hak_load_relaxed(&region.carved));
}

static HAK_COMMON bool grow(bool dense) {
    hak_thp_wish_t wish = wish_for(dense);
    size_t step = next_step(wish);
    if (step == 0) return false;
    hak_os_answer_t answer = extend(region.limit, step, wish);
    for (; answer != HAK_OS_MAPPED && step > 1; step /= 2)
        answer = extend(region.limit, step / 2, wish);
    look_at_limit();
    return answer == HAK_OS_MAPPED || (answer == HAK_OS_TAKEN && grow_behind_a_hole(wish));
}

/* Chooses the largest window that can be used. The choice is final, since the region never moves.
 * So a smaller window is tried only if the larger one is taken, or stays refused while the system
 * maps elsewhere, as emulators do. If the system refuses everything, the next growth begins
 * anew. */
static HAK_COMMON bool settle(void) {
    size_t size = 0;
    unsigned attempt = 0, refusals = 0;
    for (char *window; (window = hak_os_window(attempt, &size)) != NULL;) {
        hak_os_answer_t answer = place(window, size);
        if (answer == HAK_OS_MAPPED && grow(false)) return true;
        hak_areas_remove(&region.areas);
        region.heap = NULL;
        if (answer != HAK_OS_TAKEN && !hak_os_maps_anywhere()) return false;
        if (answer == HAK_OS_TAKEN || ++refusals > REFUSALS_MOST) attempt++;
    }
    return false;
}

/* Makes the region, and publishes the map once the region can serve a superslab. */
static HAK_COMMON bool make_region(void) {
    hak_map.super_shift = HAK_SUPERSLAB_SHIFT_MIN + (unsigned)hak_option(HAK_OPTION_SS_SIZE);
    if (!settle()) return false;
    size_t first = region.first_unit;
    hak_map.entries = (_Atomic uint16_t *)(void *)region.areas.map.base;
    hak_map.units = (uintptr_t)region.slabs - first * sizeof(hak_unit_t);
    hak_map.supers =
        (uintptr_t)region.supers - (first >> hak_map.super_shift) * sizeof(hak_superslab_t);
    hak_map.rows = hak_classes;
    publish_limit();
    return true;
}

/* ---- superslabs that the region hands out and takes back ---- */

/* A mapped superslab, all of it zero, becomes one that can be handed out. */
static hak_superslab_t *make_superslab(size_t number) {
    hak_superslab_t *super = &region.supers[number];
    hak_unit_t *slabs = &region.slabs[number << hak_map.super_shift];
    super->units = slabs;
    super->free = (uint32_t)(((uint64_t)1 << hak_superslab_units()) - 1);
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        slabs[i].base = address_of(number) + ((size_t)i << HAK_UNIT_SHIFT);
    /* Partner: hak_region_unit_of, which may get a pointer that was never handed out. */
    hak_store_release(&super->mapped, true);
    HAK_PROBE(grow, address_of(number), hak_superslab_size());
    return super;
}

/* Without a region, the map begins above all addresses: a thread that reads this value, and then
 * the end of a map that another thread publishes, still finds every address beyond the end. */
HAK_COMMON void hak_region_prepare(void) {
    HAK_HOLD(&hak_region_lock);
    if (!region.heap && !make_region()) hak_map.entries = (_Atomic uint16_t *)(UINTPTR_MAX / 2 + 1);
}

hak_superslab_t *hak_region_take_superslab(bool dense) {
    HAK_HOLD(&hak_region_lock);
    if (!region.heap && !make_region()) return NULL;
    if (hak_load_relaxed(&region.carved) >= region.limit && !grow(dense)) return NULL;
    size_t number = hak_load_relaxed(&region.carved);
    hak_superslab_t *super = make_superslab(number);
    /* Last: a thread that looks a pointer up sees complete descriptors below it. */
    hak_store_release(&region.carved, number + 1);
    return super;
}

/* Maps a superslab of the list of holes again. Takes it off the list, unless the system refuses. If
 * a foreign mapping has taken its addresses, it stays a hole for ever. */
static HAK_BEHIND hak_os_answer_t map_again(hak_superslab_t *super, bool dense) {
    size_t number = number_of(super), neighbours = mapped_neighbours(number);
    hak_os_answer_t answer = hak_os_map_at(address_of(number), hak_superslab_size());
    if (answer == HAK_OS_REFUSED) return answer;
    hak_superslab_unlink(&region.unmapped, super);
    super->unmapped = false;
    if (answer != HAK_OS_MAPPED) return answer;
    /* Only the first superslab of a zone decides for the whole zone. */
    bool decides = !hak_thp_is_decided(unit_of(super));
    note_mapped(number, 1, decides ? wish_for(dense) : HAK_THP_NONE);
    region.pieces += 1 - neighbours;
    make_superslab(number);
    return answer;
}

/* The lowest hole of the row of holes that contains a hole of the list, but at most HOLES_LOOKED_AT
 * holes below that one. So a row is mapped again from its beginning, in whatever order it was
 * unmapped, and large blocks find room across superslabs. */
static hak_superslab_t *begin_of_holes(hak_superslab_t *super) {
    for (unsigned i = 0; i < HOLES_LOOKED_AT && number_of(super) > 0 && super[-1].unmapped; i++)
        super--;
    return super;
}

hak_superslab_t *hak_region_take_unmapped(bool dense) {
    hak_superslab_t *super = NULL;
    hak_os_answer_t answer = HAK_OS_TAKEN;
    HAK_HOLD(&hak_region_lock);
    while (answer == HAK_OS_TAKEN && region.unmapped != NULL) {
        super = begin_of_holes(region.unmapped);
        answer = map_again(super, dense);
    }
    return answer == HAK_OS_MAPPED ? super : NULL;
}

bool hak_region_map_again(hak_superslab_t *super) {
    HAK_HOLD(&hak_region_lock);
    return number_of(super) < hak_load_relaxed(&region.carved) && super->unmapped &&
           map_again(super, false) == HAK_OS_MAPPED;
}

bool hak_region_has_unmapped(void) {
    HAK_HOLD(&hak_region_lock);
    return region.unmapped != NULL;
}

HAK_BEHIND hak_region_answer_t hak_region_unmap(hak_superslab_t *super) {
    HAK_HOLD(&hak_region_lock);
    size_t number = number_of(super), pieces = region.pieces + mapped_neighbours(number) - 1;
    if (pieces > region.pieces && pieces > HAK_PIECES_MAX) return HAK_REGION_KEEPS;
    if (!hak_os_unmap(address_of(number), hak_superslab_size())) return HAK_REGION_REFUSED;
    hak_store_relaxed(&super->mapped, false);
    hak_superslab_link(&region.unmapped, super);
    super->unmapped = true;
    region.pieces = pieces;
    HAK_ADD_OWNED(&region.mapped, -(size_t)1);
    hak_thp_unmapped((hak_thp_range_t){unit_of(super), unit_of(super + 1)});
    return HAK_REGION_UNMAPPED;
}

/* ---- huge pages ---- */

bool hak_region_wishes_huge(const hak_superslab_t *super) { return hak_thp_wishes(unit_of(super)); }

bool hak_region_asks_huge(const hak_superslab_t *super) { return hak_thp_asks(unit_of(super)); }

bool hak_region_refuses_huge(const hak_superslab_t *super) {
    return hak_thp_refuses(unit_of(super));
}

HAK_NEXT void hak_region_refuse_huge(hak_superslab_t *super) {
    if (HAK_LIKELY(!hak_region_asks_huge(super))) return;
    HAK_HOLD(&hak_region_lock);
    const hak_region_walk_t walk = walk_now();
    hak_thp_refuse(&walk, unit_of(super));
}

HAK_NEXT bool hak_region_purge(hak_superslab_t *super, void *start, size_t size) {
    hak_region_refuse_huge(super);
    return hak_os_purge(start, size);
}

/* ---- look-up ---- */

/* Reads only cache lines that hardly any thread writes: that of the map, and one of the superslab's record. `carved` is
 * not read, since it changes with each superslab; a superslab that is not carved yet is not marked as mapped. */
hak_unit_t *hak_region_unit_of(const void *addr) {
    size_t end = hak_load_acquire(&hak_map.unit_end);
    if (HAK_UNLIKELY(!end))
        return NULL; /* a thread may be making the region: nothing else may be read */
    size_t unit = ((uintptr_t)addr - (uintptr_t)region.heap) >> HAK_UNIT_SHIFT;
    if (unit >= end - region.first_unit) return NULL;
    const hak_superslab_t *super = &region.supers[unit >> hak_map.super_shift];
    return hak_load_acquire(&super->mapped) ? &region.slabs[unit] : NULL;
}

bool hak_region_was_unmapped(const void *addr) {
    HAK_HOLD(&hak_region_lock);
    size_t unit = ((uintptr_t)addr - (uintptr_t)region.heap) >> HAK_UNIT_SHIFT;
    size_t number = unit >> hak_map.super_shift;
    return number < hak_load_relaxed(&region.carved) && region.supers[number].unmapped;
}

hak_superslab_t *hak_region_superslab_of(const hak_unit_t *slab) {
    return &region.supers[(size_t)(slab - region.slabs) >> hak_map.super_shift];
}

bool hak_region_superslab_is_last(const hak_superslab_t *super) {
    return number_of(super) + 1 == hak_load_relaxed(&region.carved);
}

bool hak_region_is_mapped(const hak_superslab_t *super) {
    size_t number = number_of(super);
    return number < hak_load_acquire(&region.carved) && is_mapped(number);
}

HAK_NEXT hak_superslab_t *hak_region_superslab_before(hak_superslab_t *super) {
    size_t number = number_of(super);
    return number > 0 && is_mapped(number - 1) ? super - 1 : NULL;
}

void hak_region_set_class(const hak_unit_t *slab, unsigned count, unsigned class_index) {
    _Atomic uint16_t *entries = &hak_map.entries[region.first_unit + (size_t)(slab - region.slabs)];
    for (unsigned i = 0; i < count; i++)
        hak_store_relaxed(&entries[i], (uint16_t)(class_index << HAK_MAGAZINE_SHIFT));
}

HAK_OPTIONAL void hak_region_each_superslab(void (*visit)(hak_superslab_t *super, void *context),
                                            void *context) {
    size_t count = hak_load_acquire(&region.carved);
    for (size_t i = 0; i < count; i++)
        if (is_mapped(i)) visit(&region.supers[i], context);
}

HAK_BEHIND bool hak_region_each_piece(hak_region_cursor_t *cursor, hak_range_visitor_t visit,
                                      void *context) {
    HAK_HOLD(&hak_region_lock);
    const hak_region_walk_t walk = walk_now();
    if (region.heap && cursor->at == 0) hak_areas_each(&region.areas, visit, context);
    return hak_region_walk_each_range(&walk, cursor, visit, context);
}

HAK_BEHIND void hak_region_each_range(hak_range_visitor_t visit, void *context) {
    hak_region_cursor_t cursor = {0};
    while (hak_region_each_piece(&cursor, visit, context)) continue;
}

HAK_BEHIND unsigned hak_region_sample(hak_superslab_t **found, unsigned most, size_t *stride) {
    HAK_HOLD(&hak_region_lock);
    const hak_region_walk_t walk = walk_now();
    return hak_region_walk_sample(&walk, found, most, stride);
}

/* ---- figures ---- */

void hak_region_look_at_limit(void) {
    HAK_HOLD(&hak_region_lock);
    look_at_limit();
}

HAK_BEHIND size_t hak_region_uncharged(void) {
    HAK_HOLD(&hak_region_lock);
    return hak_areas_uncharged(&region.areas);
}

size_t hak_region_mapped_superslabs(void) { return hak_load_relaxed(&region.mapped); }

HAK_BEHIND size_t hak_region_mappings(void) {
    HAK_HOLD(&hak_region_lock);
    size_t areas = region.heap ? HAK_AREAS * (size_t)HAK_AREA_MAPPINGS : 0;
    return areas + region.pieces + hak_thp_borders(region.limit << hak_map.super_shift);
}

/* ---- check ---- */

/* Checks what needs no walk. */
static HAK_BEHIND void check_sums(hak_check_t *check) {
    size_t carved = hak_load_relaxed(&region.carved);
    hak_areas_check(check, &region.areas);
    hak_check_that(check, "region", &region, "carved <= limit <= end of the window",
                   carved <= region.limit && region.limit <= region.window_end);
    hak_check_that(check, "region", &region, "the records of all superslabs are accessible",
                   region.limit * sizeof(hak_superslab_t) <= region.areas.supers.committed);
    if (hak_map.entries)
        hak_check_equal(check, "region", &region, "the map ends behind the last mapped unit",
                        hak_load_relaxed(&hak_map.unit_end),
                        region.first_unit + (region.limit << hak_map.super_shift));
}

HAK_BEHIND void hak_region_check(hak_check_t *check) {
    size_t carved = hak_load_relaxed(&region.carved), mapped = 0, pieces = 0, holes = 0, listed = 0;
    if (!region.heap) return;
    check_sums(check);
    for (size_t i = 0; i < region.limit; i++) {
        const hak_superslab_t *super = &region.supers[i];
        mapped += is_mapped(i);
        pieces += is_mapped(i) && !(i > 0 && is_mapped(i - 1));
        holes += i < carved && super->unmapped;
        if (i < carved && is_mapped(i)) {
            hak_check_that(check, "superslab", super, "it leads to its own descriptors",
                           super->units == &region.slabs[i << hak_map.super_shift]);
            hak_check_that(check, "superslab", super, "a mapped one is no hole", !super->unmapped);
        }
    }
    for (const hak_superslab_t *super = region.unmapped; super && listed <= holes;
         super = super->next)
        listed++;
    hak_check_equal(check, "region", &region, "mapped superslabs, counted",
                    hak_load_relaxed(&region.mapped), mapped);
    hak_check_equal(check, "region", &region, "pieces, counted", region.pieces, pieces);
    hak_check_equal(check, "region", &region, "the list of holes, by length", listed, holes);
}

#if HAKMEM_VERIFY
void hak_region_check_at_release(const void *lock) {
    hak_check_t check = {0};
    (void)lock;
    if (region.heap) check_sums(&check);
    hak_check_stop(&check);
}
#endif
