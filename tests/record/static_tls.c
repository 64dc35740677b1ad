/* static_tls.c: the system's malloc under an allocator's names, in a library that needs more static TLS than dlopen
 * has left, as jemalloc's does: it can be loaded at the start of a program only. */
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static __thread volatile char cache[1 << 14] __attribute__((tls_model("initial-exec")));

void *malloc(size_t size) {
    cache[size % sizeof cache] = 1;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
