/* reuse.c: a sorted array; a huge block costs far more than a walk over it. */
#include "large/reuse.h"

#include <string.h>

#include "classes/classes.h"
#include "meta/meta.h"

enum { PIECE = HAK_LARGE_MAX }; /* shorter rests are not worth a place */

static hak_stretch_t first_kept[HAK_REUSE_MAX] HAK_APART;
static hak_stretch_t *kept = first_kept;
static unsigned count, most = HAK_REUSE_MAX;
static size_t bytes;

size_t hak_reuse_bytes(void) { return bytes; }

bool hak_reuse_has_place(void) { return count < most; }

static void remove_at(unsigned i) {
    bytes -= kept[i].size;
    count--;
    memmove(&kept[i], &kept[i + 1], (count - i) * sizeof *kept);
}

static bool insert_at(unsigned i, char *start, size_t size, uint64_t freed_ms) {
    if (!hak_reuse_has_place()) return false;
    memmove(&kept[i + 1], &kept[i], (count - i) * sizeof *kept);
    kept[i] = (hak_stretch_t){start, size, freed_ms};
    count++;
    bytes += size;
    return true;
}

/* Called long before the room is used up: if the system has no memory now, it may have some later. */
void hak_reuse_make_room(void) {
    if (count < most / 2) return;
    hak_stretch_t *larger = hak_meta_alloc((size_t)2 * most * sizeof *kept);
    if (!larger) return;
    memcpy(larger, kept, count * sizeof *kept);
    if (kept != first_kept) hak_meta_free(kept, most * sizeof *kept);
    kept = larger;
    most *= 2;
}

/* First stretch that begins at or behind `start`. */
static unsigned place_of(const char *start) {
    unsigned low = 0, high = count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (kept[middle].start < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool hak_reuse_put(char *start, size_t size, uint64_t now) {
    unsigned i = place_of(start);
    bool below = i > 0 && kept[i - 1].start + kept[i - 1].size == start;
    bool above = i < count && start + size == kept[i].start;
    if (!below && !above) return insert_at(i, start, size, now);
    hak_stretch_t *grown = &kept[below ? i - 1 : i];
    if (!below) grown->start = start;
    grown->size += size;
    grown->freed_ms = hak_max(grown->freed_ms, now);
    bytes += size;
    if (below && above) {
        hak_stretch_t more = kept[i];
        remove_at(i);
        grown->size += more.size;
        grown->freed_ms = hak_max(grown->freed_ms, more.freed_ms);
        bytes += more.size;
    }
    return true;
}

/* Cuts a part out of a stretch. False when the rest has no place. */
static bool cut(unsigned i, char *part, size_t size) {
    hak_stretch_t whole = kept[i];
    char *end = whole.start + whole.size;
    size_t before = (size_t)(part - whole.start), behind = (size_t)(end - (part + size));
    if (before && behind && count == most) return false;
    remove_at(i);
    if (behind) insert_at(i, part + size, behind, whole.freed_ms);
    if (before) insert_at(i, whole.start, before, whole.freed_ms);
    return true;
}

typedef struct {
    unsigned first, end;
} window_t;

/* The stretches that a search looks at: all or, if there are many, a part of them. The next search looks
 * at the next part. */
static window_t window(void) {
    static unsigned first;
    first += HAK_REUSE_MAX;
    if (first >= count) first = 0;
    return (window_t){first, hak_min(first + HAK_REUSE_MAX, count)};
}

char *hak_reuse_take(size_t size, size_t align) {
    window_t in = window();
    unsigned best = in.end;
    size_t least = SIZE_MAX; /* sizes are random: no branch here for the CPU to predict */
    for (unsigned i = in.first; i < in.end; i++) {
        size_t shift = -(uintptr_t)kept[i].start & (align - 1), have = kept[i].size;
        bool better = (have >= size) & (have - size >= shift) & (have < least);
        least = better ? have : least;
        best = better ? i : best;
    }
    if (best == in.end) return NULL;
    char *start = kept[best].start + (-(uintptr_t)kept[best].start & (align - 1));
    return cut(best, start, size) ? start : NULL;
}

bool hak_reuse_take_at(char *start, size_t size) {
    unsigned i = place_of(start);
    return i < count && kept[i].start == start && kept[i].size >= size && cut(i, start, size);
}

bool hak_reuse_take_shorter(hak_stretch_t *stretch, size_t size) {
    window_t in = window();
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
    remove_at(best);
    return true;
}

bool hak_reuse_take_oldest(hak_stretch_t *stretch, size_t want, uint64_t freed_by) {
    window_t in = window();
    unsigned best = in.first;
    for (unsigned i = in.first; i < in.end; i++)
        if (kept[i].freed_ms < kept[best].freed_ms) best = i;
    if (count == 0 || kept[best].freed_ms > freed_by) return false;
    *stretch = kept[best];
    if (want >= stretch->size || stretch->size - want < PIECE) {
        remove_at(best);
        return true;
    }
    stretch->start += stretch->size - want;
    stretch->size = want;
    kept[best].size -= want;
    bytes -= want;
    return true;
}

bool hak_reuse_has(const char *address) {
    unsigned i = place_of(address + 1);
    return i > 0 && address < kept[i - 1].start + kept[i - 1].size;
}

void hak_reuse_each_range(hak_range_visitor_t visit, void *context) {
    for (unsigned i = 0; i < count; i++)
        visit(context, HAK_RANGE_KEPT, kept[i].start, kept[i].size);
}
