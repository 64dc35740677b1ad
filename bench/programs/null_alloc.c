/*
 * null_alloc - the null allocator, built as libnull.so: the limit line of a comparison.
 *
 * malloc moves a pointer round a 64 KiB ring, free does nothing. Blocks overlap after
 * one round, so it serves only single-threaded synthetic loads whose contents do not
 * matter; what such a load costs on it is the cost of everything but the allocator.
 */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RING_BYTES 65536u
#define ALIGNMENT 16u

/* A block may begin anywhere in the first RING_BYTES and reach into the spare ones. */
static _Alignas(4096) char ring[2 * RING_BYTES];
static size_t position;

/* What does not fit the ring is mapped and never unmapped. */
static void *map(size_t size) {
    void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return block != MAP_FAILED ? block : NULL;
}

void *malloc(size_t size) {
    size_t at = position;

    if (__builtin_expect(size > RING_BYTES, 0)) return map(size);
    position = (at + size + ALIGNMENT - 1) & (RING_BYTES - 1) & ~(size_t)(ALIGNMENT - 1);
    return ring + at;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) {
    size_t bytes;
    void *block;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    block = malloc(bytes);
    return block != NULL && bytes <= RING_BYTES ? memset(block, 0, bytes) : block;
}

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    size_t readable = malloc_usable_size(block);

    if (block != NULL && moved != NULL) memmove(moved, block, size < readable ? size : readable);
    return moved;
}

void *memalign(size_t alignment, size_t size) {
    size_t start = (position + alignment - 1) & ~(alignment - 1);

    if (size > RING_BYTES || alignment > 4096) return map(size);
    position = start & (RING_BYTES - 1);
    return malloc(size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    *result = memalign(alignment, size);
    return *result != NULL ? 0 : ENOMEM;
}

/* Bytes that can be read from `block` on; a mapped one is taken to be one page. */
size_t malloc_usable_size(void *block) {
    uintptr_t start = (uintptr_t)ring, at = (uintptr_t)block;

    if (block == NULL) return 0;
    return at >= start && at < start + sizeof ring ? start + sizeof ring - at : 4096;
}
