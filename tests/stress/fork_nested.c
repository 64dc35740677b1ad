/* fork_nested.c - forks in a signal handler that interrupts a fork of the same thread, with threads.
 *
 *     fork_nested handlers FORKS [PLAIN]   the signals come in fork handlers, where the allocator waits for
 *                                          other threads, or holds them up
 *     fork_nested anywhere FORKS           a timer sends them at any time
 *
 * The second shows what a libc allows, without the library: glibc holds its list of fork handlers from
 * before the fork until after it, so a fork in between hangs. In the handlers glibc 2.36 lets go of it.
 * PLAIN is the same program without the library: where that hangs in the handlers, it is libc that does. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "fork_plugin.h"
#include "load.h"

enum { THREADS = 3, CHILD_SECONDS = 20, PLAIN_SECONDS = 30, HANG_SECONDS = 10, INTERVAL_US = 300 };

static atomic_bool stop;
static unsigned long forks;
static pid_t parent;
static volatile sig_atomic_t is_in_handler, handled, returns;

static void *allocate_on(void *argument) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)argument), .most = 2000000};
    while (!atomic_load(&stop)) load_run(&load, 50);
    load_end(&load);
    return NULL;
}

static void use_memory(void) {
    struct load load = {.rng = rng_make(5), .most = 2000000};
    load_run(&load, 100);
    load_end(&load);
}

static void await_child(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    CHECK(status == 0, "a child ended with %#x", (unsigned)status);
}

/* Each second child of the handler returns from it, and goes on with the fork that was interrupted. */
static void fork_here(int unused) {
    (void)unused;
    if (is_in_handler) return;
    int saved = errno;
    is_in_handler = 1;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(CHILD_SECONDS);
        if (!returns) {
            use_memory();
            _exit(0);
        }
    } else if (pid > 0) {
        await_child(pid);
        handled++;
        returns = !returns;
    }
    is_in_handler = 0;
    errno = saved;
}

static void raise_signal(void) {
    if (getpid() == parent && !is_in_handler) raise(SIGUSR1);
}

static void *send_signals(void *main_thread) {
    while (!atomic_load(&stop)) {
        usleep(INTERVAL_US);
        pthread_kill(*(pthread_t *)main_thread, SIGUSR1);
    }
    return NULL;
}

/* Of a fork that was interrupted, or of a child of the handler, which goes on with it. */
static void end_child(pid_t pid) {
    int status = 0;
    alarm(CHILD_SECONDS);
    if (pid > 0 && waitpid(pid, &status, 0) == pid) /* the child's own */
        CHECK(status == 0, "a child's child ended with %#x", (unsigned)status);
    use_memory();
    _exit(0);
}

static void run(const void *anywhere) {
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    pthread_t threads[THREADS + 1], self = pthread_self();
    size_t count = THREADS;
    parent = getpid();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "no handler");
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_on, (void *)(i + 1)) == 0, "no thread");
    if (anywhere)
        CHECK(pthread_create(&threads[count++], NULL, send_signals, &self) == 0, "no thread");
    else
        plugin_set_extra(raise_signal);
    for (unsigned long i = 0; i < forks; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork %lu failed", i);
        if (pid == 0 || getpid() != parent) end_child(pid);
        await_child(pid);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < count; i++) pthread_join(threads[i], NULL);
    CHECK(handled > 0, "nothing was interrupted");
    printf("%lu forks, %d in handlers\n", forks, (int)handled);
}

/* True when the program without the library hangs in the handlers as well. */
static bool plain_hangs(const char *plain) {
    int status = -1;
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        alarm(PLAIN_SECONDS);
        execl(plain, plain, "handlers", "10", (char *)NULL);
        _exit(1);
    }
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    CHECK(status == 0 || WIFSIGNALED(status), "%s ended with %#x", plain, (unsigned)status);
    return status != 0;
}

int main(int argc, char **argv) {
    CHECK(argc > 2, "fork_nested handlers FORKS [PLAIN] | anywhere FORKS");
    forks = argument(argc, argv, 2, 0);
    if (strcmp(argv[1], "anywhere") == 0) {
        struct child_end end;
        child_run(run, argv, HANG_SECONDS, &end);
        CHECK(end.in_time ? end.status == 0 : true, "it ended with %#x", (unsigned)end.status);
        printf("without the library %s\n", end.in_time ? "all forks end" : "a fork hangs");
#ifdef __GLIBC__
        CHECK(!end.in_time, "glibc allows forks within forks now: try it with the library, too");
#endif
        return 0;
    }
    watchdog(100, "forks within forks");
    if (argc > 3) {
        require_hakmem();
        if (plain_hangs(argv[3])) {
            printf("this libc allows no fork in a fork's handler\n");
            return 0;
        }
    }
    run(NULL);
    return 0;
}
