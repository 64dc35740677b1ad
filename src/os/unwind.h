/* unwind.h: the return addresses on the calling thread's stack. */
#pragma once

#include "base/base.h"

/* Stores the return addresses from `site` outward, at most `most`, and returns their number. `site`
 * is the HAK_CALLER of a public function on the stack; the frames inside of it are left out. When the
 * walk does not get as far as that, the answer is `site` alone. It ends where nothing tells the next
 * frame. Does not allocate, takes no lock, not even the loader's, and reads no memory that it has not
 * asked the system about: the stack may be a coroutine's, its words may be garbage, and they may lead to memory that
 * another thread unmaps. */
unsigned hak_os_unwind(const void *site, uintptr_t *frames, unsigned most);
