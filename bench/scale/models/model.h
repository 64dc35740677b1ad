/* model.h: what the small allocators of the tests share: malloc's family over model_take and model_give,
 * and memory that is never given back. Blocks have their size in front of them. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MODEL_LINE = 64, MODEL_CHUNK = 1 << 20 };

static void *model_take(size_t size); /* a multiple of MODEL_LINE, at a multiple of it */
static void model_give(void *block);

typedef struct {
    char *next;
    size_t left;
} model_chunk_t;

static void *model_cut(model_chunk_t *chunk, size_t size) {
    if (size > chunk->left) {
        chunk->left = size > MODEL_CHUNK ? size : MODEL_CHUNK;
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
    size_t *piece = model_take((size + 2 * MODEL_LINE - 1) / MODEL_LINE * MODEL_LINE);
    piece[0] = size;
    return (char *)piece + MODEL_LINE;
}

void free(void *block) {
    if (block) model_give((char *)block - MODEL_LINE);
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
    return memset(malloc(bytes), 0, bytes);
}

void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    if (!block) return moved;
    size_t old = *(size_t *)((char *)block - MODEL_LINE);
    memcpy(moved, block, old < size ? old : size);
    free(block);
    return moved;
}

int posix_memalign(void **result, size_t align, size_t size) {
    if (align > MODEL_LINE) return ENOMEM;
    *result = malloc(size);
    return 0;
}

void *aligned_alloc(size_t align, size_t size) { return align > MODEL_LINE ? NULL : malloc(size); }
void *memalign(size_t align, size_t size);
void *memalign(size_t align, size_t size) { return aligned_alloc(align, size); }
