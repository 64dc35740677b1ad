/* record.c: libhakmem_record.so: the malloc family of a preloaded program, passed on to the next
 * allocator and recorded. `hakmem record` preloads it.
 *
 * What dlsym allocates before the next allocator is known comes from a small area of its own and
 * is not recorded.
 *
 * A program may have a malloc of its own over glibc's __libc_malloc. Then only its calls of these names come here, and
 * are recorded. Otherwise malloc comes here, and the next allocator may be such a wrapper: its calls go on to libc. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "writer.h"

#define EXPORT __attribute__((visibility("default")))
#define EARLY_SIZE 8192 /* bytes */

static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*free)(void *);
    void (*exit_now)(int);
} next;

static _Alignas(16) char early[EARLY_SIZE];
static size_t early_used;
static bool is_finding, is_ready;
static bool is_wrapped; /* the program's malloc comes first */

static bool is_early(const void *block) { return (uintptr_t)block - (uintptr_t)early < EARLY_SIZE; }

static void *take_early(size_t size) {
    void *block = early + early_used;
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded < size || rounded > EARLY_SIZE - early_used) abort();
    early_used += rounded;
    return block;
}

#ifdef __GLIBC__
static struct {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*free)(void *);
} libc;

static void find_libc(void) {
    is_wrapped = dlsym(RTLD_DEFAULT, "malloc") != (void *)malloc;
#define FIND_LIBC(name) *(void **)&libc.name = dlsym(RTLD_NEXT, "__libc_" #name)
    FIND_LIBC(malloc);
    FIND_LIBC(calloc);
    FIND_LIBC(realloc);
    FIND_LIBC(memalign);
    FIND_LIBC(valloc);
    FIND_LIBC(pvalloc);
    FIND_LIBC(free);
}
#else
static void find_libc(void) {}
#endif

/* The program is still alone: the loader calls this, or the first allocation does. */
static void find(void) {
    is_finding = true;
    find_libc();
#define FIND(name, symbol) *(void **)&next.name = dlsym(RTLD_NEXT, symbol)
    FIND(calloc, "calloc");
    FIND(realloc, "realloc");
    FIND(posix_memalign, "posix_memalign");
    FIND(aligned_alloc, "aligned_alloc");
    FIND(memalign, "memalign");
    FIND(valloc, "valloc");
    FIND(pvalloc, "pvalloc");
    FIND(free, "free");
    FIND(exit_now, "_exit");
    FIND(malloc, "malloc");
    is_finding = false;
}

__attribute__((constructor)) static void begin(void) {
    if (!next.malloc) find();
    writer_begin();
    is_ready = true;
}

__attribute__((destructor)) static void end(void) { writer_end(); }

static void record(trace_kind_t kind, const void *block, size_t size, unsigned align_log2) {
    if (!block || !is_ready || writer_is_inside()) return;
    int error = errno;
    writer_event(kind, block, size, align_log2);
    errno = error;
}

EXPORT void *malloc(size_t size) {
    if (!next.malloc) {
        if (is_finding) return take_early(size);
        find();
    }
    void *block = next.malloc(size);
    record(TRACE_MALLOC, block, size, 0);
    return block;
}

EXPORT void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (!next.malloc) {
        if (is_finding)
            return __builtin_mul_overflow(count, size, &bytes) ? NULL : take_early(bytes);
        find();
    }
    void *block = next.calloc(count, size);
    record(TRACE_CALLOC, block, count * size, 0);
    return block;
}

EXPORT void free(void *block) {
    if (!block || is_early(block)) return;
    record(TRACE_FREE, block, 0, 0);
    next.free(block);
}

static void *realloc_early(void *block, size_t size) {
    void *fresh = malloc(size);
    size_t there = (size_t)(early + early_used - (char *)block);
    return fresh ? memcpy(fresh, block, size < there ? size : there) : NULL;
}

EXPORT void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    if (is_early(block)) return realloc_early(block, size);
    record(TRACE_TAKE, block, 0, 0);
    void *moved = next.realloc(block, size);
    if (moved)
        record(TRACE_GIVE, moved, size, 0);
    else
        record(size ? TRACE_KEEP : TRACE_DROP, block, 0, 0);
    return moved;
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

/* memalign takes any number, also 0, and rounds it up to a power of two. */
static unsigned align_log2(size_t alignment) {
    unsigned log2 = alignment <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(alignment - 1);
    return log2 <= TRACE_ALIGN_MOST ? log2 : TRACE_ALIGN_MOST;
}

static void *aligned(void *block, size_t alignment, size_t size) {
    record(TRACE_ALIGNED, block, size, align_log2(alignment));
    return block;
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size) {
    if (!next.malloc) find();
    int status = next.posix_memalign(out, alignment, size);
    if (status == 0) aligned(*out, alignment, size);
    return status;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    if (!next.malloc) find();
    return aligned(next.aligned_alloc(alignment, size), alignment, size);
}

EXPORT void *memalign(size_t alignment, size_t size) {
    if (!next.malloc) find();
    return aligned(next.memalign(alignment, size), alignment, size);
}

EXPORT void *valloc(size_t size) {
    if (!next.malloc) find();
    return aligned(next.valloc(size), (size_t)sysconf(_SC_PAGESIZE), size);
}

EXPORT void *pvalloc(size_t size) {
    if (!next.malloc) find();
    return aligned(next.pvalloc(size), (size_t)sysconf(_SC_PAGESIZE), size);
}

#ifdef __GLIBC__
/* `next.malloc` is unknown only while the first call looks for it. */
#define LIBC(name, parameters, arguments)                                         \
    EXPORT void *__libc_##name parameters;                                        \
    EXPORT void *__libc_##name parameters {                                       \
        return is_wrapped || !next.malloc ? name arguments : libc.name arguments; \
    }
LIBC(malloc, (size_t size), (size))
LIBC(calloc, (size_t count, size_t size), (count, size))
LIBC(realloc, (void *block, size_t size), (block, size))
LIBC(memalign, (size_t alignment, size_t size), (alignment, size))
LIBC(valloc, (size_t size), (size))
LIBC(pvalloc, (size_t size), (size))
EXPORT void __libc_free(void *block);
EXPORT void __libc_free(void *block) {
    if (is_wrapped || is_early(block))
        free(block);
    else
        libc.free(block);
}
#endif

/* A process may end without its destructors. */
EXPORT _Noreturn void _exit(int status) {
    writer_end();
    if (!next.malloc) find();
    next.exit_now(status);
    __builtin_trap();
}

EXPORT _Noreturn void _Exit(int status) { _exit(status); }

/* C++: an allocator that brings operators of its own would pass the functions above by. Where memory
 * is short the next operator is asked, which calls the handler or throws. */
#define NEW(symbol, parameters, arguments, allocate)         \
    EXPORT void *symbol parameters;                          \
    EXPORT void *symbol parameters {                         \
        void *block = allocate;                              \
        if (block) return block;                             \
        void *(*operator_new)parameters;                     \
        *(void **)&operator_new = dlsym(RTLD_NEXT, #symbol); \
        return operator_new ? operator_new arguments : NULL; \
    }
#define DELETE(symbol, ...)                         \
    EXPORT void symbol(void *block, ##__VA_ARGS__); \
    EXPORT void symbol(void *block, ##__VA_ARGS__) { free(block); }

static void *for_new(size_t alignment, size_t size) {
    void *block = NULL;
    return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}

NEW(_Znwm, (size_t size), (size), malloc(size))
NEW(_Znam, (size_t size), (size), malloc(size))
NEW(_ZnwmRKSt9nothrow_t, (size_t size, const void *tag), (size, tag), malloc(size))
NEW(_ZnamRKSt9nothrow_t, (size_t size, const void *tag), (size, tag), malloc(size))
NEW(_ZnwmSt11align_val_t, (size_t size, size_t to), (size, to), for_new(to, size))
NEW(_ZnamSt11align_val_t, (size_t size, size_t to), (size, to), for_new(to, size))
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t to, const void *tag), (size, to, tag),
    for_new(to, size))
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t to, const void *tag), (size, to, tag),
    for_new(to, size))
/* The unnamed parameters are sizes, alignments and the tag nothrow. */
DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm, size_t size __attribute__((unused)))
DELETE(_ZdaPvm, size_t size __attribute__((unused)))
DELETE(_ZdlPvSt11align_val_t, size_t to __attribute__((unused)))
DELETE(_ZdaPvSt11align_val_t, size_t to __attribute__((unused)))
DELETE(_ZdlPvRKSt9nothrow_t, const void *tag __attribute__((unused)))
DELETE(_ZdaPvRKSt9nothrow_t, const void *tag __attribute__((unused)))
DELETE(_ZdlPvmSt11align_val_t, size_t size __attribute__((unused)),
       size_t to __attribute__((unused)))
DELETE(_ZdaPvmSt11align_val_t, size_t size __attribute__((unused)),
       size_t to __attribute__((unused)))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, size_t to __attribute__((unused)),
       const void *tag __attribute__((unused)))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, size_t to __attribute__((unused)),
       const void *tag __attribute__((unused)))
DELETE(cfree)
DELETE(free_sized, size_t size __attribute__((unused)))
DELETE(free_aligned_sized, size_t to __attribute__((unused)), size_t size __attribute__((unused)))
