/* pieces.c - no call purges more than a bounded amount.
 *
 *     pieces [MiB]
 *
 * The test allocates so many MiB in blocks of 64 to 2,048 bytes and frees all but each 64th. Then,
 * without the helper thread, it allocates and frees large, small and huge blocks for a while and reads
 * from the statistics what each call gives back: at most 1 MiB, in agreement with the figure of the
 * largest piece. In the end much of the heap must have gone back. In the second part a thread runs, so
 * the helper runs, too: then calls give nothing back, and the helper does it.
 *
 * What stays allocated keeps its contents. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "child.h"
#include "figures.h"
#include "load.h"
#include "proc.h"
#include "rng.h"

enum {
    LEAST = 64,
    MOST = 2048,
    KEEP_EVERY = 64,
    STEPS = 120,
    STEP_MS = 25,
    CALLS = 60,
    MIB = 1 << 20,
    LOOKS_MOST = 64,
    HUGE_EVERY = 10,
    HUGE = 3 * MIB,
};

static size_t bytes;

static struct block {
    unsigned char *start;
    size_t size;
} *kept;
static size_t kept_count;

static void *map(size_t size) {
    void *table = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(table != MAP_FAILED, "no table");
    return table;
}

static void make_sparse(void) {
    struct rng rng = rng_make(64);
    size_t most = bytes / LEAST, count = 0;
    unsigned char **blocks = map(most * sizeof *blocks);
    kept = map(most / KEEP_EVERY * sizeof *kept);
    for (size_t made = 0; made < bytes; count++) {
        size_t size = rng_size(&rng, LEAST, MOST);
        blocks[count] = API(malloc)(size);
        CHECK(blocks[count] != NULL, "no memory");
        memset(blocks[count], (int)(count / KEEP_EVERY) & 0xff, size);
        if (count % KEEP_EVERY == 0) kept[kept_count++] = (struct block){blocks[count], size};
        made += size;
    }
    for (size_t i = 0; i < count; i++)
        if (i % KEEP_EVERY) API(free)(blocks[i]);
    munmap(blocks, most * sizeof *blocks);
}

static void check_kept(void) {
    for (size_t i = 0; i < kept_count; i++)
        for (size_t k = 0; k < kept[i].size; k++)
            CHECK(kept[i].start[k] == (i & 0xff), "a block has changed");
}

/* All that was given back so far; large heaps do not count bytes, but free memory with pages. */
static uint64_t given(void) {
    return figure("memory.sparse_purged") + figure("pool.purged_units") * 65536;
}

static bool by_calls;

/* What the helper gives back meanwhile is not the call's. */
static void check_call(uint64_t before, size_t freed, const char *call) {
    uint64_t now = given() - before;
    CHECK(!by_calls || now <= MIB + freed, "%s gave %llu KiB back", call,
          (unsigned long long)now / 1024);
}

static void work(size_t step) {
    void *blocks[CALLS];
    for (size_t i = 0; i < CALLS; i++) {
        uint64_t before = given();
        blocks[i] = API(malloc)(i % 3 == 0 ? 100000 : 5000 + 500 * i);
        check_call(before, 0, "malloc");
    }
    for (size_t i = 0; i < CALLS; i++) {
        uint64_t before = given();
        size_t size = API(malloc_usable_size)(blocks[i]);
        API(free)(blocks[i]);
        check_call(before, size, "free");
    }
    if (step % HUGE_EVERY == 0) API(free)(API(realloc)(API(malloc)(HUGE), 2 * HUGE));
}

static void check_figures(void) {
    CHECK(!by_calls || figure("memory.call_pieces") > 0, "calls did nothing");
    CHECK(figure("memory.call_looks_most") <= LOOKS_MOST, "a call looked at %llu slabs",
          (unsigned long long)figure("memory.call_looks_most"));
    CHECK(figure("memory.call_bytes_most") <= MIB, "a call gave %llu bytes back",
          (unsigned long long)figure("memory.call_bytes_most"));
}

static void run(void) {
    make_sparse();
    uint64_t before = given(), pieces = figure("memory.call_pieces");
    for (size_t step = 0; step < STEPS; step++) {
        work(step);
        proc_sleep_ms(STEP_MS);
    }
    /* On a loaded machine the helper comes later. */
    for (int i = 0; !by_calls && i < 600 && given() - before <= bytes / 16; i++) proc_sleep_ms(100);
    check_figures();
    CHECK(by_calls || figure("memory.call_pieces") == pieces,
          "the helper is there, and calls work");
    CHECK(given() - before > bytes / 16, "only %llu KiB went back",
          (unsigned long long)(given() - before) / 1024);
    check_kept();
}

static void *stay(void *unused) {
    API(free)(API(malloc)(100));
    for (;;) pause();
    return unused;
}

/* The option counts from the start of a program on. */
static void start(const void *with_calls) {
    char size[32];
    snprintf(size, sizeof size, "%zu", bytes >> 20);
    if (with_calls) setenv("HAKMEM_PURGE_THREAD", "0", 1);
    execl("/proc/self/exe", "pieces", size, with_calls ? "calls" : "helper", (char *)NULL);
    check_failed(__FILE__, __LINE__, "exec failed");
}

int main(int argc, char **argv) {
    bytes = argument(argc, argv, 1, 256) << 20;
    watchdog(300, "pieces");
    require_hakmem();
    if (argc > 2) {
        pthread_t thread;
        by_calls = strcmp(argv[2], "calls") == 0;
        CHECK(by_calls || pthread_create(&thread, NULL, stay, NULL) == 0, "no thread");
        run();
        return 0;
    }
    child_must_succeed(start, &bytes, 140, "by calls");
    child_must_succeed(start, NULL, 140, "by the helper");
    return 0;
}
