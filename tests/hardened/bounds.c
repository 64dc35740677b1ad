/* bounds.c - under HAKMEM_PROFILE=HARDENED: what hakmem_bounds answers, and that hakmem_verify counts
 * each damaged canary once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"

#define MIB ((size_t)1 << 20)

static int (*bounds)(const void *, void **, void **);
static size_t (*verify)(void);

/* None is a multiple of a page: behind such a block is a guard, and no room for a canary. */
static const size_t sizes[] = {1,     15,    16,     100,    777,     1024,       2049,
                               30000, 65535, 100000, 500000, MIB + 1, 4 * MIB + 5};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_block(char *block, size_t size) {
    const size_t offsets[] = {0, size / 2, size - 1};
    for (unsigned i = 0; i < 3; i++) {
        void *start = NULL, *end = NULL;
        CHECK(bounds(block + offsets[i], &start, &end) == 1, "%zu in %zu bytes", offsets[i], size);
        CHECK(start == block && (char *)end == block + size, "%zu bytes are from %p to %p", size,
              start, end);
    }
}

static void test_blocks(void) {
    for (unsigned i = 0; i < SIZES; i++) {
        char *block = API(malloc)(sizes[i]);
        check_block(block, sizes[i]);
        size_t more = sizes[i] + sizes[i] / 8 + 1;
        block = API(realloc)(block, more);
        check_block(block, more);
        API(free)(block);
        block = API(memalign)(256, sizes[i]);
        check_block(block, sizes[i]);
        API(free)(block);
    }
}

/* Memory of nobody, of the program, and of a block that is free by now. */
static void test_others(void) {
    void *start, *end;
    int local;
    char *block = API(malloc)(100);
    CHECK(bounds(NULL, &start, &end) == 0, "NULL is in a block");
    CHECK(bounds(&local, &start, &end) == 0, "the stack is in a block");
    API(free)(block);
    CHECK(bounds(block, &start, &end) == -1, "a free block has bounds");
    block = API(malloc)(0);
    CHECK(bounds(block, &start, &end) == 1 && start == block && end == block,
          "a block of 0 bytes is from %p to %p, not %p", start, end, (void *)block);
    API(free)(block);
}

/* All that lies beside two blocks in their unit: free blocks, and those that no call has returned yet. */
static void test_never_given(void) {
    enum { UNIT = 65536, STEP = 16, ENOUGH = 20000 };
    for (unsigned i = 0; i < SIZES && sizes[i] < ENOUGH; i++) {
        char *blocks[] = {API(malloc)(sizes[i]), API(malloc)(sizes[i])};
        const uintptr_t unit = (uintptr_t)blocks[0] & ~(uintptr_t)(UNIT - 1);
        for (uintptr_t at = unit; at < unit + UNIT; at += STEP) {
            void *start = blocks[0], *end;
            if (bounds((void *)at, &start, &end) == 1)
                CHECK(start == blocks[0] || start == blocks[1],
                      "%p, which is free, is a block of %zu bytes beside one of %zu", start,
                      (size_t)((char *)end - (char *)start), sizes[i]);
        }
        API(free)(blocks[0]);
        API(free)(blocks[1]);
    }
}

/* A byte behind each block is changed, and changed back. */
static void test_canaries(void) {
    char *blocks[SIZES];
    size_t damaged = 0;
    CHECK(verify() == 0, "the heap is unsound");
    for (unsigned i = 0; i < SIZES; i++) blocks[i] = API(malloc)(sizes[i]);
    for (unsigned i = 0; i < SIZES; i++) {
        blocks[i][sizes[i]] ^= 1;
        CHECK(verify() == ++damaged, "%zu canaries are damaged, the last of %zu bytes", damaged,
              sizes[i]);
    }
    for (unsigned i = 0; i < SIZES; i++) {
        blocks[i][sizes[i]] ^= 1;
        CHECK(verify() == --damaged, "%zu canaries are damaged, not that of %zu bytes", damaged,
              sizes[i]);
        API(free)(blocks[i]);
    }
}

int main(void) {
    watchdog(50, "bounds and canaries");
    require_hakmem();
    bounds = (int (*)(const void *, void **, void **))dlsym(RTLD_DEFAULT, "hakmem_bounds");
    verify = (size_t(*)(void))dlsym(RTLD_DEFAULT, "hakmem_verify");
    CHECK(bounds && verify, "there is no hakmem_bounds or hakmem_verify");
    test_blocks();
    test_others();
    test_never_given();
    test_canaries();
    return 0;
}
