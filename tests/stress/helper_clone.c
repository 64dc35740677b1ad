/* helper_clone.c - the child of a clone without fork handlers has no helper thread, although its parent has: it gives
 * memory back all the same.
 *
 *     HAKMEM_PURGE_THREAD=2 helper_clone */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
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

int main(void) {
    int status;
    watchdog(80, "a child of clone");
    require_hakmem();
    fill();
    empty();
    for (unsigned i = 0; i < 100 && proc_status_kib("Threads") < 2; i++) {
        proc_sleep_ms(10);
        make_calls();
    }
    CHECK(proc_status_kib("Threads") == 2, "no helper");
    const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        use_memory();
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child: %#x",
          (unsigned)status);
    return 0;
}
