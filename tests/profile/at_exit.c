/* at_exit.c - what happens while a heap profile is being written: the process ends, or another one falls due; it is
 * written all the same.
 *
 *     test_profile_at_exit thread    another thread writes
 *     test_profile_at_exit handler   a handler that interrupted the writer ends the process
 *     test_profile_at_exit child     the same in a child that the handler forks
 *     test_profile_at_exit growth    another thread writes, and the peak grows by 8 MB
 *     test_profile_at_exit signal    the same, and then SIGUSR2 asks for a profile
 *
 * The profile that is being written goes to a pipe that is full, so it takes a second. HAKMEM_PROF is 1.
 * profile.py looks at the profile of the end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "figures.h"

static int (*dump)(const char *);
static char full_pipe[32];
static pthread_t main_thread;
static volatile sig_atomic_t forks;
static atomic_bool has_written;

static void fill_a_pipe(void) {
    static const char bytes[4096];
    int ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0, "no pipe");
    while (write(ends[1], bytes, sizeof bytes) > 0) continue;
    snprintf(full_pipe, sizeof full_pipe, "/proc/self/fd/%d", ends[1]);
}

static void *dump_to_pipe(void *unused) {
    while (dump(full_pipe) == EBUSY) continue; /* the other thread looks */
    atomic_store(&has_written, true);
    return unused;
}

static void wait_for_the_writer(void) {
    while (dump("/dev/null") != EBUSY && !atomic_load(&has_written)) sched_yield();
}

static void end_process(int number) {
    (void)number;
    pid_t child = forks ? fork() : 0;
    if (child == 0) exit(0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ends with %#x",
          (unsigned)status);
    _exit(0);
}

static void *interrupt_the_writer(void *unused) {
    wait_for_the_writer();
    pthread_kill(main_thread, SIGUSR1);
    return unused;
}

static void grow(pthread_t writer, bool signals) {
    for (int i = 0; i < 4; i++) CHECK(API(malloc)(2000000) != NULL, "no memory");
    if (signals) raise(SIGUSR2);
    pthread_join(writer, NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    pthread_t thread;
    dump = LIBRARY(hakmem_prof_dump);
    CHECK(dump != NULL, "there is no hakmem_prof_dump");
    CHECK(API(malloc)(100000) != NULL, "no memory");
    fill_a_pipe();
    forks = strcmp(what, "child") == 0;
    main_thread = pthread_self();
    bool signals = strcmp(what, "signal") == 0, grows = signals || strcmp(what, "growth") == 0;
    bool other = grows || strcmp(what, "thread") == 0;
    CHECK(signal(SIGUSR1, end_process) != SIG_ERR, "no handler");
    CHECK(pthread_create(&thread, NULL, other ? dump_to_pipe : interrupt_the_writer, NULL) == 0,
          "no thread");
    if (other) {
        wait_for_the_writer();
        if (grows) grow(thread, signals);
        exit(0);
    }
    for (;;) dump(full_pipe);
}
