/* limit.c - HAKMEM_LIMIT: NULL with ENOMEM beyond it, resident memory never above it, and all works
 * again after frees. HAKMEM_LIMIT_SOFT: free memory goes back before more is taken.
 *
 *     limit [MiB] [shrink]     `shrink`: only that blocks are resized without memory */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

static size_t limit;

/* Touched blocks of a size until NULL, chained through themselves. */
static size_t fill(void **chain, size_t size, size_t align) {
    size_t served = 0;
    for (;;) {
        errno = 0;
        void **block = align > 1 ? API(aligned_alloc)(align, size) : API(malloc)(size);
        if (block == NULL) break;
        for (size_t k = 0; k < size; k += 4096) ((char *)block)[k] = 1;
        *block = *chain;
        *chain = block;
        served += size;
        CHECK(served <= limit, "%zu bytes were served", served);
    }
    CHECK(errno == ENOMEM, "NULL with errno %d", errno);
    return served;
}

static void release(void **chain) {
    while (*chain != NULL) {
        void **block = *chain;
        *chain = *block;
        API(free)(block);
    }
}

/* Each size finds the memory that the one before it has freed. A unit of 64 KiB counts in full: two blocks of
 * 20,500 bytes, or one of 33,000. */
static void check_hard(const void *context) {
    static const size_t rows[][2] = {
        /* a size, and the percentage of the limit that is served at the least */
        {64, 70},      {3000, 70},  {32000, 70},   {33000, 45},  {300000, 70},
        {1 << 20, 70}, {20500, 55}, {5 << 20, 70}, {100000, 70}, {500, 70},
    };
    size_t base = proc_rss_kib();
    (void)context;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        void *chain = NULL;
        size_t size = rows[i % (sizeof rows / sizeof *rows)][0];
        size_t least = limit / 100 * rows[i % (sizeof rows / sizeof *rows)][1];
        size_t served = fill(&chain, size, 1), rss = proc_rss_kib();
        CHECK(served >= least, "only %zu KiB of %zu were served in blocks of %zu", served / 1024,
              limit / 1024, size);
        CHECK(rss <= base + limit / 1024 + 1024 /* of the program */,
              "%zu KiB resident with blocks of %zu", rss, size);
        release(&chain);
    }
}

/* Alignments beyond a unit, in turn with plain blocks. A block takes 68 KiB at the least, and counts
 * as the units of 64 KiB that it touches. */
static void check_aligned(const void *context) {
    static const size_t rows[][2] = {
        {4096, 128 << 10}, {300000, 1},         {300000, 1 << 20},
        {4096, 2 << 20},   {900000, 256 << 10}, {64, 1},
    };
    size_t base = proc_rss_kib();
    (void)context;
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        void *chain = NULL;
        size_t size = rows[i % (sizeof rows / sizeof *rows)][0];
        size_t align = rows[i % (sizeof rows / sizeof *rows)][1];
        size_t served = fill(&chain, size, align), rss = proc_rss_kib();
        size_t counted = size < align && size < 65536 ? served / size * 131072 : served;
        CHECK(counted >= limit / 10 * 7, "only %zu KiB of %zu in blocks of %zu at %zu",
              counted / 1024, limit / 1024, size, align);
        CHECK(rss <= base + limit / 1024 + 1024 /* of the program */,
              "%zu KiB resident with blocks of %zu at %zu", rss, size, align);
        release(&chain);
    }
}

/* A block that is to become smaller stays when there is no memory for another one, and has its new size
 * from then on. What the one before it has given back is used up first. `stays`: each of them. */
static void check_shrink(const void *stays) {
    static const size_t sizes[] = {1000, 30000, 300000, 1000000, 5 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char *blocks[COUNT];
    void *chain = NULL;
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = API(malloc)(sizes[i]);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = COUNT; i-- > 0;) fill(&chain, sizes[i], 1);
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = COUNT; k-- > 0;) fill(&chain, sizes[k] / 10, 1);
        char *shrunk = API(realloc)(blocks[i], sizes[i] / 10);
        CHECK(shrunk != NULL, "%zu bytes cannot become %zu", sizes[i], sizes[i] / 10);
        CHECK(!stays || shrunk == blocks[i], "there was memory for %zu bytes", sizes[i] / 10);
        for (size_t k = 0; k < sizes[i] / 10; k++)
            CHECK(shrunk[k] == (int)i + 1, "byte %zu of %zu has changed", k, sizes[i] / 10);
        blocks[i] = shrunk;
    }
    for (size_t i = 0; i < COUNT; i++) API(free_sized)(blocks[i], sizes[i] / 10);
    release(&chain);
}

/* A block that can neither be copied, nor grow beside what is kept of another one, grows all the same. */
static void check_grow(const void *context) {
    (void)context;
    const size_t size = limit / 8 * 3, more = limit / 8 * 7, kept = limit / 64 * 15;
    char *block = API(malloc)(size), *other = API(malloc)(kept);
    CHECK(block != NULL && other != NULL, "no memory");
    memset(block, 1, size);
    memset(other, 1, kept);
    API(free)(other);
    block = API(realloc)(block, more);
    CHECK(block != NULL, "%zu MiB cannot become %zu of %zu", size >> 20, more >> 20, limit >> 20);
    for (size_t i = 0; i < size; i++) CHECK(block[i] == 1, "byte %zu has changed", i);
    API(free)(block);
}

/* Twice three quarters of the limit in turn, in two tiers: freed memory of the one goes back for
 * the other, long before its time. */
static void check_soft(const void *context) {
    (void)context;
    size_t base = proc_rss_kib();
    static const size_t sizes[] = {300000, 5 << 20};
    for (size_t turn = 0; turn < 6; turn++) {
        size_t size = sizes[turn % 2], count = limit / 4 * 3 / size;
        void *chain = NULL;
        for (size_t i = 0; i < count; i++) {
            void **block = API(malloc)(size);
            CHECK(block != NULL, "no memory");
            memset(block, 1, size);
            *block = chain;
            chain = block;
            size_t rss = proc_rss_kib();
            CHECK(rss <= base + limit / 1024 * 5 / 4, "%zu KiB resident", rss - base);
        }
        release(&chain);
    }
}

int main(int argc, char **argv) {
    limit = argument(argc, argv, 1, 64) << 20;
    watchdog(120, "limits");
    require_hakmem();
    const char *part = getenv("TEST_LIMITS");
    if (part == NULL) {
        char text[32];
        snprintf(text, sizeof text, "%zu", limit);
        setenv("TEST_LIMITS", argc > 2 ? argv[2] : "hard", 1);
        setenv("HAKMEM_LIMIT", text, 1);
        execv("/proc/self/exe", argv);
    } else if (strcmp(part, "shrink") == 0) {
        child_must_succeed(check_shrink, "", 60, "the hard limit and realloc to less");
        child_must_succeed(check_grow, NULL, 60, "the hard limit and realloc to more");
        return 0;
    } else if (strcmp(part, "hard") == 0) {
        child_must_succeed(check_hard, NULL, 60, "the hard limit");
        child_must_succeed(check_aligned, NULL, 60, "the hard limit and alignments");
        child_must_succeed(check_shrink, NULL, 60, "the hard limit and realloc to less");
        child_must_succeed(check_grow, NULL, 60, "the hard limit and realloc to more");
        setenv("TEST_LIMITS", "soft", 1);
        setenv("HAKMEM_LIMIT_SOFT", getenv("HAKMEM_LIMIT"), 1);
        unsetenv("HAKMEM_LIMIT");
        setenv("HAKMEM_PURGE_DELAY_MS", "3600000", 1);
        execv("/proc/self/exe", argv);
    } else {
        child_must_succeed(check_soft, NULL, 60, "the soft limit");
        return 0;
    }
    check_failed(__FILE__, __LINE__, "exec failed");
}
