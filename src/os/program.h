/* program.h: what the loader knows of the program, and of the file that this code is in. */
#pragma once

#include "base/base.h"

/* An address from the dynamic section of a file that is loaded at `base`. The loader has made it absolute, unless the
 * section is read-only. */
HAK_FAST_PATH const void *hak_os_dynamic_address(uintptr_t base, uintptr_t value) {
    return (const void *)(value < base ? base + value : value);
}

/* True when other code may register fork handlers before the program's first malloc: a library other than libc, the
 * loader and this one, or the program itself, which then imports the function. Also true if the system does not
 * tell. */
bool hak_os_expects_fork_handlers(void);

/* True in a library that dlclose may unmap, with this code in it; false in libhakmem.so and in a
 * program. */
bool hak_os_may_be_unloaded(void);
