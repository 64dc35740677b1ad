/* place.h: where in the address space the allocator puts what grows.
 *
 * A window is a range of addresses that nobody has reserved: parts of it are mapped one by one,
 * each with HAK_OS_TAKEN as a possible answer, as the owner needs them. So a process that is small
 * looks small, and a limit on its address space that comes late finds nothing that was set aside.
 *
 * The window lies far below the place where the system puts mappings that ask for no address, at an
 * offset that differs from process to process. */
#ifndef HAK_OS_PLACE_H
#define HAK_OS_PLACE_H

#include "base/base.h"

/* The place to try in attempt 0, 1, 2 ...: its first address, a multiple of 4 MiB, and in *size
 * its bytes, a power of two of at least 64 MiB. NULL after the last attempt. The answer to an
 * attempt is the same throughout the process, but for the last ones, where the system is asked for
 * a hole. Thread-safe. */
char *hak_os_place(unsigned attempt, size_t *size);

#endif
