/* helper_clone.c - the child of a clone without fork handlers has no helper thread, although its parent has: it gives
 * memory back all the same, and can fork.
 *
 *     HAKMEM_PURGE_THREAD=2 HAKMEM_PURGE_DELAY_MS=50 helper_clone rest|round
 *
 *   rest    the helper rests when its process is cloned
 *   round   it is in the midst of a round: its call of madvise waits for the clone */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { BLOCK_SIZE = 4000, BLOCKS = 25000, CALLS = 500, ROUNDS = 200 };

static char *blocks[BLOCKS];

static void fill(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = API(malloc)(BLOCK_SIZE);
        CHECK(blocks[i] != NULL, "malloc(%d) gave NULL", BLOCK_SIZE);
        memset(blocks[i], 1, BLOCK_SIZE);
    }
}

static void empty(void) {
    for (unsigned i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
}

static void make_calls(void) {
    static char *some[CALLS];
    for (unsigned i = 0; i < CALLS; i++) some[i] = API(malloc)(2000 + i * 10);
    for (unsigned i = 0; i < CALLS; i++) API(free)(some[i]);
}

static pid_t first;
static atomic_bool holds, is_held;

/* In place of libc's: the helper's call waits, without a lock and in the midst of its round. */
int madvise(void *start, size_t size, int advice) {
    const bool is_helper = getpid() == first && (pid_t)syscall(SYS_gettid) != first;
    if (advice == MADV_DONTNEED && is_helper && atomic_load(&holds)) {
        atomic_store(&is_held, true);
        while (atomic_load(&holds)) proc_sleep_ms(1);
    }
    return (int)syscall(SYS_madvise, start, size, advice);
}

static void wait_for_round(void) {
    fill();
    atomic_store(&holds, true);
    empty();
    for (unsigned i = 0; i < 1000 && !atomic_load(&is_held); i++) {
        proc_sleep_ms(5);
        make_calls();
    }
    CHECK(atomic_load(&is_held), "the helper gives nothing back");
}

/* The fork would wait for the helper, if it was still inside. */
static void fork_once(void) {
    int status;
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a child of the child");
}

static void use_memory(void) {
    fill();
    const size_t full = proc_rss_kib();
    empty();
    for (unsigned i = 0; i < ROUNDS && proc_rss_kib() > full / 4; i++) {
        proc_sleep_ms(50);
        make_calls();
    }
    CHECK(proc_rss_kib() <= full / 4, "%zu of %zu KiB are resident after the frees", proc_rss_kib(),
          full);
}

int main(int argc, char **argv) {
    int status;
    CHECK(argc > 1, "usage: helper_clone rest|round");
    first = getpid();
    watchdog(80, "a child of clone");
    require_hakmem();
    fill();
    empty();
    for (unsigned i = 0; i < 100 && proc_status_kib("Threads") < 2; i++) {
        proc_sleep_ms(10);
        make_calls();
    }
    CHECK(proc_status_kib("Threads") == 2, "no helper");
    if (strcmp(argv[1], "round") == 0) wait_for_round();
    const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        alarm(60 * PATIENCE);
        fork_once();
        use_memory();
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child: %#x",
          (unsigned)status);
    atomic_store(&holds, false);
    return 0;
}
