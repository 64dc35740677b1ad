/* forks.c - forks while other threads are in the middle of calls.
 *
 * The child may use what belongs to its own thread: the table and the foreign mappings of its place. */
#define _GNU_SOURCE
#include "forks.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ops.h"

#define CHILD_SECONDS 120

#if defined(__SANITIZE_THREAD__)
/* A child of a fork may start a thread: the allocator's helper. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

static void use_inherited(struct worker *worker, enum tier tier) {
    for (unsigned i = 0; i < worker_slot_count(tier); i++) {
        struct block *block = &worker->place->slots[tier][i];
        if (block->content.ptr == NULL) continue;
        size_t dice = rng_below(&worker->rng, 8);
        if (dice == 0)
            op_resize(worker, block, tier);
        else if (dice < 3)
            op_free(worker, block);
        else if (dice < 4)
            block_check_here(block, worker->life, "in a fork's child");
    }
}

static _Noreturn void child(struct worker *worker) {
    static const enum call plain[] = {MALLOC, CALLOC, POSIX_MEMALIGN, ALIGNED_ALLOC};
    static const enum call mixed[] = {MALLOC, HEAP_CALLOC, HEAP_MALLOC, ALIGNED_ALLOC};
    const enum call *calls = settings.is_plain ? plain : mixed;
    watchdog(CHILD_SECONDS, "the child of a fork");
    worker->is_child = true;
    for (enum tier tier = TINY; tier < TIER_COUNT; tier++) {
        struct block made[8] = {0};
        for (unsigned i = 0; i < 8; i++) op_make(worker, &made[i], calls[i % 4], tier);
        use_inherited(worker, tier);
        for (unsigned i = 0; i < 8; i++)
            if (made[i].content.ptr != NULL) op_free(worker, &made[i]);
        op_housekeeping(worker);
    }
    heaps_end(worker);
    foreign_check(&worker->place->foreign);
    _exit(0);
}

void fork_step(struct worker *worker) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0, "fork failed with errno %d", errno);
    if (pid == 0) child(worker);
    while (waitpid(pid, &status, 0) < 0) CHECK(errno == EINTR, "waitpid failed");
    CHECK(status == 0, "the child of a fork ended with status %#x", (unsigned)status);
    tally_event(&worker->place->tally, FORKS);
}
