/* thp_wish.c: which share of the newest slabs' pages is in memory. */
#include "region/thp_wish.h"

#include "classes/classes.h"
#include "os/os.h"
#include "region/region.h"

enum {
    NEWEST = 4,       /* superslabs with slabs whose classes are looked at */
    PASSED_MOST = 16, /* superslabs looked at, to find these */
    SHARE = 8,        /* an eighth of the slabs, or of the pages, is much */
    SAMPLES = 4,      /* superslabs whose pages are looked at, the newest that have small ones */
    SAMPLES_ZONE = 2, /* of one zone */
    ZONES = 16,       /* that are looked through for them */
    YOUNG = 16,       /* the last 16th of the heap may have slabs of which no block is in use yet */
    PAGES_MOST = HAK_SUPERSLAB_SIZE_MAX / HAK_GRAIN_SIZE,
};

typedef struct {
    size_t all, absent;
} pages_t;

static unsigned class_of(const hak_unit_t *unit) {
    uint16_t owner = hak_load_relaxed(&unit->owner);
    return hak_owner_is_bin(owner) ? hak_owner_class(owner) : HAK_CLASS_NONE;
}

/* True when many of the newest slabs have blocks so long that a program that touches one page of
 * each leaves much untouched. */
static bool has_long_blocks(const hak_superslab_t *supers, size_t carved) {
    size_t slabs = 0, with_long = 0, found = 0;
    size_t page = hak_os_page_size(), longest = page + page / (SHARE - 1);
    for (size_t i = 1; i <= hak_min(carved, PASSED_MOST) && found < NEWEST; i++) {
        const hak_superslab_t *super = &supers[carved - i];
        size_t before = slabs;
        if (!hak_load_relaxed(&super->mapped)) continue;
        for (unsigned u = 0; u < hak_superslab_units(); u++) {
            unsigned class_index = class_of(&super->units[u]);
            slabs += class_index != HAK_CLASS_NONE;
            with_long += class_index != HAK_CLASS_NONE && hak_classes[class_index].size > longest;
        }
        found += slabs > before;
    }
    return with_long * SHARE > slabs;
}

/* Counts the pages of a superslab's slabs. False when the kernel does not tell. */
static bool count_pages(const hak_superslab_t *super, pages_t *pages) {
    unsigned char in_memory[PAGES_MOST];
    size_t each = HAK_UNIT_SIZE / hak_os_page_size();
    if (!hak_load_relaxed(&super->mapped)) return true;
    if (!hak_os_in_memory(super->units[0].base, hak_superslab_size(), in_memory)) return false;
    for (unsigned u = 0; u < hak_superslab_units(); u++) {
        if (class_of(&super->units[u]) == HAK_CLASS_NONE) continue;
        for (size_t i = 0; i < each; i++) pages->absent += !(in_memory[u * each + i] & 1u);
        pages->all += each;
    }
    return true;
}

/* The same for at most `*left` superslabs of a range of units. */
static bool count_range(const hak_superslab_t *supers, hak_thp_range_t units, pages_t *pages,
                        unsigned *left) {
    size_t first = units.first >> hak_map.super_shift;
    size_t count = (units.end >> hak_map.super_shift) - first;
    for (size_t i = 0; i < hak_min(count, SAMPLES_ZONE) && *left; i++, --*left)
        if (!count_pages(&supers[first + count * (2 * i + 1) / 2 / SAMPLES_ZONE], pages))
            return false;
    return true;
}

hak_thp_wish_t hak_thp_wish_of(const hak_superslab_t *supers, size_t carved) {
    pages_t pages = {0, 0};
    unsigned samples_left = SAMPLES;
    size_t end = (carved - carved / YOUNG) << hak_map.super_shift;
    if (!has_long_blocks(supers, carved)) return HAK_THP_ALL;
    unsigned zone = hak_thp_of(end - 1) + 1;
    for (unsigned left = ZONES; left && zone-- && samples_left; left--) {
        hak_thp_range_t units = hak_thp_small_pages(zone);
        units.end = hak_min(units.end, end);
        if (units.end <= units.first) continue;
        if (!count_range(supers, units, &pages, &samples_left)) return HAK_THP_ALL;
    }
    return pages.absent * SHARE > pages.all ? HAK_THP_AGAINST : HAK_THP_PROBE;
}
