/*
 * leak_alloc - glibc's allocator, but one freed block of sixteen is never given back.
 *
 * Built as libleak.so. A comparison that does not report it bigger is not to be believed:
 * the lab's own tests run it. It stops at a bound, so that no machine runs out of memory.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

#define LEAK_EVERY 16
#define LEAK_BYTES ((size_t)128 << 20)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

static atomic_size_t freed, leaked;

void *malloc(size_t size) { return __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }

void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }

void free(void *block) {
    size_t number = atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed);

    if (block != NULL && number % LEAK_EVERY == 0 &&
        atomic_load_explicit(&leaked, memory_order_relaxed) < LEAK_BYTES) {
        atomic_fetch_add_explicit(&leaked, malloc_usable_size(block), memory_order_relaxed);
        return;
    }
    __libc_free(block);
}
