/* fork_nested.c - forks in a signal handler that interrupts a fork of the same thread, with threads.
 *
 *     fork_nested handlers FORKS [PLAIN]   the signals come in fork handlers, where the allocator waits for
 *                                          other threads, or holds them up
 *     fork_nested within                   the signal comes at the system call of a fork
 *
 * The second shows what a libc allows, without the library: glibc holds its list of fork handlers from
 * before the fork until after it, so a fork in between hangs. In the handlers glibc 2.36 lets go of it.
 * PLAIN is the same program without the library: where that hangs in the handlers, it is libc that does. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter.h"
#include "fork_plugin.h"
#include "load.h"

enum { THREADS = 3, CHILD_SECONDS = 20, PLAIN_SECONDS = 30, CALL_CLONE3 = 435, LOOKS = 20 };

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
        alarm(CHILD_SECONDS * PATIENCE);
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

/* Of a fork that was interrupted, or of a child of the handler, which goes on with it. */
static void end_child(pid_t pid) {
    int status = 0;
    alarm(CHILD_SECONDS * PATIENCE);
    if (pid > 0 && waitpid(pid, &status, 0) == pid) /* the child's own */
        CHECK(status == 0, "a child's child ended with %#x", (unsigned)status);
    use_memory();
    _exit(0);
}

static void run(void) {
    struct sigaction action = {.sa_handler = fork_here, .sa_flags = SA_RESTART};
    pthread_t threads[THREADS];
    parent = getpid();
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0, "no handler");
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_on, (void *)(i + 1)) == 0, "no thread");
    plugin_set_extra(raise_signal);
    for (unsigned long i = 0; i < forks; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "fork %lu failed", i);
        if (pid == 0 || getpid() != parent) end_child(pid);
        await_child(pid);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
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

/* ---- Within the fork, without the library ------------------------------------------------------- */

/* SIGSYS is blocked in its handler: a fork that gets as far as its system call ends the process. */
static void fork_within(int unused) {
    (void)unused;
    fork();
    _exit(0);
}

static void *sleep_on(void *unused) {
    for (;;) pause();
    return unused;
}

/* The system call of a fork raises SIGSYS in place of making a process. glibc locks for a fork where
 * there is a second thread. */
static void fork_with_trap(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, sleep_on, NULL) == 0, "no thread");
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL_CLONE3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sigaction action = {.sa_handler = fork_within};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0, "no handler");
    filter_install(steps, sizeof steps / sizeof *steps);
    fork();
    _exit(1); /* the signal did not come */
}

/* True while the first thread of the process waits for a lock. */
static bool waits_for_lock(pid_t pid) {
    char path[64];
    long number = -1;
    snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    if (fscanf(file, "%ld", &number) != 1) number = -1;
    fclose(file);
    return number == SYS_futex;
}

/* The other thread takes no lock, so nobody will open this one. */
static int within(void) {
    int status = 0;
    unsigned looks = 0; /* in a row at which it waits */
    watchdog(50, "a fork within a fork");
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) fork_with_trap();
    while (looks < LOOKS && waitpid(pid, &status, WNOHANG) == 0) {
        looks = waits_for_lock(pid) ? looks + 1 : 0;
        usleep(1000);
    }
    bool hangs = looks == LOOKS;
    if (hangs) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        printf("a fork within a fork hangs in this libc\n");
    } else {
        printf("a fork within a fork ends with %#x in this libc\n", (unsigned)status);
    }
    fflush(stdout);
#ifdef __GLIBC__
    CHECK(hangs, "glibc allows forks within forks now: try it with the library, too");
#endif
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "within") == 0) return within();
    CHECK(argc > 2, "fork_nested handlers FORKS [PLAIN] | within");
    forks = argument(argc, argv, 2, 0);
    watchdog(100 + (unsigned)forks / 2, "forks within forks");
    if (argc > 3) {
        require_hakmem();
        if (plain_hangs(argv[3])) {
            printf("this libc allows no fork in a fork's handler\n");
            return 0;
        }
    }
    run();
    return 0;
}
