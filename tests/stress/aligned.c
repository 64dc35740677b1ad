/* aligned.c - blocks at large alignments lie close together: they share mappings, take no more addresses
 * than the alignment needs, and no unused page is resident; other blocks use the memory between them.
 *
 *     aligned [blocks]
 *
 * The test allocates that many blocks of 4 KiB at each alignment from 128 KiB to 2 MiB, fewer where they
 * would take more than 16 GiB of addresses. It frees them in another order and allocates them again. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "cpu.h"
#include "proc.h"
#include "rng.h"

enum {
    SIZE = 4096,
    LEAST = 128 * 1024,
    MOST = 2 * 1024 * 1024,
    USED_EVERY = 16, /* block that is written to */
    MAPPINGS = 100,  /* the most that may come with all blocks */
    RECORDS_KIB = 2, /* for each MiB of addresses: 16 descriptors of 64 bytes, and the rest */
};

static size_t most;

/* A line of the table of mappings for each. */
static size_t mappings(void) {
    char text[4096];
    size_t lines = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    CHECK(file != NULL, "no table of mappings");
    while (fgets(text, sizeof text, file) != NULL) lines++;
    fclose(file);
    return lines;
}

static void *table_of(size_t count, size_t size) {
    void *table =
        mmap(NULL, count * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED, "no table");
    return table;
}

static int by_address(const void *left, const void *right) {
    uintptr_t a = *(const uintptr_t *)left, b = *(const uintptr_t *)right;
    return (a > b) - (a < b);
}

/* Bytes of the windows of 2 MiB that the blocks lie in. */
static size_t address_space(char *const *blocks, size_t count) {
    uintptr_t *sorted = table_of(count, sizeof *sorted);
    size_t windows = 0;
    for (size_t i = 0; i < count; i++) sorted[i] = (uintptr_t)blocks[i];
    qsort(sorted, count, sizeof *sorted, by_address);
    for (size_t i = 0; i < count; i++) {
        CHECK(i == 0 || sorted[i] - sorted[i - 1] >= SIZE, "two blocks overlap at %#zx", sorted[i]);
        windows += i == 0 || sorted[i] / MOST != sorted[i - 1] / MOST;
    }
    munmap(sorted, count * sizeof *sorted);
    return windows * MOST;
}

static void allocate(char **blocks, size_t count, size_t align) {
    for (size_t i = 0; i < count; i++) {
        void *block = NULL;
        int error = API(posix_memalign)(&block, align, SIZE);
        CHECK(error == 0, "block %zu of %zu at %zu: error %d", i, count, align, error);
        CHECK((uintptr_t)block % align == 0, "%p is no multiple of %zu", block, align);
        CHECK(API(malloc_usable_size)(block) >= SIZE, "too small");
        blocks[i] = block;
    }
}

static void use(char **blocks, size_t count) {
    for (size_t i = 0; i < count; i += USED_EVERY) memset(blocks[i], (int)(i % 251), SIZE);
}

static void check_use(char **blocks, size_t count) {
    for (size_t i = 0; i < count; i += USED_EVERY)
        for (size_t k = 0; k < SIZE; k++)
            CHECK((unsigned char)blocks[i][k] == i % 251, "a block has changed");
}

static void release(char **blocks, size_t count) {
    struct rng rng = rng_make(count);
    for (size_t i = count; i > 0; i--) {
        size_t chosen = rng_below(&rng, i);
        API(free)(blocks[chosen]);
        blocks[chosen] = blocks[i - 1];
    }
}

/* Blocks as long as the memory between two aligned ones: they lie there. */
static void fill_gaps(char *const *blocks, size_t count, size_t align) {
    size_t gap = align - (size_t)17 * 4096, more = count - count / 8;
    if (gap <= 64 * 1024) return; /* too short for a large block */
    char **all = table_of(count + more, sizeof *all);
    memcpy(all, blocks, count * sizeof *all);
    for (size_t i = 0; i < more; i++) {
        all[count + i] = API(malloc)(gap < MOST / 2 ? gap : MOST / 2);
        CHECK(all[count + i] != NULL, "no memory");
    }
    size_t used = address_space(all, count + more);
    CHECK(used <= count * align / 10 * 11, "%zu MiB of addresses with full gaps at %zu", used >> 20,
          align);
    release(all + count, more);
    munmap(all, (count + more) * sizeof *all);
}

static void check_alignment(const void *context) {
    const size_t align = *(const size_t *)context;
    size_t count = most, limit = (size_t)16 << 30;
    if (count > limit / align) count = limit / align;
    char **blocks = table_of(count, sizeof *blocks);
    stay_on_cpu(0); /* another has a heap of its own, which does not fill these gaps */
    size_t lines = mappings(), kib = proc_rss_kib();
    for (unsigned turn = 0; turn < 2; turn++) {
        allocate(blocks, count, align);
        size_t used = address_space(blocks, count);
        CHECK(used <= count * align / 10 * 11, "%zu MiB of addresses for %zu blocks at %zu",
              used >> 20, count, align);
        use(blocks, count);
        size_t now = proc_rss_kib(),
               least = (turn + 1) * count / USED_EVERY * SIZE / 1024 + (used >> 20) * RECORDS_KIB;
        CHECK(now <= kib + least + 8192, "%zu KiB more are resident, not %zu", now - kib, least);
        CHECK(mappings() <= lines + MAPPINGS, "%zu mappings more", mappings() - lines);
        if (turn == 0) fill_gaps(blocks, count, align);
        check_use(blocks, count);
        release(blocks, count);
        CHECK(mappings() <= lines + MAPPINGS, "%zu mappings more", mappings() - lines);
    }
}

int main(int argc, char **argv) {
    watchdog(110, "aligned");
    require_hakmem();
    most = argument(argc, argv, 1, 100000);
    for (size_t align = LEAST; align <= MOST; align *= 2)
        child_must_succeed(check_alignment, &align, 100, "an alignment");
    puts("ok");
    return 0;
}
