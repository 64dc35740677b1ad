/* stub.h: what the small allocators of the tests share: malloc's family over stub_take and stub_give,
 * and memory that is never given back. Blocks have their size in front of them. */
#ifndef STUB_H
#define STUB_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STUB_LINE = 64, STUB_CHUNK = 1 << 20 };

static void *stub_take(size_t size); /* a multiple of STUB_LINE, at a multiple of it */
static void stub_give(void *block);

typedef struct {
    char *next;
    size_t left;
} stub_chunk_t;

static void *stub_cut(stub_chunk_t *chunk, size_t size) {
    if (size > chunk->left) {
        chunk->left = size > STUB_CHUNK ? size : STUB_CHUNK;
        chunk->next = mmap(NULL, chunk->left, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (chunk->next == MAP_FAILED) abort();
    }
    void *piece = chunk->next;
    chunk->next += size;
    chunk->left -= size;
    return piece;
}

/* Aligned to a line, so that no two blocks share one. */
void *malloc(size_t size) {
    size_t *piece = stub_take((size + 2 * STUB_LINE - 1) / STUB_LINE * STUB_LINE);
    piece[0] = size;
    return (char *)piece + STUB_LINE;
}

void free(void *block) {
    if (block) stub_give((char *)block - STUB_LINE);
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return memset(malloc(bytes), 0, bytes);
}

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (!block) return moved;
    size_t old = *(size_t *)((char *)block - STUB_LINE);
    memcpy(moved, block, old < size ? old : size);
    free(block);
    return moved;
}

int posix_memalign(void **result, size_t align, size_t size) {
    if (align > STUB_LINE) return ENOMEM;
    *result = malloc(size);
    return 0;
}

void *aligned_alloc(size_t align, size_t size) { return align > STUB_LINE ? NULL : malloc(size); }
void *memalign(size_t align, size_t size);
void *memalign(size_t align, size_t size) { return aligned_alloc(align, size); }

#endif
