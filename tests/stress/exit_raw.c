/* exit_raw.c - a process whose threads all end by the system call itself ends, although it has a helper thread.
 *
 *     HAKMEM_PURGE_THREAD=2 exit_raw */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { BLOCK_SIZE = 4000, BLOCKS = 15000, CALLS = 300, STATUS = 3, WAIT_S = 30 };

static void end_thread(void) { syscall(SYS_exit, STATUS); }

static void make_calls(void) {
    static char *some[CALLS];
    for (unsigned i = 0; i < CALLS; i++) some[i] = API(malloc)(2000 + i * 10);
    for (unsigned i = 0; i < CALLS; i++) API(free)(some[i]);
}

static void get_helper(unsigned threads) {
    static char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = API(malloc)(BLOCK_SIZE);
        CHECK(blocks[i] != NULL, "malloc(%d) gave NULL", BLOCK_SIZE);
        memset(blocks[i], 1, BLOCK_SIZE);
    }
    for (unsigned i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
    for (unsigned i = 0; i < 100 && proc_status_kib("Threads") <= threads; i++) {
        proc_sleep_ms(10);
        make_calls();
    }
    CHECK(proc_status_kib("Threads") == threads + 1, "no helper");
}

static void *work(void *unused) {
    make_calls();
    proc_sleep_ms(1500); /* the helper sleeps, and the first thread has ended */
    end_thread();
    return unused;
}

static void end_all(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL) == 0, "no thread");
    get_helper(2);
    end_thread();
}

int main(void) {
    int status = 0;
    pid_t ended = 0;
    watchdog(80, "threads that end by themselves");
    require_hakmem();
    const pid_t pid = fork();
    if (pid == 0) end_all();
    CHECK(pid > 0, "no child");
    for (unsigned i = 0; i < WAIT_S * PATIENCE * 10 && ended == 0; i++) {
        proc_sleep_ms(100);
        ended = waitpid(pid, &status, WNOHANG);
    }
    CHECK(ended == pid, "the helper keeps the process alive");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS, "status %#x", (unsigned)status);
    return 0;
}
