/* program.h: what the loader knows of the program, and of the file that this code is in. */
#pragma once

#include "base/base.h"

/* True when somebody may register handlers of forks before the program's first malloc: a library beside libc,
 * the loader and this one, or the program itself, which then asks the loader for the function. True also where the system does
 * not tell. */
bool hak_os_expects_fork_handlers(void);

/* True in a library that dlclose may unmap, with this code in it; false in libhakmem.so and in a
 * program. */
bool hak_os_may_be_unloaded(void);
