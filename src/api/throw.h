/* throw.h: what operator new needs of a C++ program: its new handler, and std::bad_alloc. */
#ifndef HAK_THROW_H
#define HAK_THROW_H

#include "base/base.h"

/* `site` is the HAK_CALLER of operator new: the runtime of the object that it lies in serves, when
 * the program itself has none. All three allocate nothing beside what the runtime does itself. */

/* Calls the new handler, which may throw; false when there is none. */
bool hak_throw_call_handler(const void *site);

/* The same for a function that must not throw: false, too, when the handler has thrown. */
bool hak_throw_try_handler(const void *site);

/* Throws std::bad_alloc; returns when there is no runtime, so that nothing could catch it. */
void hak_throw_bad_alloc(const void *site);

#endif
