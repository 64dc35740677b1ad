/* clock_jumps.c - a child in another time namespace, whose clock is far ahead of its parent's or far behind, gives memory
 * back like its parent.
 *
 *     clock_jumps
 *
 * 77: time namespaces are not to be had. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { NEW_TIME = 0x80, AHEAD_S = 100 * 24 * 3600 };
enum { BLOCK_SIZE = 4000, BLOCKS = 20000, CALLS = 300, ROUNDS = 200, SKIPPED = 77 };

static char *blocks[BLOCKS];

static void make_calls(void) {
    static char *some[CALLS];
    for (unsigned i = 0; i < CALLS; i++) some[i] = API(malloc)(2000 + i * 10);
    for (unsigned i = 0; i < CALLS; i++) API(free)(some[i]);
}

static void use_memory(const char *where) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = API(malloc)(BLOCK_SIZE);
        CHECK(blocks[i] != NULL, "no block");
        memset(blocks[i], 1, BLOCK_SIZE);
    }
    const size_t full = proc_rss_kib();
    for (unsigned i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
    for (unsigned i = 0; i < ROUNDS && proc_rss_kib() > full / 4; i++) {
        proc_sleep_ms(50);
        make_calls();
    }
    CHECK(proc_rss_kib() <= full / 4, "%s: %zu of %zu KiB are resident after the frees", where,
          proc_rss_kib(), full);
}

static long now_s(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0, "no clock");
    return (long)now.tv_sec;
}

/* The children to come have their clock so far from that of the machine. */
static bool shift_clock(long seconds) {
    char text[64];
    const int length = snprintf(text, sizeof text, "monotonic %ld 0\n", seconds);
    if (unshare(NEW_TIME) != 0) return false;
    const int file = open("/proc/self/timens_offsets", O_WRONLY);
    const bool done = file >= 0 && write(file, text, (size_t)length) == length;
    if (file >= 0) close(file);
    return done;
}

static void in_child(void (*body)(void), const char *what) {
    int status;
    const pid_t pid = fork();
    if (pid == 0) {
        body();
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child %s: %#x", what,
          (unsigned)status);
}

static long before;

static void be_behind(void) {
    CHECK(now_s() < before - AHEAD_S / 2, "the clock has not gone back");
    use_memory("behind");
}

static void be_ahead(void) {
    CHECK(now_s() > before + AHEAD_S / 2, "the clock has not gone on");
    use_memory("ahead");
    before = now_s();
    CHECK(shift_clock(0), "no further namespace");
    in_child(be_behind, "behind");
}

int main(void) {
    watchdog(80, "a clock that jumps");
    require_hakmem();
    use_memory("at first");
    before = now_s();
    if (!shift_clock(AHEAD_S)) {
        printf("clock_jumps: skipped: no time namespace\n");
        return SKIPPED;
    }
    in_child(be_ahead, "ahead");
    printf("clock_jumps: done\n");
    return 0;
}
