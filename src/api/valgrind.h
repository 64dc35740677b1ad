/* valgrind.h: replacements of public functions while a tool of valgrind runs.
 *
 * memcheck and similar tools replace malloc, free and the other functions that they know by their own, HAKMEM's
 * included; hakmem_malloc has the same address as malloc, so it is replaced, too. A function that they do not know
 * would get blocks of the tool. So each such function has a replacement, which calls a function that the tools know.
 * Valgrind finds the replacement by its name: _vgr, a tag, "ZU" (how the rest is encoded), "Za" (in any object), and
 * the name of the replaced function. Nothing else ever calls it. */
#pragma once

#include "api/export.h"

#define HAK_UNDER_VALGRIND(type, name, parameters)           \
    HAK_EXPORT type _vgr00000ZU_Za_hakmem_##name parameters; \
    HAK_BEHIND type _vgr00000ZU_Za_hakmem_##name parameters
