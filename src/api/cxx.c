/* cxx.c: C++ operator new and delete, every form of the Itanium ABI.
 *
 * Written in C so that libhakmem needs no C++ runtime: what only a C++ program has,
 * the new handler and std::bad_alloc, is found in that program through weak
 * symbols. Compiled with unwind tables, since the exception passes through. */
#include "api/block.h"
#include "api/export.h"
#include "api/malloc.h"
#include "error/error.h"

#if !HAKMEM_PREFIXED_ONLY

typedef void (*new_handler_t)(void);
typedef struct nothrow nothrow_t; /* std::nothrow_t, passed by reference */

/* libstdc++'s names; libc++ has the handler under the same one. */
extern new_handler_t _ZSt15get_new_handlerv(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* Weak, too: a static program has no next definition, and need not link it. */
extern void *dlsym(void *handle, const char *symbol) __attribute__((weak));
extern void *dlopen(const char *file, int flags) __attribute__((weak));
#define NEXT_OBJECT ((void *)-1) /* RTLD_NEXT */
enum { LAZY_IF_LOADED = 1 | 4 }; /* RTLD_LAZY | RTLD_NOLOAD */

/* A function of the C++ runtime. The weak symbol is empty in a C program that loads C++
 * later, as a plug-in: then the runtime is looked for among the loaded objects. */
static void *runtime_function(void *known, const char *name) {
    static const char *const runtimes[] = {"libstdc++.so.6", "libc++.so.1"};
    for (unsigned i = 0; !known && dlopen && dlsym && i < 2; i++) {
        void *runtime = dlopen(runtimes[i], LAZY_IF_LOADED);
        if (runtime) known = dlsym(runtime, name);
    }
    return known;
}

static new_handler_t current_handler(void) {
    union {
        void *symbol;
        new_handler_t (*get)(void);
    } found = {.get = _ZSt15get_new_handlerv};
    found.symbol = runtime_function(found.symbol, "_ZSt15get_new_handlerv");
    return found.symbol ? found.get() : NULL;
}

static void throw_bad_alloc(void) {
    union {
        void *symbol;
        void (*call)(void);
    } found = {.call = _ZSt17__throw_bad_allocv};
    found.symbol = runtime_function(found.symbol, "_ZSt17__throw_bad_allocv");
    if (found.symbol) found.call();
}

/* What [new.delete.single] asks for: call the handler as long as there is one, then
 * throw. A handler may throw itself. */
HAK_SLOW_PATH static void *new_slow(size_t size, size_t align, const void *site) {
    for (;;) {
        void *block = align ? hak_allocate_aligned(align, size, site) : hak_allocate(size, site);
        if (block) return block;
        new_handler_t handler = current_handler();
        if (!handler) break;
        handler();
    }
    throw_bad_alloc();
    hak_error_report("operator new",
                     "out of memory: %zu bytes, and no C++ runtime to throw "
                     "std::bad_alloc",
                     size);
    __builtin_trap();
}

/* A nothrow form returns NULL where the plain one throws. C cannot catch, so when a
 * handler might throw the C++ runtime's own form is asked: it calls the plain
 * operator new, which is ours, and catches. */
HAK_SLOW_PATH static void *nothrow_slow(const char *name, size_t size, size_t align,
                                        const nothrow_t *tag, const void *site) {
    void *block = align ? hak_allocate_aligned(align, size, site) : hak_allocate(size, site);
    if (block || !dlsym || !current_handler()) return block;
    union {
        void *symbol;
        void *(*plain)(size_t, const nothrow_t *);
        void *(*aligned)(size_t, size_t, const nothrow_t *);
    } next = {dlsym(NEXT_OBJECT, name)};
    if (!next.symbol) return NULL;
    return align ? next.aligned(size, align, tag) : next.plain(size, tag);
}

#define NEW(name)                                                                   \
    HAK_EXPORT HAK_HOT void *name(size_t size);                                     \
    void *name(size_t size) {                                                       \
        void *block = hak_pop_small(size);                                          \
        return HAK_LIKELY(block != NULL) ? block : new_slow(size, 0, HAK_CALLER()); \
    }
#define NEW_NOTHROW(name)                                                                   \
    HAK_EXPORT void *name(size_t size, const nothrow_t *tag);                               \
    void *name(size_t size, const nothrow_t *tag) {                                         \
        void *block = hak_pop_small(size);                                                  \
        return HAK_LIKELY(block != NULL) ? block                                            \
                                         : nothrow_slow(#name, size, 0, tag, HAK_CALLER()); \
    }
#define NEW_ALIGNED(name)                                                               \
    HAK_EXPORT void *name(size_t size, size_t align);                                   \
    void *name(size_t size, size_t align) {                                             \
        void *block = hak_pop_aligned(align, size);                                     \
        return HAK_LIKELY(block != NULL) ? block : new_slow(size, align, HAK_CALLER()); \
    }
#define NEW_ALIGNED_NOTHROW(name)                                           \
    HAK_EXPORT void *name(size_t size, size_t align, const nothrow_t *tag); \
    void *name(size_t size, size_t align, const nothrow_t *tag) {           \
        return nothrow_slow(#name, size, align, tag, HAK_CALLER());         \
    }

NEW(_Znwm)
NEW(_Znam)
NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
NEW_NOTHROW(_ZnamRKSt9nothrow_t)
NEW_ALIGNED(_ZnwmSt11align_val_t)
NEW_ALIGNED(_ZnamSt11align_val_t)
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)

/* Every delete takes the pointer first. What alignment and tag say the map knows; a size
 * is compared with a debug record, where there is one. */
static const char delete_name[] = "operator delete";
#define DELETE(name, release, ...)                            \
    HAK_EXPORT HAK_HOT void name(void *block, ##__VA_ARGS__); \
    void name(void *block, ##__VA_ARGS__) {                   \
        if (HAK_LIKELY(hak_push(block))) return;              \
        release;                                              \
    }
DELETE(_ZdlPv, hak_release(block, delete_name))
DELETE(_ZdlPvm, hak_release_sized(block, delete_name, size), size_t size)

#define DELETE_AS(name, target, ...) \
    HAK_EXPORT void name(void *block, ##__VA_ARGS__) HAK_ALIAS(target);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
DELETE_AS(_ZdaPv, _ZdlPv)
DELETE_AS(_ZdlPvRKSt9nothrow_t, _ZdlPv, const nothrow_t *tag)
DELETE_AS(_ZdaPvRKSt9nothrow_t, _ZdlPv, const nothrow_t *tag)
DELETE_AS(_ZdaPvm, _ZdlPvm, size_t size)
DELETE_AS(_ZdlPvSt11align_val_t, _ZdlPv, size_t align)
DELETE_AS(_ZdaPvSt11align_val_t, _ZdlPv, size_t align)
DELETE_AS(_ZdlPvSt11align_val_tRKSt9nothrow_t, _ZdlPv, size_t align, const nothrow_t *tag)
DELETE_AS(_ZdaPvSt11align_val_tRKSt9nothrow_t, _ZdlPv, size_t align, const nothrow_t *tag)
DELETE_AS(_ZdlPvmSt11align_val_t, _ZdlPvm, size_t size, size_t align)
DELETE_AS(_ZdaPvmSt11align_val_t, _ZdlPvm, size_t size, size_t align)

#else
typedef int hak_cxx_is_left_to_the_sanitizer;
#endif
