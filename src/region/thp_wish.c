/* thp_wish.c: asks the kernel which share of the newest slabs' pages is in memory. */
#include "region/thp_wish.h"

#include "classes/classes.h"
#include "os/os.h"
#include "region/region.h"

enum {
    NEWEST = 4,       /* newest superslabs with slabs, whose classes are looked at */
    PASSED_MOST = 64, /* superslabs that the search for these looks at */
    FREE_MOST = 16,   /* superslabs among them without slabs: each costs a look at its units */
    SHARE = 8,        /* an eighth of the slabs, or of the pages, is much */
    SAMPLES = 4,      /* superslabs whose pages are looked at, the newest with small pages */
    SAMPLES_ZONE = 2, /* the same in one zone */
    ZONES = 16,       /* zones that the search for them looks at */
    PASSED_HERE = 8,  /* superslabs that it looks at for each */
    YOUNG = 16,       /* the last 16th of the heap may have slabs without a block in use yet */
    PAGES_MOST = HAK_SUPERSLAB_SIZE_MAX / HAK_GRAIN_SIZE,
};

typedef struct {
    size_t all, absent; /* pages of slabs */
    size_t large;       /* superslabs of large heaps that were met instead */
} seen_t;

static unsigned class_of(const hak_unit_t *unit) {
    uint16_t owner = hak_load_relaxed(&unit->owner);
    return hak_owner_is_bin(owner) ? hak_owner_class(owner) : HAK_CLASS_NONE;
}

/* False for a hole, and for a superslab of a large heap, which is counted. */
static bool may_have_slabs(const hak_superslab_t *super, seen_t *seen) {
    if (!hak_load_relaxed(&super->mapped)) return false;
    if (!hak_load_relaxed(&super->heap_owner)) return true;
    seen->large++;
    return false;
}

static bool has_slabs(const hak_superslab_t *super, seen_t *seen) {
    if (!may_have_slabs(super, seen)) return false;
    for (unsigned u = 0; u < hak_superslab_units(); u++)
        if (class_of(&super->units[u]) != HAK_CLASS_NONE) return true;
    return false;
}

/* True when many of the newest slabs have blocks so long that a program that touches one page of
 * each leaves much untouched, or when large heaps have so much that too few slabs are found to tell. */
static bool has_long_blocks(const hak_superslab_t *supers, size_t carved, seen_t *seen) {
    size_t slabs = 0, with_long = 0, passed = 0;
    unsigned found = 0, free_left = FREE_MOST;
    size_t page = hak_os_page_size(), longest = page + page / (SHARE - 1);
    while (passed < hak_min(carved, PASSED_MOST) && found < NEWEST && free_left) {
        const hak_superslab_t *super = &supers[carved - ++passed];
        size_t before = slabs;
        if (!may_have_slabs(super, seen)) continue;
        for (unsigned u = 0; u < hak_superslab_units(); u++) {
            unsigned class_index = class_of(&super->units[u]);
            slabs += class_index != HAK_CLASS_NONE;
            with_long += class_index != HAK_CLASS_NONE && hak_classes[class_index].size > longest;
        }
        found += slabs > before;
        free_left -= slabs == before;
    }
    return with_long * SHARE > slabs || (found < NEWEST && seen->large && passed < carved);
}

/* Counts the pages of a superslab's slabs. False when the kernel does not tell. */
static bool count_pages(const hak_superslab_t *super, seen_t *seen) {
    unsigned char in_memory[PAGES_MOST];
    size_t each = HAK_UNIT_SIZE / hak_os_page_size();
    if (!hak_os_in_memory(super->units[0].base, hak_superslab_size(), in_memory)) return false;
    for (unsigned u = 0; u < hak_superslab_units(); u++) {
        if (class_of(&super->units[u]) == HAK_CLASS_NONE) continue;
        for (size_t i = 0; i < each; i++) seen->absent += !(in_memory[u * each + i] & 1u);
        seen->all += each;
    }
    return true;
}

/* The same for at most `*left` superslabs with slabs in a range of units. */
static bool count_range(const hak_superslab_t *supers, hak_thp_range_t units, seen_t *seen,
                        unsigned *left) {
    size_t first = units.first >> hak_map.super_shift;
    size_t count = (units.end >> hak_map.super_shift) - first;
    size_t parts = hak_min(count, SAMPLES_ZONE);
    for (size_t i = 0; i < parts && *left; i++) {
        size_t at = count * (2 * i + 1) / (2 * parts);
        size_t end = hak_min(at + PASSED_HERE, count * (i + 1) / parts);
        while (at < end && !has_slabs(&supers[first + at], seen)) at++;
        if (at >= end) continue;
        if (!count_pages(&supers[first + at], seen)) return false;
        --*left;
    }
    return true;
}

hak_thp_wish_t hak_thp_wish_of(const hak_superslab_t *supers, size_t carved) {
    seen_t seen = {0, 0, 0};
    unsigned samples_left = SAMPLES;
    size_t end = (carved - carved / YOUNG) << hak_map.super_shift;
    if (!has_long_blocks(supers, carved, &seen)) return HAK_THP_ALL;
    unsigned zone = hak_thp_of(end - 1) + 1;
    for (unsigned left = ZONES; left && zone-- && samples_left; left--) {
        hak_thp_range_t units = hak_thp_small_pages(zone);
        units.end = hak_min(units.end, end);
        if (units.end <= units.first) continue;
        if (!count_range(supers, units, &seen, &samples_left)) return HAK_THP_ALL;
    }
    if (!seen.all && seen.large) return HAK_THP_AGAINST; /* nothing is known */
    return seen.absent * SHARE > seen.all ? HAK_THP_AGAINST : HAK_THP_PROBE;
}
