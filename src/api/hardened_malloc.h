/* hardened_malloc.h: malloc, free and realloc on the hardened path (hardened/hardened.h). The slow halves
 * of the public functions come here when hak_hardened_on(). */
#pragma once

#include "base/base.h"
#include "cache/cache.h"
#include "hardened/quarantine.h"
#include "hardened/state.h"

/* Switches the path on. Called once, by the constructor, if the options ask for it. */
void hak_hardened_start(void);

/* Allocate `size` bytes at a multiple of `align`, a power of two; zeroed if `zero`. NULL with ENOMEM. The first
 * is malloc. The second is hak_allocate_small for a thread whose cache has `quick`. `site`: as in malloc.h, for
 * the heap profiler. */
void *hak_hardened_malloc(size_t size, const void *site);
void *hak_hardened_malloc_quick(size_t size, const void *site,
                                const hak_cache_t *cache); /* up to HAK_SMALL_MAX bytes */
void *hak_hardened_alloc(size_t size, size_t align, bool zero, hak_origin_t origin,
                         const void *site);

/* Free a block that is not NULL. The first serves free(). The other serves the public functions whose names are
 * "free...", "realloc", "operator delete" and "operator delete[]"; `size` is what their caller passes as the
 * size, or HAK_ANY_SIZE. */
void hak_hardened_free(void *pointer);
void hak_hardened_free_by(void *pointer, const char *function, size_t size);

/* As hak_free_at, for a thread whose cache has `quick`, which is `quarantine`; `offset`: of the magazine. */
void hak_hardened_free_quick(void *pointer, size_t offset, size_t unit,
                             hak_quarantine_t *quarantine);

/* As realloc(3); `pointer` is not NULL, `size` not 0. */
void *hak_hardened_realloc(void *pointer, size_t size, const void *site);

/* Bytes that the program may use of the block in use that starts at `pointer`; 0 for NULL. Reports any other
 * pointer. `row` is that of the class of its unit, or the first row. */
size_t hak_hardened_usable(const void *pointer, const hak_class_t *row);

/* The same for any block in use, also one of 0 bytes. False when none begins there; this is reported as a wrong
 * call of `function`. */
bool hak_hardened_find(const void *pointer, const char *function, size_t *size);

/* The start and the usable bytes of the block in use that contains `pointer`; false when there is none. */
bool hak_hardened_bounds(const void *pointer, void **start, size_t *size);
