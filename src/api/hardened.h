/* hardened.h: malloc, free and realloc on the hardened path (hardened/hardened.h). The slow halves
 * of the public functions come here when hak_hardened_on(). */
#ifndef HAK_API_HARDENED_H
#define HAK_API_HARDENED_H

#include "base/base.h"
#include "hardened/state.h"

/* Switches the path on. Called once, by the constructor, if the options ask for it. */
void hak_hardened_start(void);

/* `size` bytes at a multiple of `align`, a power of two; zeroed if told so. NULL with ENOMEM. */
void *hak_hardened_alloc(size_t size, size_t align, bool zero, hak_origin_t origin);

/* `function` is the public function; a block is freed by "free..." or "realloc", "operator delete"
 * or "operator delete[]". `size` is what the caller says, or HAK_ANY_SIZE. */
void hak_hardened_free(void *pointer, const char *function, size_t size);

/* As realloc(3); `pointer` is not NULL, `size` not 0. */
void *hak_hardened_realloc(void *pointer, size_t size);

/* The block in use that starts at `pointer`: its bytes that the program may use. False when there is
 * none. */
bool hak_hardened_usable(const void *pointer, size_t *size);

/* The same for a block in use that contains `pointer`; false when there is none. */
bool hak_hardened_bounds(const void *pointer, void **start, size_t *size);

#endif
