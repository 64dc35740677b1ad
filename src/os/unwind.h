/* unwind.h: the return addresses on the calling thread's stack. */
#pragma once

#include "base/base.h"

/* Stores the return addresses from `site` outward, at most `most`, and returns their number. `site`
 * is the HAK_CALLER of a public function on the stack; the frames inside of it are left out. If the
 * walk does not reach `site`, the result is `site` alone. The walk ends where nothing tells the next
 * frame. Does not allocate, and takes no lock, not even the loader's. Outside the caller's own page
 * of stack it follows no pointer before it has asked the system: the stack may be a coroutine's, its
 * words may be garbage, and they may lead to memory that another thread unmaps. */
unsigned hak_os_unwind(const void *site, uintptr_t *frames, unsigned most);
