/* huge_stretches.h: freed huge mappings, kept with their pages for the next huge block.
 *
 * A part is an array of stretches of address space, sorted by address. Neighbours are joined,
 * and a request is cut off the best fit, so nothing is wasted inside a block. A joined stretch
 * may be several mappings to the kernel. The number of stretches is bounded here, their bytes by
 * huge_kept.c; the bound on the number grows if the kernel refuses to unmap. Everything is under
 * the part's lock. A search looks at HAK_STRETCHES_MAX stretches at most, so it may miss some if
 * there are more. An insertion moves the stretches behind it in the array, 24 bytes each. */
#pragma once

#include "base/base.h"
#include "os/lock.h"
#include "os/range.h"

enum {
    HAK_STRETCHES_MAX = 256, /* places of a part, unless the kernel refuses to unmap */
};

typedef struct {
    char *start;
    size_t size;
    uint64_t freed_ms; /* of hak_os_now_ms; 32 bits would wrap after 50 days */
} hak_stretch_t;

/* The first bytes of a stretch that could be neither unmapped nor kept, for lack of places. */
typedef struct hak_lost {
    struct hak_lost *next;
    size_t size;
} hak_lost_t;

/* One part of what is kept (huge_kept.h). Invariant: bytes = sum of the stretches; whenever the lock is free,
 * noted = bytes. */
typedef struct {
    hak_lock_t lock;
    unsigned count, most; /* lock; stretches, and places for them: 0 before the first */
    unsigned first;       /* lock; where the next search begins if there are many */
    size_t bytes;         /* lock */
    size_t noted;         /* lock; the part of `bytes` that is in hak_huge_stats.kept_bytes */
    hak_stretch_t *kept;  /* lock */
    hak_lost_t *lost;     /* lock; not in `bytes`; the next purge unmaps them */
    size_t lost_bytes;    /* lock; bytes of `lost`, which are charged but not held */
    uint64_t reused;      /* lock; blocks served */
    _Atomic uint8_t longest HAK_ALIGNED(
        HAK_LINE); /* written under the lock; threads of other parts read it (huge_kept.c) */
} HAK_ALIGNED(HAK_LINE) hak_stretches_t;

/* The first makes places for stretches, without the lock. The second, under the lock, gives them to the part, or frees
 * them if another thread was faster; it accepts NULL. */
hak_stretch_t *hak_stretches_make_places(void);
void hak_stretches_use_places(hak_stretches_t *part, hak_stretch_t *places);

/* Keeps a stretch. Returns the length of the stretch that contains it now; 0 if there is no place for one more. */
size_t hak_stretches_put(hak_stretches_t *part, char *start, size_t size, uint64_t now);

/* Called when a mapping could not be unmapped: adds places before the last one is taken. */
void hak_stretches_make_room(hak_stretches_t *part);

/* Takes `size` bytes at a multiple of `align` from the best fit; NULL when nothing fits. *longest: the longest stretch
 * that the search has seen and that is left. */
char *hak_stretches_take(hak_stretches_t *part, size_t size, size_t align, size_t *longest);

/* Length of the longest stretch, 0 if there is none. */
size_t hak_stretches_longest(const hak_stretches_t *part);

/* Takes exactly these bytes; false when they are not kept. */
bool hak_stretches_take_at(hak_stretches_t *part, char *start, size_t size);

/* Takes out the largest of the stretches that are shorter than `size`. False when there is none. */
bool hak_stretches_take_shorter(hak_stretches_t *part, hak_stretch_t *stretch, size_t size);

/* Takes out the stretch that was freed longest ago, if that was at or before `freed_by`
 * (UINT64_MAX: at any time). If the stretch is longer than `want` bytes, a multiple of the page
 * size, takes only its last `want` bytes, unless less than 1 MiB would be left. False when there
 * is none. */
bool hak_stretches_take_oldest(hak_stretches_t *part, hak_stretch_t *stretch, size_t want,
                               uint64_t freed_by);

/* True for an address in one of them. */
bool hak_stretches_has(const hak_stretches_t *part, const char *address);

/* Calls `visit` for every stretch. */
void hak_stretches_each_range(const hak_stretches_t *part, hak_range_visitor_t visit,
                              void *context);
