/* export.h: gives a function its standard name in addition to its hakmem_ name.
 *
 * Each function is defined once, as hakmem_NAME; the standard name is a second symbol with the
 * same address. A prefixed build leaves the standard names to the sanitizer. */
#pragma once

#include "base/base.h"
#include "hakmem.h"

#if defined(__has_attribute)
#if __has_attribute(copy)
#define HAK_COPY(target) __attribute__((copy(target)))
#endif
#endif
#ifndef HAK_COPY
#define HAK_COPY(target)
#endif

/* HAK_TWIN_NAMED(type, name, target, (parameters)): `name` = hakmem_target. */
#if HAKMEM_PREFIXED_ONLY
#define HAK_TWIN_NAMED(type, name, target, parameters)
#else
#define HAK_TWIN_NAMED(type, name, target, parameters) \
    HAK_EXPORT type name parameters HAK_ALIAS(hakmem_##target) HAK_COPY(hakmem_##target);
#endif
#define HAK_TWIN(type, name, parameters) HAK_TWIN_NAMED(type, name, name, parameters)

/* glibc also exports malloc and its family as __libc_malloc and so on. Wrappers of malloc call these names for the
 * "real" functions, and pass the blocks to free or malloc_usable_size, which are HAKMEM's. So these names must be
 * HAKMEM's, too. */
#if defined(__GLIBC__)
#define HAK_LIBC_TWIN(type, name, parameters) HAK_TWIN_NAMED(type, __libc_##name, name, parameters)
#else
#define HAK_LIBC_TWIN(type, name, parameters)
#endif
