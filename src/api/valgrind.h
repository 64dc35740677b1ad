/* valgrind.h: what a function becomes while a tool of valgrind runs.
 *
 * memcheck and its sisters put their own functions in the place of malloc, free and the others that
 * they know, also of ours, by their names; the twins have the same addresses, so they are theirs, too.
 * A function that they do not know would be given their blocks, and calls one that they know instead.
 * Valgrind finds these by their names: _vgr, a tag, "ZU" (how the rest is written), "Za" (in any
 * object), and the name of the function that they replace. Nothing else ever calls them. */
#pragma once

#include "api/export.h"

#define HAK_UNDER_VALGRIND(type, name, parameters)           \
    HAK_EXPORT type _vgr00000ZU_Za_hakmem_##name parameters; \
    HAK_BEHIND type _vgr00000ZU_Za_hakmem_##name parameters
