/* broken.c - deliberately broken allocators, to show that the model and the soak detect them.
 *
 * A bump allocator that never reuses memory, preloaded like HAKMEM. Compiled with -DBREAK_... it
 * breaks one promise in every 500th call (that of malloc_trim in each). Compiled without, it is correct
 * and must be accepted. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(BREAK_OVERLAP)
#define BROKEN overlap
#elif defined(BREAK_CALLOC)
#define BROKEN unzeroed
#elif defined(BREAK_ALIGNMENT)
#define BROKEN misaligned
#elif defined(BREAK_REALLOC)
#define BROKEN short_copy
#elif defined(BREAK_USABLE)
#define BROKEN shrinking
#elif defined(BREAK_STRAY)
#define BROKEN stray_write
#elif defined(BREAK_TRIM)
#define BROKEN lossy_trim
#else
#define BROKEN nothing
#endif

enum fault {
    nothing,
    overlap,
    unzeroed,
    misaligned,
    short_copy,
    shrinking,
    stray_write,
    lossy_trim
};

#define ARENA_SIZE ((size_t)1 << 36)
#define HEADER ((size_t)16)

int hakmem_version(void);
int hakmem_stats_get(const char *name, uint64_t *value);
size_t hakmem_verify(void);
void free_sized(void *ptr, size_t size);
void free_aligned_sized(void *ptr, size_t alignment, size_t size);
void cfree(void *ptr);

static unsigned char *_Atomic arena;
static atomic_size_t used;
static atomic_uint calls;
static atomic_size_t live;

/* Is this call the one in 500 that goes wrong? */
static bool fails(enum fault fault) {
    return BROKEN == fault && atomic_fetch_add(&calls, 1) % 500 == 499;
}

static unsigned char *arena_start(void) {
    unsigned char *start = arena;
    if (start != NULL) return start;
    start = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) _exit(2);
    unsigned char *expected = NULL;
    atomic_compare_exchange_strong(&arena, &expected, start);
    return arena;
}

static size_t *size_of(void *ptr) { return (size_t *)((unsigned char *)ptr - HEADER); }

void *memalign(size_t alignment, size_t size) {
    if (alignment < HEADER) alignment = HEADER;
    size_t room = (size + 15) / 16 * 16;
    size_t start = atomic_fetch_add(&used, room + HEADER + alignment);
    uintptr_t at = (uintptr_t)arena_start() + start + HEADER;
    at = (at + alignment - 1) / alignment * alignment;
    if (fails(overlap) && at > (uintptr_t)arena + 1024)
        at -= 1024 / alignment * alignment;
    else if (fails(misaligned) && size > 8)
        at += 8;
    *size_of((void *)at) = room;
    atomic_fetch_add(&live, 1);
    return (void *)at;
}

void *malloc(size_t size) { return memalign(16, size); }

/* A free may write to the block behind the one that it frees: there is a gap of a header's size
 * (the reserve for alignment), then that one's header. */
void free(void *ptr) {
    if (ptr == NULL) return;
    atomic_fetch_sub(&live, 1);
    if (fails(stray_write)) *(void **)((unsigned char *)ptr + *size_of(ptr) + 2 * HEADER) = ptr;
}

void *calloc(size_t count, size_t size) {
    unsigned char *ptr = malloc(count * size);
    if (fails(unzeroed) && size > 0) ptr[count * size - 1] = 1;
    return ptr;
}

void *realloc(void *ptr, size_t size) {
    if (ptr == NULL) return malloc(size);
    if (size == 0) {
        free(ptr);
        return NULL;
    }
    size_t kept = *size_of(ptr) < size ? *size_of(ptr) : size;
    void *moved = malloc(size);
    if (fails(short_copy)) kept = kept / 2;
    memcpy(moved, ptr, kept);
    free(ptr);
    return moved;
}

void *reallocarray(void *ptr, size_t count, size_t size) { return realloc(ptr, count * size); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **out, size_t alignment, size_t size) {
    *out = memalign(alignment, size);
    return 0;
}

void *valloc(size_t size) { return memalign(4096, size); }

void *pvalloc(size_t size) { return memalign(4096, (size + 4095) / 4096 * 4096); }

void free_sized(void *ptr, size_t size) {
    (void)size;
    free(ptr);
}

void free_aligned_sized(void *ptr, size_t alignment, size_t size) {
    (void)alignment;
    free_sized(ptr, size);
}

void cfree(void *ptr) { free(ptr); }

size_t malloc_usable_size(void *ptr) {
    if (ptr == NULL) return 0;
    /* less than was asked for: half of 16 bytes is enough for many blocks */
    return fails(shrinking) ? *size_of(ptr) / 32 : *size_of(ptr);
}

/* A trim may take the pages of the newest blocks. */
int malloc_trim(size_t pad) {
    (void)pad;
    size_t end = used, lost = (size_t)1 << 20;
    if (BROKEN == lossy_trim && end > lost) memset(arena + end - lost, 0, lost);
    return 0;
}

struct mallinfo2 mallinfo2(void) { return (struct mallinfo2){.uordblks = live}; }

int hakmem_version(void) { return 1; }

size_t hakmem_verify(void) { return 0; }

int hakmem_stats_get(const char *name, uint64_t *value) {
    (void)name;
    *value = live;
    return 0;
}
