/* fork_page.c - a child of fork keeps no live page that was just being made: it would have the file for ever, since
 * nothing in it names the descriptor.
 *
 * The engine's system calls come through syscall(), which this program replaces: when the file of the page is
 * there, and before the engine can note it, another thread forks, or the thread itself, as in a signal handler.
 *
 *     HAKMEM_LIVE=1 HAKMEM_PURGE_THREAD=0 fork_page */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "kernel_call.h"
#include "proc.h"

enum { FILES = 4096, CALLS = 3000, FORK_MS = 300, PAGES = 1 };

enum { NOT_YET, ARMED, MADE, FORKED };
static atomic_int state;
static bool forks_itself;
static pid_t forked = -1; /* by the thread itself: 0 in the child */

/* Lets the other thread fork behind the call that gives the page its memory. A fork that waits for this thread
 * cannot come first, so the wait has an end. */
long syscall(long number, ...) {
    long words[6];
    va_list more;
    va_start(more, number);
    for (unsigned i = 0; i < 6; i++) words[i] = va_arg(more, long);
    va_end(more);
    const long result = kernel_call(number, words);
    int armed = ARMED;
    if (number != SYS_fallocate || !atomic_compare_exchange_strong(&state, &armed, MADE))
        return result;
    if (forks_itself) forked = fork();
    for (unsigned ms = 0; !forks_itself && ms < FORK_MS && atomic_load(&state) != FORKED; ms++)
        proc_sleep_ms(1);
    return result;
}

/* Live pages among the open files. Allocates nothing. */
static int count_pages(void) {
    char path[64], target[64];
    int count = 0;
    for (int file = 0; file < FILES; file++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        const ssize_t length = readlink(path, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        count += strstr(target, "hakmem-live") != NULL;
    }
    return count;
}

static void *fork_when_made(void *found) {
    int status;
    while (atomic_load(&state) != MADE) proc_sleep_ms(1);
    const pid_t pid = fork();
    if (pid == 0) _exit(count_pages());
    atomic_store(&state, FORKED);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child ended");
    *(int *)found = WEXITSTATUS(status);
    return NULL;
}

/* Until the page is made; a child of fork makes its page when it is busy. */
static void work(void) {
    atomic_store(&state, ARMED);
    for (unsigned i = 0; i < CALLS && atomic_load(&state) == ARMED; i++) {
        void *volatile block = API(malloc)(200000);
        API(free)(block);
        proc_sleep_ms(1);
    }
    CHECK(atomic_load(&state) != ARMED, "no live page was made");
}

static void make_page_and_fork(const void *unused) {
    int status;
    (void)unused;
    forks_itself = true;
    work();
    if (forked == 0) {
        forks_itself = false;
        proc_sleep_ms(FORK_MS);
        work(); /* its own page */
    }
    CHECK(count_pages() == PAGES, "%d live pages", count_pages());
    if (forked == 0) _exit(0);
    CHECK(waitpid(forked, &status, 0) == forked && status == 0, "the child: %#x", (unsigned)status);
}

static void make_page(const void *unused) {
    pthread_t forker;
    int found = -1;
    (void)unused;
    CHECK(pthread_create(&forker, NULL, fork_when_made, &found) == 0, "no thread");
    work();
    pthread_join(forker, NULL);
    CHECK(found == 0, "the child of a fork has %d files of live pages that are not its own", found);
    CHECK(count_pages() == PAGES, "%d live pages", count_pages());
}

static void *end_at_once(void *unused) { return unused; }

int main(void) {
    pthread_t thread;
    watchdog(60, "fork_page");
    require_hakmem();
    /* libc keeps its stack: the child's first thread needs no memory, which would be a reason to make the page. */
    CHECK(pthread_create(&thread, NULL, end_at_once, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(count_pages() == PAGES, "%d live pages at the start", count_pages());
    child_must_succeed(make_page, NULL, 30, "the process of which another thread forks");
    child_must_succeed(make_page_and_fork, NULL, 30, "the process whose handler forks");
    return 0;
}
