/* cxx.c: C++ operator new and delete, every form of the Itanium ABI.
 *
 * Written in C so that libhakmem needs no C++ runtime; throw.c finds the program's runtime.
 * Compiled with unwind tables, since exceptions pass through these functions. */
#include "api/export.h"
#include "api/hardened_malloc.h"
#include "api/malloc.h"
#include "api/throw.h"
#include "error/error.h"
#include "hardened/hardened.h"

#if !HAKMEM_PREFIXED_ONLY

typedef struct nothrow nothrow_t; /* std::nothrow_t, passed by reference */

static void *try_new(size_t size, size_t align, const void *site, hak_origin_t origin) {
    if (hak_hardened_on()) return hak_hardened_alloc(size, align ? align : 1, false, origin, site);
    return align ? hak_allocate_aligned(align, size, site) : hak_allocate(size, site);
}

static HAK_BEHIND _Noreturn void fail(size_t size, const void *site) {
    hak_throw_bad_alloc(site);
    hak_error_report("operator new",
                     "out of memory: %zu %s, and no C++ runtime to throw "
                     "std::bad_alloc",
                     HAK_ERROR_BYTES(size));
    __builtin_trap();
}

/* As [new.delete.single] requires: calls the new handler and tries again as long as there is a
 * handler, then throws. The handler may throw, too. */
HAK_SLOW_PATH static void *new_slow(size_t size, size_t align, const void *site,
                                    hak_origin_t origin) {
    void *block;
    while (!(block = try_new(size, align, site, origin)) && hak_throw_call_handler(site)) continue;
    if (!block) fail(size, site);
    return block;
}

/* The nothrow forms return NULL where the plain forms throw. */
HAK_NEXT static void *nothrow_slow(size_t size, size_t align, const void *site,
                                   hak_origin_t origin) {
    void *block;
    while (!(block = try_new(size, align, site, origin)) && hak_throw_try_handler(site)) continue;
    return block;
}

#define NEW(name, origin)                                                                   \
    HAK_EXPORT HAK_HOT void *name(size_t size);                                             \
    void *name(size_t size) {                                                               \
        void *block = hak_pop_small(size);                                                  \
        return HAK_LIKELY(block != NULL) ? block : new_slow(size, 0, HAK_CALLER(), origin); \
    }
#define NEW_NOTHROW(name, origin)                                                               \
    HAK_EXPORT void *name(size_t size, const nothrow_t *tag);                                   \
    void *name(size_t size, const nothrow_t *tag) {                                             \
        void *block = hak_pop_small(size);                                                      \
        (void)tag;                                                                              \
        return HAK_LIKELY(block != NULL) ? block : nothrow_slow(size, 0, HAK_CALLER(), origin); \
    }
#define NEW_ALIGNED(name, origin)                                                               \
    HAK_EXPORT void *name(size_t size, size_t align);                                           \
    void *name(size_t size, size_t align) {                                                     \
        void *block = hak_pop_aligned(align, size);                                             \
        return HAK_LIKELY(block != NULL) ? block : new_slow(size, align, HAK_CALLER(), origin); \
    }
#define NEW_ALIGNED_NOTHROW(name, origin)                                   \
    HAK_EXPORT void *name(size_t size, size_t align, const nothrow_t *tag); \
    void *name(size_t size, size_t align, const nothrow_t *tag) {           \
        (void)tag;                                                          \
        return nothrow_slow(size, align, HAK_CALLER(), origin);             \
    }

NEW(_Znwm, HAK_ORIGIN_NEW)
NEW(_Znam, HAK_ORIGIN_NEW_ARRAY)
NEW_NOTHROW(_ZnwmRKSt9nothrow_t, HAK_ORIGIN_NEW)
NEW_NOTHROW(_ZnamRKSt9nothrow_t, HAK_ORIGIN_NEW_ARRAY)
NEW_ALIGNED(_ZnwmSt11align_val_t, HAK_ORIGIN_NEW)
NEW_ALIGNED(_ZnamSt11align_val_t, HAK_ORIGIN_NEW_ARRAY)
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t, HAK_ORIGIN_NEW)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t, HAK_ORIGIN_NEW_ARRAY)

/* The pointer is the first argument of every delete. The map makes alignment and tag unnecessary;
 * a size is compared with the block's debug record, if it has one. */
static const char delete_name[] = "operator delete", delete_array_name[] = "operator delete[]";
#define DELETE(name, release, ...)                            \
    HAK_EXPORT HAK_HOT void name(void *block, ##__VA_ARGS__); \
    void name(void *block, ##__VA_ARGS__) {                   \
        if (HAK_LIKELY(hak_push(block))) return;              \
        release;                                              \
    }
DELETE(_ZdlPv, hak_release(block, delete_name))
DELETE(_ZdlPvm, hak_release_sized(block, delete_name, size), size_t size)
DELETE(_ZdaPv, hak_release(block, delete_array_name))
DELETE(_ZdaPvm, hak_release_sized(block, delete_array_name, size), size_t size)

#define DELETE_AS(name, target, ...) \
    HAK_EXPORT void name(void *block, ##__VA_ARGS__) HAK_ALIAS(target);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
DELETE_AS(_ZdlPvRKSt9nothrow_t, _ZdlPv, const nothrow_t *tag)
DELETE_AS(_ZdaPvRKSt9nothrow_t, _ZdaPv, const nothrow_t *tag)
DELETE_AS(_ZdlPvSt11align_val_t, _ZdlPv, size_t align)
DELETE_AS(_ZdaPvSt11align_val_t, _ZdaPv, size_t align)
DELETE_AS(_ZdlPvSt11align_val_tRKSt9nothrow_t, _ZdlPv, size_t align, const nothrow_t *tag)
DELETE_AS(_ZdaPvSt11align_val_tRKSt9nothrow_t, _ZdaPv, size_t align, const nothrow_t *tag)
DELETE_AS(_ZdlPvmSt11align_val_t, _ZdlPvm, size_t size, size_t align)
DELETE_AS(_ZdaPvmSt11align_val_t, _ZdaPvm, size_t size, size_t align)

#else
typedef int hak_cxx_is_left_to_the_sanitizer;
#endif
