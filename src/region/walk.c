/* walk.c: searches among superslabs, zone by zone. */
#include "region/walk.h"

#include "region/region.h"

enum {
    PIECE_LOOKS = 4096, /* superslabs of zones with holes, or zones without, in a piece of a walk */
    SAMPLE_LOOKS = 8192, /* superslabs of zones with holes, for one sample */
    STRETCH_LOOKS = 16,  /* the same for each one of a zone that is longer */
};

static bool is_mapped(const hak_region_walk_t *walk, size_t super) {
    if (super >= walk->carved) return super < walk->limit;
    return hak_load_relaxed(&walk->supers[super].mapped);
}

/* The superslabs of a zone below `end`. */
static hak_thp_range_t supers_of(unsigned zone, size_t end) {
    hak_thp_range_t units = hak_thp_range(zone);
    return (hak_thp_range_t){units.first >> hak_map.super_shift,
                             hak_min(units.end >> hak_map.super_shift, end)};
}

static size_t mapped_of(unsigned zone) { return hak_thp_mapped_units(zone) >> hak_map.super_shift; }

/* Moves *at to the next superslab below `end` (`limit` at most) that is mapped or, if `mapped` is
 * false, is not. False when there is none, or no look is left; *at is then where the search ended. */
static bool next(const hak_region_walk_t *walk, size_t *at, size_t end, bool mapped,
                 size_t *looks) {
    for (; *at < end && *looks; --*looks) {
        unsigned zone = hak_thp_of(*at << hak_map.super_shift);
        hak_thp_range_t supers = supers_of(zone, walk->limit);
        size_t have = mapped_of(zone);
        bool is_even = have == 0 || have == supers.end - supers.first;
        if ((is_even ? have != 0 : is_mapped(walk, *at)) == mapped) return true;
        *at = is_even ? hak_min(supers.end, end) : *at + 1;
    }
    return false;
}

hak_thp_range_t hak_region_walk_run(const hak_region_walk_t *walk, hak_thp_range_t units) {
    size_t end = hak_min(units.end >> hak_map.super_shift, walk->limit), looks = SIZE_MAX;
    size_t first = units.first >> hak_map.super_shift, behind;
    if (!next(walk, &first, end, true, &looks)) return (hak_thp_range_t){units.end, units.end};
    behind = first;
    next(walk, &behind, end, false, &looks);
    return (hak_thp_range_t){first << hak_map.super_shift, behind << hak_map.super_shift};
}

HAK_BEHIND bool hak_region_walk_each_range(const hak_region_walk_t *walk,
                                           hak_region_cursor_t *cursor, hak_range_visitor_t visit,
                                           void *context) {
    size_t end = hak_min(walk->carved, walk->limit), looks = PIECE_LOOKS;
    while (cursor->at < end && looks) {
        bool found = next(walk, &cursor->at, end, !cursor->is_in_range, &looks);
        if (!cursor->is_in_range)
            cursor->first = cursor->at;
        else if (found || cursor->at == end)
            visit(context, HAK_RANGE_HEAP, walk->heap + cursor->first * hak_superslab_size(),
                  (cursor->at - cursor->first) * hak_superslab_size());
        if (found) cursor->is_in_range = !cursor->is_in_range;
    }
    return cursor->at < end;
}

typedef struct {
    hak_superslab_t **found;
    unsigned count, most;
    size_t stride, left; /* mapped superslabs before the next one that is taken */
    size_t looks;
} sample_t;

static void take(const hak_region_walk_t *walk, sample_t *sample, size_t super) {
    if (sample->count < sample->most) sample->found[sample->count++] = &walk->supers[super];
}

/* A zone without holes. */
static HAK_BEHIND void sample_full(const hak_region_walk_t *walk, sample_t *sample,
                                   hak_thp_range_t supers) {
    size_t count = supers.end - supers.first;
    for (; sample->left < count; sample->left += sample->stride)
        take(walk, sample, supers.first + sample->left);
    sample->left -= count;
}

static HAK_BEHIND void sample_each(const hak_region_walk_t *walk, sample_t *sample,
                                   hak_thp_range_t supers) {
    for (size_t i = supers.first; i < supers.end; i++) {
        if (!is_mapped(walk, i)) continue;
        if (sample->left == 0) take(walk, sample, i);
        sample->left = (sample->left ? sample->left : sample->stride) - 1;
    }
    sample->looks -= supers.end - supers.first;
}

/* A long zone with `mapped` superslabs: looks for each superslab to take in a stretch of its
 * own. */
static HAK_BEHIND void sample_some(const hak_region_walk_t *walk, sample_t *sample,
                                   hak_thp_range_t supers, size_t mapped) {
    size_t length = supers.end - supers.first, behind = supers.first;
    for (; sample->left < mapped; sample->left += sample->stride) {
        size_t at = hak_max(supers.first + length * sample->left / mapped, behind);
        size_t looks = STRETCH_LOOKS;
        if (!next(walk, &at, supers.end, true, &looks)) continue;
        take(walk, sample, at);
        behind = at + 1;
    }
    sample->left -= mapped;
}

/* Mapped superslabs of a zone below `carved`. */
static HAK_BEHIND size_t carved_of(const hak_region_walk_t *walk, unsigned zone) {
    size_t fresh = supers_of(zone, walk->limit).end - supers_of(zone, walk->carved).end;
    return mapped_of(zone) - hak_min(fresh, mapped_of(zone));
}

HAK_BEHIND unsigned hak_region_walk_sample(const hak_region_walk_t *walk, hak_superslab_t **found,
                                           unsigned most, size_t *stride) {
    sample_t sample = {.found = found, .most = most, .looks = SAMPLE_LOOKS};
    unsigned end = walk->carved ? hak_thp_of((walk->carved - 1) << hak_map.super_shift) + 1 : 0;
    size_t all = 0;
    for (unsigned zone = 0; zone < end; zone++) all += carved_of(walk, zone);
    sample.stride = all / most + 1;
    for (unsigned zone = 0; zone < end; zone++) {
        hak_thp_range_t supers = supers_of(zone, walk->carved);
        size_t length = supers.end - supers.first, mapped = carved_of(walk, zone);
        if (mapped == length)
            sample_full(walk, &sample, supers);
        else if (mapped && length <= sample.looks)
            sample_each(walk, &sample, supers);
        else if (mapped)
            sample_some(walk, &sample, supers, mapped);
    }
    *stride = sample.stride;
    return sample.count;
}
