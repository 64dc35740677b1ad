/* libc_names.c - glibc's malloc under the names that it has beside the standard ones, __libc_malloc and so on.
 *
 * Programs and libraries that wrap malloc call them to reach "the real one". With HAKMEM in the process that is
 * HAKMEM's: a block may come by one name and go by the other. With OWN_MALLOC the program is such a wrapper, of four
 * functions as most are; what else allocates must fit to its free. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);
void *__libc_memalign(size_t align, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
int __libc_mallopt(int parameter, int value);
struct mallinfo __libc_mallinfo(void);

enum { SIZE = 100, SOME = 600000 };

/* Blocks of another allocator end the process in malloc_usable_size. */
static void *known(void *block) {
    CHECK(block != NULL, "no block");
    CHECK(malloc_usable_size(block) >= SIZE, "%zu bytes usable", malloc_usable_size(block));
    memset(block, 1, SIZE);
    return block;
}

static void *at(void *block, size_t align) {
    CHECK((uintptr_t)block % align == 0, "%p is not at a multiple of %zu", block, align);
    return known(block);
}

#ifdef OWN_MALLOC
static unsigned calls;
void *malloc(size_t size) {
    calls++;
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
#endif

static void blocks_come_and_go_by_either_name(void) {
    free(known(__libc_malloc(SIZE)));
    free(known(__libc_calloc(10, SIZE / 10)));
    free(known(__libc_realloc(malloc(1), SIZE)));
    free(at(__libc_memalign(4096, SIZE), 4096));
    free(at(__libc_valloc(SIZE), 4096));
    free(at(__libc_pvalloc(SIZE), 4096));
    __libc_free(known(malloc(SIZE)));
    __libc_free(known(calloc(1, SIZE)));
    __libc_free(known(realloc(__libc_malloc(1), SIZE)));
    __libc_free(at(memalign(64, SIZE), 64));
    __libc_free(at(aligned_alloc(64, SIZE), 64));
    __libc_free(known(reallocarray(__libc_malloc(1), 10, SIZE / 10)));
    void *block = NULL;
    CHECK(posix_memalign(&block, 64, SIZE) == 0, "no aligned block");
    __libc_free(at(block, 64));
    __libc_free(NULL);
}

/* Those of libc know nothing of the blocks, and accept any parameter. */
static void other_functions_are_of_the_same_heap(void) {
    void *block = malloc(SOME);
    CHECK(__libc_mallinfo().uordblks >= SOME, "mallinfo misses a block");
    CHECK(__libc_mallopt(12345, 0) == 0 && __libc_mallopt(M_MMAP_MAX, 1) == 1, "mallopt");
    free(block);
}

int main(void) {
    watchdog(60, "malloc by glibc's other names");
    blocks_come_and_go_by_either_name();
    other_functions_are_of_the_same_heap();
#ifdef OWN_MALLOC
    CHECK(calls > 0, "the program's malloc is not called");
#endif
    return 0;
}
