/* out_of_memory.c - a small address space: requests that fit succeed, the others return NULL with
 * ENOMEM, and after frees requests succeed again.
 *
 *     out_of_memory [MiB [least percent that must be served]]
 *
 * The program sets the limit and executes itself again, as after `ulimit -v`. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"
#include "rng.h"

#define MIB ((size_t)1 << 20)

static size_t limit;
static size_t least_percent;

/* Each block holds a link to the one before: a table would need memory, too. */
struct link {
    struct link *next;
};

/* Allocates until NULL; returns the bytes served and checks errno. */
static size_t allocate_all(struct link **chain, struct rng *rng, size_t least, size_t most) {
    size_t served = 0;
    for (;;) {
        size_t size = least == most ? least : rng_size(rng, least, most);
        errno = 0;
        struct link *block = API(malloc)(size);
        if (block == NULL) {
            CHECK(errno == ENOMEM, "malloc gave NULL with errno %d", errno);
            return served;
        }
        CHECK(served < 4 * limit, "more was served than the limit allows");
        block->next = *chain;
        *chain = block;
        served += size;
    }
}

/* Frees every block, or every second one. */
static void release(struct link **chain, bool all) {
    struct link *kept = NULL;
    bool turn = true;
    while (*chain != NULL) {
        struct link *block = *chain;
        *chain = block->next;
        turn = !turn;
        if (all || turn) {
            API(free)(block);
        } else {
            block->next = kept;
            kept = block;
        }
    }
    *chain = kept;
}

static const struct range {
    size_t least;
    size_t most;
} ranges[] = {{64, 64},         {1000, 1000},       {16000, 16000},
              {200000, 200000}, {4 << 20, 4 << 20}, {16, 50000}};

static void exhaust(const void *context) {
    const struct range *range = context;
    struct rng rng = rng_make(range->least);
    struct link *chain = NULL;
    size_t first = allocate_all(&chain, &rng, range->least, range->most);
    CHECK(first / least_percent >= limit / 100,
          "only %zu KiB of a limit of %zu KiB were served in blocks of %zu..%zu bytes",
          first / 1024, limit / 1024, range->least, range->most);
    errno = 0;
    CHECK(API(calloc)(limit, 1) == NULL && errno == ENOMEM, "calloc beyond the limit");
    errno = 0;
    CHECK(API(realloc)(chain, limit) == NULL && errno == ENOMEM, "realloc beyond the limit");
    release(&chain, false);
    for (int i = 0; i < 100; i++) {
        struct link *block = API(malloc)(range->least);
        CHECK(block != NULL, "malloc(%zu) fails after half was freed", range->least);
        block->next = chain;
        chain = block;
        if ((size_t)i * range->least > first / 8) break;
    }
    release(&chain, true);
    size_t again = allocate_all(&chain, &rng, range->least, range->most);
    CHECK(again >= first / 10 * 9, "%zu bytes were served at first, only %zu after all was freed",
          first, again);
    release(&chain, true);
}

int main(int argc, char **argv) {
    limit = argument(argc, argv, 1, 64) * MIB;
    least_percent = argument(argc, argv, 2, 25);
    watchdog(120, "a small address space");
    require_hakmem();
    if (getenv("TEST_LIMITED") != NULL) {
        for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
            child_must_succeed(exhaust, &ranges[i], 60, "under a small limit");
        return 0;
    }
    setenv("TEST_LIMITED", "1", 1);
    proc_limit_address_space(limit);
    execv("/proc/self/exe", argv);
    check_failed(__FILE__, __LINE__, "exec failed");
}
