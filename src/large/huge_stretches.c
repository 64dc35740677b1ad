/* huge_stretches.c: a sorted array. A walk over it costs far less than the work on a huge block. */
#include "large/huge_stretches.h"

#include <string.h>

#include "classes/classes.h"
#include "meta/meta.h"

enum { PIECE = HAK_LARGE_MAX }; /* a shorter rest is not worth a place */

hak_stretch_t *hak_stretches_make_places(void) {
    return hak_meta_alloc(HAK_STRETCHES_MAX * sizeof(hak_stretch_t));
}

void hak_stretches_use_places(hak_stretches_t *part, hak_stretch_t *places) {
    if (!places) return;
    if (part->most) {
        hak_meta_free(places, HAK_STRETCHES_MAX * sizeof *places);
        return;
    }
    part->kept = places;
    part->most = HAK_STRETCHES_MAX;
}

static void remove_at(hak_stretches_t *part, unsigned i) {
    hak_stretch_t *kept = part->kept;
    part->bytes -= kept[i].size;
    part->count--;
    memmove(&kept[i], &kept[i + 1], (part->count - i) * sizeof *kept);
}

static bool insert_at(hak_stretches_t *part, unsigned i, hak_stretch_t stretch) {
    hak_stretch_t *kept = part->kept;
    if (part->count == part->most) return false;
    memmove(&kept[i + 1], &kept[i], (part->count - i) * sizeof *kept);
    kept[i] = stretch;
    part->count++;
    part->bytes += stretch.size;
    return true;
}

/* Doubles the places as soon as half of them are taken: if the system has no memory now, it may have some later. */
void hak_stretches_make_room(hak_stretches_t *part) {
    if (part->count < part->most / 2 || !part->most) return;
    size_t places = (size_t)2 * part->most;
    hak_stretch_t *larger = hak_meta_alloc(places * sizeof *larger), *old = part->kept;
    if (!larger) return;
    memcpy(larger, old, part->count * sizeof *old);
    hak_meta_free(old, part->most * sizeof *old);
    part->kept = larger;
    part->most *= 2;
}

/* The index of the first stretch that begins at or behind `start`. */
static unsigned place_of(const hak_stretches_t *part, const char *start) {
    unsigned low = 0, high = part->count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (part->kept[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t hak_stretches_put(hak_stretches_t *part, char *start, size_t size, uint64_t now) {
    hak_stretch_t *kept = part->kept;
    unsigned i = place_of(part, start);
    bool below = i > 0 && kept[i - 1].start + kept[i - 1].size == start;
    bool above = i < part->count && start + size == kept[i].start;
    if (!below && !above) return insert_at(part, i, (hak_stretch_t){start, size, now}) ? size : 0;
    hak_stretch_t *grown = &kept[below ? i - 1 : i];
    if (!below) grown->start = start;
    grown->size += size;
    grown->freed_ms = hak_max(grown->freed_ms, now);
    part->bytes += size;
    if (below && above) {
        hak_stretch_t more = kept[i];
        remove_at(part, i);
        grown->size += more.size;
        grown->freed_ms = hak_max(grown->freed_ms, more.freed_ms);
        part->bytes += more.size;
    }
    return grown->size;
}

size_t hak_stretches_longest(const hak_stretches_t *part) {
    size_t longest = 0;
    for (unsigned i = 0; i < part->count; i++) longest = hak_max(longest, part->kept[i].size);
    return longest;
}

/* Cuts a part out of a stretch. False when the rest has no place. */
static bool cut(hak_stretches_t *part, unsigned i, char *piece, size_t size) {
    hak_stretch_t whole = part->kept[i];
    char *end = whole.start + whole.size;
    size_t before = (size_t)(piece - whole.start), behind = (size_t)(end - (piece + size));
    if (before && behind && part->count == part->most) return false;
    remove_at(part, i);
    if (behind) insert_at(part, i, (hak_stretch_t){piece + size, behind, whole.freed_ms});
    if (before) insert_at(part, i, (hak_stretch_t){whole.start, before, whole.freed_ms});
    return true;
}

typedef struct {
    unsigned first, end;
} window_t;

/* The stretches that a search looks at: all of them, or HAK_STRETCHES_MAX in a row if there are more. The next search
 * looks at the next row. */
static window_t window(hak_stretches_t *part) {
    part->first += HAK_STRETCHES_MAX;
    if (part->first >= part->count) part->first = 0;
    return (window_t){part->first, (unsigned)hak_min(part->first + HAK_STRETCHES_MAX, part->count)};
}

char *hak_stretches_take(hak_stretches_t *part, size_t size, size_t align, size_t *longest) {
    window_t in = window(part);
    hak_stretch_t *kept = part->kept;
    unsigned best = in.end;
    size_t least = SIZE_MAX; /* sizes are random: no branch here for the CPU to predict */
    *longest = 0;
    for (unsigned i = in.first; i < in.end; i++) {
        size_t shift = -(uintptr_t)kept[i].start & (align - 1), have = kept[i].size;
        bool better = (have >= size) & (have - size >= shift) & (have < least);
        *longest = hak_max(*longest, have);
        least = better ? have : least;
        best = better ? i : best;
    }
    if (best == in.end) return NULL;
    char *start = kept[best].start + (-(uintptr_t)kept[best].start & (align - 1));
    if (!cut(part, best, start, size)) return NULL;
    if (least == *longest) *longest = hak_stretches_longest(part);
    return start;
}

bool hak_stretches_take_at(hak_stretches_t *part, char *start, size_t size) {
    unsigned i = place_of(part, start);
    return i < part->count && part->kept[i].start == start && part->kept[i].size >= size &&
           cut(part, i, start, size);
}

bool hak_stretches_take_shorter(hak_stretches_t *part, hak_stretch_t *stretch, size_t size) {
    window_t in = window(part);
    hak_stretch_t *kept = part->kept;
    unsigned best = in.end;
    size_t most_yet = 0;
    for (unsigned i = in.first; i < in.end; i++) {
        size_t have = kept[i].size;
        bool better = (have < size) & (have > most_yet);
        most_yet = better ? have : most_yet;
        best = better ? i : best;
    }
    if (best == in.end) return false;
    *stretch = kept[best];
    remove_at(part, best);
    return true;
}

bool hak_stretches_take_oldest(hak_stretches_t *part, hak_stretch_t *stretch, size_t want,
                               uint64_t freed_by) {
    window_t in = window(part);
    hak_stretch_t *kept = part->kept;
    unsigned best = in.first;
    for (unsigned i = in.first; i < in.end; i++)
        if (kept[i].freed_ms < kept[best].freed_ms) best = i;
    if (part->count == 0 || kept[best].freed_ms > freed_by) return false;
    *stretch = kept[best];
    if (want >= stretch->size || stretch->size - want < PIECE) {
        remove_at(part, best);
        return true;
    }
    stretch->start += stretch->size - want;
    stretch->size = want;
    kept[best].size -= want;
    part->bytes -= want;
    return true;
}

bool hak_stretches_has(const hak_stretches_t *part, const char *address) {
    unsigned i = place_of(part, address + 1);
    return i > 0 && address < part->kept[i - 1].start + part->kept[i - 1].size;
}

void hak_stretches_each_range(const hak_stretches_t *part, hak_range_visitor_t visit,
                              void *context) {
    for (unsigned i = 0; i < part->count; i++)
        visit(context, HAK_RANGE_KEPT, part->kept[i].start, part->kept[i].size);
}
