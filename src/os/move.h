/* move.h: mappings whose pages go to another address without being copied. As in os.h, no function allocates, takes a
 * lock of HAKMEM, or changes errno. */
#pragma once

#include "base/base.h"

/* Resizes a mapping of hak_os_map. The kernel may move the pages to another address, without
 * copying. NULL when refused; then the old mapping is unchanged. */
void *hak_os_remap(void *addr, size_t old_size, size_t new_size);

/* Moves the pages of `size` bytes, of one mapping or several, to `to`, an untouched mapping of the
 * caller, and unmaps the old range. False: the old range and its contents are unchanged, and `to`
 * no longer belongs to the caller: what the kernel has not unmapped is unmapped here. */
bool hak_os_move(void *addr, size_t size, void *to);

/* True when the kernel supports what hak_os_move needs (Linux 5.7). Tried once per process. */
bool hak_os_moves_several(void);
