/* exit_in_handler.c - a signal handler that interrupted the allocator calls exit(), and a report is due.
 *
 *     exit_in_handler [processes]
 *
 * Each process ends at another moment of its slow calls. It must end within seconds, and print either
 * all figures or one line that says why there are none. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <pthread.h>
#include <unistd.h>

#include "stats.h"

enum { SECONDS = 20, COUNT = 600, OUTPUT = 4096 };

static void end(int signal_number) {
    (void)signal_number;
    exit(0);
}

/* Refills, flushes, blocks cut and merged, mappings: hardly a call is a fast one. */
static void *work(void *unused) {
    static _Thread_local void *blocks[COUNT];
    static const size_t sizes[] = {64, 3000, 30000, 200000};
    (void)unused;
    for (unsigned round = 0;; round++) {
        size_t size = sizes[round % 4], count = size > 50000 ? 40 : COUNT;
        for (size_t i = 0; i < count; i++) blocks[i] = API(malloc)(size);
        for (size_t i = 0; i < count; i++) API(free)(blocks[i]);
        if (round % 64 == 0) API(malloc_trim)(0);
    }
    return NULL;
}

/* The process: a signal at a moment that its number says. */
static void interrupted(unsigned number) {
    sigset_t signals;
    pthread_t thread;
    long delay_us = 500 + (long)(number * 37 % 4000);
    alarm(SECONDS * PATIENCE);
    signal(SIGPROF, end);
    sigemptyset(&signals);
    sigaddset(&signals, SIGPROF);
    if (number % 2) { /* with another thread at work */
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        CHECK(pthread_create(&thread, NULL, work, NULL) == 0, "no thread");
        pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    }
    struct itimerval timer = {.it_value = {0, delay_us}};
    setitimer(ITIMER_PROF, &timer, NULL);
    work(NULL);
}

static size_t read_all(int file, char *text, size_t size) {
    size_t used = 0;
    for (ssize_t got; used < size - 1 && (got = read(file, text + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = 0;
    return used;
}

/* How it ended: 1 with the figures, 0 with the line. */
static int run(unsigned number) {
    static char text[OUTPUT * 4];
    int pipes[2], status;
    char argument[16];
    snprintf(argument, sizeof argument, "%u", number);
    CHECK(pipe(pipes) == 0, "no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        setenv("HAKMEM_STATS", "text", 1);
        execl("/proc/self/exe", "exit_in_handler", "child", argument, (char *)NULL);
        _exit(99);
    }
    close(pipes[1]);
    read_all(pipes[0], text, sizeof text);
    close(pipes[0]);
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    CHECK(!(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM), "process %u hangs in exit",
          number);
    CHECK(status == 0, "process %u: status %#x: %s", number, (unsigned)status, text);
    if (strncmp(text, "hakmem: no statistics", 21) == 0) {
        CHECK(strchr(text, '\n') == text + strlen(text) - 1, "more than a line: %s", text);
        return 0;
    }
    CHECK(strncmp(text, "hakmem: statistics of process", 29) == 0 && strstr(text, "threads "),
          "process %u prints: %s", number, text);
    return 1;
}

int main(int argc, char **argv) {
    if (argc == 3) interrupted((unsigned)atoi(argv[2]));
    unsigned processes = (unsigned)argument(argc, argv, 1, 60), with = 0;
    watchdog(200, "exit in a handler");
    for (unsigned i = 0; i < processes; i++) with += (unsigned)run(i);
    printf("%u of %u processes with figures\n", with, processes);
    CHECK(with > 0, "no process had its figures");
    return 0;
}
