#define _GNU_SOURCE
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static long milliseconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads stderr of the child to its end; false when the time is up first. */
static bool collect(int file, long deadline, struct child_end *end) {
    char rest[512];
    for (;;) {
        long left = deadline - milliseconds_now();
        struct pollfd wanted = {.fd = file, .events = POLLIN};
        if (left <= 0) return false;
        if (poll(&wanted, 1, (int)left) <= 0) continue;
        size_t room = sizeof end->err - 1 - end->err_length;
        ssize_t got =
            room > 0 ? read(file, end->err + end->err_length, room) : read(file, rest, sizeof rest);
        if (got == 0 || (got < 0 && errno != EINTR)) return true;
        if (got > 0 && room > 0) end->err_length += (size_t)got;
    }
}

void child_run(void (*body)(const void *context), const void *context, unsigned seconds,
               struct child_end *end) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe failed");
    *end = (struct child_end){.in_time = true};
    pid_t pid = fork();
    CHECK(pid >= 0, "fork failed");
    if (pid == 0) {
        alarm(0);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body(context);
        _exit(0);
    }
    close(ends[1]);
    end->in_time = collect(ends[0], milliseconds_now() + (long)seconds * PATIENCE * 1000, end);
    close(ends[0]);
    end->err[end->err_length] = 0;
    if (!end->in_time) kill(pid, SIGKILL);
    while (waitpid(pid, &end->status, 0) < 0 && errno == EINTR) continue;
}

void child_must_succeed(void (*body)(const void *context), const void *context, unsigned seconds,
                        const char *what) {
    struct child_end end;
    child_run(body, context, seconds, &end);
    CHECK(end.in_time, "%s: no end after %u s; stderr: %s", what, seconds, end.err);
    CHECK(end.status == 0, "%s: %s %d; stderr: %s", what,
          WIFSIGNALED(end.status) ? "killed by signal" : "ended with",
          WIFSIGNALED(end.status) ? WTERMSIG(end.status) : WEXITSTATUS(end.status), end.err);
}

unsigned child_share(unsigned count, unsigned (*part)(unsigned index, unsigned count)) {
    enum { COUNT_MAX = 16 };
    pid_t pids[COUNT_MAX];
    CHECK(count <= COUNT_MAX, "%u parts are too many", count);
    fflush(NULL);
    for (unsigned i = 0; i < count; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0, "fork failed");
        if (pids[i] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        unsigned failures = part(i, count);
        fflush(NULL);
        _exit(failures < 255 ? (int)failures : 255);
    }
    unsigned sum = 0;
    for (unsigned i = 0; i < count; i++) {
        int status = 0;
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) continue;
        CHECK(WIFEXITED(status), "part %u was killed by signal %d", i, WTERMSIG(status));
        sum += (unsigned)WEXITSTATUS(status);
    }
    return sum;
}

uint64_t number_in_child(uint64_t (*find)(void)) {
    int ends[2];
    uint64_t number = 0;
    CHECK(pipe(ends) == 0, "no pipe");
    const pid_t child = fork();
    if (!child) {
        number = find();
        _exit(write(ends[1], &number, sizeof number) != sizeof number);
    }
    close(ends[1]);
    CHECK(child > 0 && read(ends[0], &number, sizeof number) == sizeof number, "no child");
    waitpid(child, NULL, 0);
    close(ends[0]);
    return number;
}

struct finder {
    uint64_t (*find)(void);
    uint64_t number;
};

static void *find_in_thread(void *finder) {
    struct finder *of = finder;
    of->number = of->find();
    return NULL;
}

uint64_t number_in_thread(uint64_t (*find)(void)) {
    struct finder finder = {.find = find};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, find_in_thread, &finder) == 0, "no thread");
    pthread_join(thread, NULL);
    return finder.number;
}
