/*
 * bump_alloc - the null allocator for whole programs, built as libbump.so: a pointer that moves on.
 *
 * Nothing is ever freed, so every program that fits into memory runs. What it costs in instructions
 * on this is the cost of everything but the allocator; its memory is no limit of anything.
 */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 16u
#define CHUNK ((size_t)64 << 20)
#define PAGE 4096u

/* A thread's stretch of memory. Each block has its size before it. */
static __thread uintptr_t next __attribute__((tls_model("initial-exec")));
static __thread uintptr_t end __attribute__((tls_model("initial-exec")));

static size_t *size_of(void *block) { return (size_t *)block - 1; }

static int more(size_t size) {
    size_t length = size > CHUNK / 2 ? size + CHUNK : CHUNK;
    void *chunk = mmap(NULL, length, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (chunk == MAP_FAILED) return 0;
    next = (uintptr_t)chunk;
    end = next + length;
    return 1;
}

void *memalign(size_t alignment, size_t size) {
    size_t align = alignment < ALIGNMENT ? ALIGNMENT : alignment;
    uintptr_t block = (next + sizeof(size_t) + align - 1) & ~(uintptr_t)(align - 1);

    if (__builtin_expect(size > PTRDIFF_MAX / 2 || align > PTRDIFF_MAX / 4, 0)) {
        errno = ENOMEM;
        return NULL;
    }
    if (__builtin_expect(block + size > end, 0)) {
        if (!more(size + align + ALIGNMENT)) {
            errno = ENOMEM;
            return NULL;
        }
        block = (next + sizeof(size_t) + align - 1) & ~(uintptr_t)(align - 1);
    }
    next = block + size;
    *size_of((void *)block) = size;
    return (void *)block;
}

void *malloc(size_t size) { return memalign(ALIGNMENT, size); }

void free(void *block) { (void)block; }

/* New memory is zero. */
void *calloc(size_t count, size_t size) {
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return malloc(bytes);
}

void *realloc(void *block, size_t size) {
    size_t old = block != NULL ? *size_of(block) : 0;
    void *moved;

    if (block != NULL && size <= old) return block;
    moved = malloc(size);
    if (block != NULL && moved != NULL) memcpy(moved, block, old);
    return moved;
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    void *block = memalign(alignment, size);

    if (block == NULL) return ENOMEM;
    *result = block;
    return 0;
}

void *valloc(size_t size) { return memalign(PAGE, size); }

size_t malloc_usable_size(void *block) { return block != NULL ? *size_of(block) : 0; }
