/* window.h: chooses where in the address space the allocator's growing areas lie.
 *
 * A window is a range of addresses that is not reserved. Its owner maps parts of it one by one, as
 * it needs them, and each mapping may fail with HAK_OS_TAKEN. So a small process has a small
 * address space, and a limit on the address space that is set later does not count unused
 * reservations.
 *
 * The window lies far below the place where the system puts mappings that ask for no address, at an
 * offset that differs from process to process. */
#pragma once

#include "base/base.h"

/* The window to try in attempt 0, 1, 2 ...: its first address, a multiple of 4 MiB, and in *size
 * its bytes, a power of two of at least 64 MiB. NULL after the last attempt. An attempt always has
 * the same result in a process, except for the last attempts, which ask the system for a hole.
 * Thread-safe. */
char *hak_os_window(unsigned attempt, size_t *size);

/* True when the system maps a page anywhere. */
bool hak_os_maps_anywhere(void);
