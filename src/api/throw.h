/* throw.h: what operator new needs from the C++ runtime: the new handler, and std::bad_alloc. */
#pragma once

#include "base/base.h"

/* `site` is the HAK_CALLER of operator new. If the program itself has no C++ runtime, that of the
 * object that contains `site` is used. Only the runtime allocates in these functions. */

/* Calls the new handler, which may throw; false when there is none. */
bool hak_throw_call_handler(const void *site);

/* The same for a caller that must not throw; also false when the handler has thrown. */
bool hak_throw_try_handler(const void *site);

/* Throws std::bad_alloc. Returns when there is no runtime, and so nothing that could catch it. */
void hak_throw_bad_alloc(const void *site);
