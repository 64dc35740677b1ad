/* extent.c: best fit over free extents, and their joining. */
#include "large/extent.h"

#include "base/bits.h"
#include "large/verify.h"
#include "region/region.h"

enum {
    WALK_MAX = 8,               /* extents of a bin that an insertion looks at */
    LOOKS_BIN = 8,              /* extents that a request looks at in a bin in which not all fit */
    LOOKS_MAX = 32,             /* the same in all such bins together */
    SHORT = HAK_EXTENT_MAX / 4, /* a rest shorter than this joins an extent that it touches */
};
_Static_assert(HAK_EXTENT_MAX / 2 >=
                   HAK_LARGE_MAX / HAK_GRAIN_SIZE + HAK_LARGE_ALIGN_MAX / HAK_GRAIN_SIZE,
               "one part of a stretch that is cut has room for every block");

static unsigned grain_of(const char *address) {
    return (unsigned)((uintptr_t)address >> HAK_GRAIN_SHIFT) % HAK_UNIT_GRAINS;
}

static char *end_of(char *start, size_t grains) { return start + (grains << HAK_GRAIN_SHIFT); }

/* The bin that holds extents of this length. */
static unsigned bin_of(size_t grains) {
    if (grains <= HAK_EXTENT_EXACT) return (unsigned)grains;
    unsigned top = hak_highest_bit(grains);
    unsigned quarter = (unsigned)(grains >> (top - 2)) & 3;
    return HAK_EXTENT_EXACT + 1 + (top - 8) * 4 + quarter;
}

size_t hak_extent_in(const hak_unit_t *unit, char **start) {
    *start = unit->base + ((size_t)(unit->extent_first % HAK_UNIT_GRAINS) << HAK_GRAIN_SHIFT);
    return unit->extent_first / HAK_UNIT_GRAINS;
}

static void insert(hak_extents_t *extents, char *start, size_t grains) {
    unsigned bin = bin_of(grains);
    hak_unit_t *unit = hak_unit_of(start), *last = hak_unit_of(end_of(start, grains) - 1);
    hak_unit_t *prev = NULL, *next = extents->bins[bin];
    HAK_ASSERT(!unit->extent_first && !last->extent_last);
    for (int i = 0; i < WALK_MAX && next && next->base < start; i++) {
        prev = next;
        next = next->next;
    }
    unit->prev = prev;
    unit->next = next;
    *(prev ? &prev->next : &extents->bins[bin]) = unit;
    if (next) next->prev = unit;
    extents->filled[bin / 64] |= (uint64_t)1 << bin % 64;
    unit->extent_first = (uint32_t)(grains * HAK_UNIT_GRAINS) | grain_of(start);
    last->extent_last = (uint32_t)(grains * HAK_UNIT_GRAINS) | grain_of(end_of(start, grains) - 1);
}

static void remove_extent(hak_extents_t *extents, char *start, size_t grains) {
    unsigned bin = bin_of(grains);
    hak_unit_t *unit = hak_unit_of(start), *last = hak_unit_of(end_of(start, grains) - 1);
    *(unit->prev ? &unit->prev->next : &extents->bins[bin]) = unit->next;
    if (unit->next) unit->next->prev = unit->prev;
    if (!extents->bins[bin]) extents->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
    unit->extent_first = 0;
    last->extent_last = 0;
}

/* First filled bin from `bin` on, HAK_EXTENT_BINS when there is none. */
static unsigned filled_bin(const hak_extents_t *extents, unsigned bin) {
    return (unsigned)hak_bits_next(extents->filled, bin, HAK_EXTENT_BINS, true);
}

/* Bytes that `start` has to be moved up to be aligned. */
static size_t to_align(const char *start, size_t align_grains) {
    return -(uintptr_t)start & ((align_grains << HAK_GRAIN_SHIFT) - 1);
}

static bool fits(hak_unit_t *unit, size_t grains, size_t align_grains) {
    char *start;
    size_t have = hak_extent_in(unit, &start);
    return have >= grains + (to_align(start, align_grains) >> HAK_GRAIN_SHIFT);
}

/* Finds an extent that fits in the bins from `bin` on, below `end`, in which not all extents fit. */
static HAK_OUT_OF_LINE hak_unit_t *find_among(hak_extents_t *extents, unsigned bin, unsigned end,
                                              size_t grains, size_t align_grains) {
    unsigned left = LOOKS_MAX;
    while ((bin = filled_bin(extents, bin)) < end) {
        hak_unit_t *unit = extents->bins[bin++];
        for (unsigned i = 0; i < LOOKS_BIN && unit; i++, unit = unit->next) {
            if (left-- == 0) return NULL;
            extents->looks++;
            if (fits(unit, grains, align_grains)) return unit;
        }
    }
    return NULL;
}

/* The same. Extents as long as a superslab get a search of their own, since most of them begin where a superslab
 * begins. */
static hak_unit_t *find_aligned(hak_extents_t *extents, unsigned bin, unsigned end, size_t grains,
                                size_t align_grains) {
    unsigned whole = bin_of(hak_superslab_grains());
    hak_unit_t *unit = find_among(extents, bin, hak_min(whole, end), grains, align_grains);
    if (!unit && whole >= bin && whole < end)
        unit = find_among(extents, whole, end, grains, align_grains);
    return unit;
}

/* From the bin `sure` on, every extent fits, wherever it begins. */
static hak_unit_t *find(hak_extents_t *extents, size_t grains, size_t align_grains) {
    unsigned bin = bin_of(grains), sure = bin_of(grains + align_grains - 2) + 1;
    hak_unit_t *unit = NULL;
    if (HAK_UNLIKELY(bin < sure)) unit = find_aligned(extents, bin, sure, grains, align_grains);
    if (HAK_UNLIKELY(unit != NULL)) return unit;
    sure = filled_bin(extents, sure);
    return HAK_LIKELY(sure < HAK_EXTENT_BINS) ? extents->bins[sure] : NULL;
}

static bool is_border(const char *address) {
    return ((uintptr_t)address & (hak_superslab_size() - 1)) == 0;
}

/* Inserts the rest of an extent. A short rest that may touch another extent is joined to it, so
 * that a block may be cut from both. */
static void insert_rest(hak_extents_t *extents, char *start, size_t grains) {
    if (grains < SHORT && (is_border(start) || is_border(end_of(start, grains))))
        hak_extents_give(extents, start, grains);
    else
        insert(extents, start, grains);
}

/* Takes a part out of an extent; what is before and behind it stays free. */
static void cut(hak_extents_t *extents, char *start, size_t have, char *part, size_t grains) {
    size_t before = (size_t)(part - start) >> HAK_GRAIN_SHIFT;
    remove_extent(extents, start, have);
    if (before) insert_rest(extents, start, before);
    if (have > before + grains) insert_rest(extents, end_of(part, grains), have - before - grains);
}

char *hak_extents_take(hak_extents_t *extents, size_t grains, size_t align_grains) {
    hak_unit_t *unit = find(extents, grains, align_grains);
    if (!unit) return NULL;
    char *start;
    size_t have = hak_extent_in(unit, &start);
    char *block = start + to_align(start, align_grains);
    cut(extents, start, have, block, grains);
    return block;
}

/* The unit that contains `address`; NULL if it does not belong to this heap. `neighbour` lies beside it, in a unit of
 * this heap. If `address` lies in another superslab, only that line of the superslab's record is read that is hardly
 * ever written. The superslab may change its owner meanwhile, but neither to nor from this heap, whose lock the caller
 * holds. */
static hak_unit_t *own_unit(const hak_extents_t *extents, char *address, const char *neighbour) {
    size_t differ = (uintptr_t)address ^ (uintptr_t)neighbour;
    if (HAK_LIKELY(differ >> HAK_UNIT_SHIFT >> hak_map.super_shift == 0))
        return hak_unit_of(address);
    hak_unit_t *unit = hak_region_unit_of(address);
    if (!unit) return NULL;
    const hak_superslab_t *super = hak_region_superslab_of(unit);
    return hak_load_relaxed(&super->heap_owner) == extents->owner ? unit : NULL;
}

/* Length of the extent that begins at `start`; 0 when none does. */
static size_t length_from(hak_extents_t *extents, char *start) {
    const hak_unit_t *unit = own_unit(extents, start, start - 1);
    extents->looks++;
    if (!unit || unit->extent_first % HAK_UNIT_GRAINS != grain_of(start)) return 0;
    return unit->extent_first / HAK_UNIT_GRAINS;
}

bool hak_extents_take_front(hak_extents_t *extents, char *start, size_t grains) {
    size_t have = length_from(extents, start);
    if (have < grains) return false;
    cut(extents, start, have, start, grains);
    return true;
}

/* Finds the extent that contains the grains, at its end or in its middle. It begins at most HAK_EXTENT_MAX grains
 * earlier. Returns its length; 0 if there is none. */
static size_t extent_around(hak_extents_t *extents, char *part, size_t grains, char **start) {
    char *end = end_of(part, grains);
    uint32_t last = hak_unit_of(end - 1)->extent_last;
    extents->looks++;
    if (last && last % HAK_UNIT_GRAINS == grain_of(end - 1)) {
        *start = end - ((size_t)(last / HAK_UNIT_GRAINS) << HAK_GRAIN_SHIFT);
        return *start <= part ? last / HAK_UNIT_GRAINS : 0;
    }
    hak_unit_t *unit = hak_unit_of(part);
    for (unsigned i = 0; i <= HAK_EXTENT_MAX / HAK_UNIT_GRAINS; i++) {
        extents->looks++;
        size_t have = hak_extent_in(unit, start);
        if (have && *start <= part) return end_of(*start, have) >= end ? have : 0;
        unit = own_unit(extents, unit->base - 1, unit->base);
        if (!unit) return 0;
    }
    return 0;
}

bool hak_extents_take_at(hak_extents_t *extents, char *part, size_t grains) {
    char *start = part;
    if (hak_extents_take_front(extents, part, grains)) return true;
    size_t have = extent_around(extents, part, grains, &start);
    if (have) cut(extents, start, have, part, grains);
    return have != 0;
}

void hak_extents_give(hak_extents_t *extents, char *start, size_t grains) {
    hak_unit_t *before = own_unit(extents, start - 1, start);
    if (before && before->extent_last &&
        before->extent_last % HAK_UNIT_GRAINS == grain_of(start - 1)) {
        size_t more = before->extent_last / HAK_UNIT_GRAINS;
        start -= more << HAK_GRAIN_SHIFT;
        grains += more;
        remove_extent(extents, start, more);
    }
    hak_unit_t *behind = own_unit(extents, end_of(start, grains), end_of(start, grains) - 1);
    if (behind && behind->extent_first &&
        behind->extent_first % HAK_UNIT_GRAINS == grain_of(end_of(start, grains))) {
        size_t more = behind->extent_first / HAK_UNIT_GRAINS;
        remove_extent(extents, end_of(start, grains), more);
        grains += more;
    }
    while (HAK_UNLIKELY(grains > HAK_EXTENT_MAX)) {
        char *middle = end_of(start, HAK_EXTENT_MAX / 2);
        char *border = middle + (-(uintptr_t)middle & (hak_superslab_size() - 1));
        size_t part = (size_t)(border - start) >> HAK_GRAIN_SHIFT;
        insert(extents, start, part);
        start = border;
        grains -= part;
    }
    insert(extents, start, grains);
}

/* ---- check ---- */

/* One extent of a bin. */
static HAK_BEHIND void check_extent(hak_check_t *check, const hak_extents_t *extents, unsigned bin,
                                    const hak_unit_t *unit) {
    char *start;
    size_t grains = hak_extent_in(unit, &start);
    hak_check_that(check, "extent", unit, "one begins in the unit", grains != 0);
    if (grains == 0 || grains > HAK_EXTENT_MAX) return;
    hak_check_equal(check, "extent", unit, "its bin = that of its length", bin, bin_of(grains));
    const hak_unit_t *last = own_unit(extents, end_of(start, grains) - 1, start);
    hak_check_that(check, "extent", unit, "it lies in its heap", last != NULL);
    if (!last) return;
    hak_check_equal(check, "extent", unit, "its last unit has its length, and where it ends",
                    last->extent_last,
                    (uint32_t)(grains * HAK_UNIT_GRAINS) | grain_of(end_of(start, grains) - 1));
}

HAK_BEHIND void hak_extents_check(hak_check_t *check, const hak_extents_t *extents,
                                  void (*visit)(const hak_unit_t *unit, void *context),
                                  void *context) {
    for (unsigned bin = 0; bin < HAK_EXTENT_BINS; bin++) {
        size_t violations = check->violations;
        const hak_unit_t *before = NULL, *unit = extents->bins[bin];
        hak_check_that(check, "extents", extents, "a bin is filled <=> its bit is set",
                       (unit != NULL) == (extents->filled[bin / 64] >> bin % 64 & 1));
        for (; unit && violations == check->violations; before = unit, unit = unit->next) {
            hak_check_that(check, "extent", unit, "next and prev agree in its bin",
                           unit->prev == before);
            check_extent(check, extents, bin, unit);
            visit(unit, context);
        }
    }
}

HAK_BEHIND void hak_extents_check_bin(hak_check_t *check, const hak_extents_t *extents,
                                      unsigned bin) {
    const hak_unit_t *unit = extents->bins[bin];
    hak_check_that(check, "extents", extents, "a bin is filled <=> its bit is set",
                   (unit != NULL) == (extents->filled[bin / 64] >> bin % 64 & 1));
    if (unit) check_extent(check, extents, bin, unit);
}
