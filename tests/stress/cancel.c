/* cancel.c - malloc is no cancellation point. A thread with a pending pthread_cancel uses up a small
 * address space; afterwards no lock of the allocator is held.
 *
 *     cancel [MiB]
 *
 * The program sets the limit and executes itself again, as after `ulimit -v`: then the allocator starts
 * with a small region and must ask the system for each further one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

#define MIB ((size_t)1 << 20)
#define BLOCK_SIZE 200000

/* Each block holds a link to the one before: a table would need memory, too. */
struct link {
    struct link *next;
};

static atomic_bool cancelled;
static struct link *chain;
static size_t served;

static void *allocate_all(void *unused) {
    (void)unused;
    while (!atomic_load(&cancelled)) continue;
    for (struct link *block; (block = API(malloc)(BLOCK_SIZE)) != NULL; chain = block) {
        block->next = chain;
        served += BLOCK_SIZE;
    }
    return &served;
}

int main(int argc, char **argv) {
    size_t limit = argument(argc, argv, 1, 300) * MIB;
    watchdog(50, "a pending pthread_cancel");
    require_hakmem();
    if (getenv("TEST_LIMITED") == NULL) {
        setenv("TEST_LIMITED", "1", 1);
        proc_limit_address_space(limit);
        execv("/proc/self/exe", argv);
        check_failed(__FILE__, __LINE__, "exec failed");
    }
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, allocate_all, NULL) == 0, "no thread");
    CHECK(pthread_cancel(thread) == 0, "pthread_cancel failed");
    atomic_store(&cancelled, true);
    CHECK(pthread_join(thread, &result) == 0, "pthread_join failed");
    CHECK(result == &served, "a thread was cancelled inside malloc, after %zu KiB", served / 1024);
    CHECK(served > limit / 4, "only %zu KiB of a limit of %zu KiB were served", served / 1024,
          limit / 1024);
    while (chain != NULL) {
        struct link *block = chain;
        chain = block->next;
        API(free)(block);
    }
    for (size_t size = 1; size <= 4 * MIB; size *= 2) {
        void *block = API(malloc)(size);
        CHECK(block != NULL, "malloc(%zu) gave NULL after all was freed", size);
        API(free)(block);
    }
    return 0;
}
