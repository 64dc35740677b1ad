/* reuse.h: freed huge mappings, kept with their pages for the next huge block.
 *
 * Stretches of address space sorted by address; neighbours are joined and a request
 * is cut off the best fit, so nothing is wasted inside a block. A stretch that was
 * joined may be several mappings to the kernel. Bounded in number here and in bytes
 * by huge.c; the bound of the number grows where the kernel takes nothing back.
 * Everything is under the lock of huge.c. A search looks at HAK_REUSE_MAX stretches at most, so
 * it may miss some where there are more; a new one moves those behind it in the array, of 24
 * bytes each. */
#ifndef HAK_REUSE_H
#define HAK_REUSE_H

#include "base/base.h"
#include "os/range.h"

enum { HAK_REUSE_MAX = 256 }; /* as long as mappings can be unmapped */

typedef struct {
    char *start;
    size_t size;
    uint64_t freed_ms; /* of hak_os_now_ms; 32 bits would go round in 50 days */
} hak_stretch_t;

/* Bytes kept. */
size_t hak_reuse_bytes(void);

/* Keeps a stretch. False when there is no place for one more. */
bool hak_reuse_put(char *start, size_t size, uint64_t now);

/* There is a place for one more. */
bool hak_reuse_has_place(void);

/* A mapping could not be unmapped: makes more room for such ones before there is none left. */
void hak_reuse_make_room(void);

/* `size` bytes at a multiple of `align`, off the best fit; NULL when nothing fits. */
char *hak_reuse_take(size_t size, size_t align);

/* Takes exactly these bytes; false when they are not kept. */
bool hak_reuse_take_at(char *start, size_t size);

/* Takes out the largest of the stretches that are shorter than `size`. False when there is none. */
bool hak_reuse_take_shorter(hak_stretch_t *stretch, size_t size);

/* Takes out the stretch that was freed longest ago, if it was at or before `freed_by`
 * (UINT64_MAX: whenever); of a longer one the last `want` bytes, a multiple of the page size,
 * unless less than 1 MiB would be left. False when there is none. */
bool hak_reuse_take_oldest(hak_stretch_t *stretch, size_t want, uint64_t freed_by);

/* True for an address in one of them. */
bool hak_reuse_has(const char *address);

/* Calls `visit` for every stretch. */
void hak_reuse_each_range(hak_range_visitor_t visit, void *context);

#endif
