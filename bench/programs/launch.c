/*
 * launch - starts one command and says what it cost, in one JSON line.
 *
 *   launch [-t seconds] [-g seconds] [-p library] [-j fd] -- command [arguments]
 *
 *   -t  time limit; after it the child's process group gets TERM, and after the grace KILL
 *   -g  the grace (default 2 s)
 *   -p  LD_PRELOAD for the child only
 *   -j  file descriptor the line goes to (default 2); the child does not inherit it
 *
 * Linked statically and kept tiny, because ru_maxrss survives exec: the child begins
 * with the resident set of the launcher. The child has a process group of its own;
 * at the end all processes that are left in it are killed, and their descendants. TERM,
 * INT and HUP sent to the launcher end the child too. Exit status: the child's, 128 + N
 * after signal N, 124 after the time limit, 127 when the command cannot be started.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILL_GRACE 2.0 /* seconds */
#define EXIT_TIME_LIMIT 124
#define EXIT_NO_COMMAND 127

struct request {
    double limit; /* seconds, 0 = none */
    double grace; /* seconds from TERM to KILL */
    const char *library;
    int report_fd;
    char **command;
};

struct outcome {
    int status; /* as wait4 gives it */
    bool timed_out, interrupted;
    int64_t wall_ns;
    struct rusage usage;
};

static _Noreturn void fail(const char *what, const char *detail) {
    dprintf(STDERR_FILENO, "launch: %s: %s\n", what, detail);
    _exit(EXIT_NO_COMMAND);
}

static const char form[] =
    "launch [-t seconds] [-g seconds] [-p library] [-j fd] -- command [arguments]";

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double number(const char *option, const char *text) {
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= 0 && value < 1e9))
        fail(option, "needs a number that is not negative");
    return value;
}

static struct request parse(int argc, char **argv) {
    struct request request = {.grace = KILL_GRACE, .report_fd = STDERR_FILENO};
    int option;

    opterr = 0;
    while ((option = getopt(argc, argv, "+:ht:g:p:j:")) != -1) {
        if (option == 'h') {
            if (dprintf(STDOUT_FILENO, "usage: %s\n", form) < 0)
                fail("cannot write the help", strerror(errno));
            _exit(0);
        }
        if (option == 't')
            request.limit = number("-t", optarg);
        else if (option == 'g')
            request.grace = number("-g", optarg);
        else if (option == 'p')
            request.library = optarg;
        else if (option == 'j')
            request.report_fd = (int)number("-j", optarg);
        else
            fail(argv[optind - 1], option == ':' ? "needs a value" : "is no option; -h explains");
    }
    request.command = argv + optind;
    if (*request.command == NULL) fail("no command", form);
    if (fcntl(request.report_fd, F_GETFD) < 0) fail("-j", strerror(errno));
    return request;
}

/* Signals are blocked everywhere and taken by sigtimedwait, so none is ever missed. */
static sigset_t block_signals(sigset_t *before) {
    static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, before);
    return set;
}

static _Noreturn void become_command(const struct request *request, const sigset_t *mask,
                                     pid_t launcher, int error_fd) {
    int error;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(EXIT_NO_COMMAND);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (request->report_fd > STDERR_FILENO) fcntl(request->report_fd, F_SETFD, FD_CLOEXEC);
    if (request->library != NULL) setenv("LD_PRELOAD", request->library, 1);
    execvp(request->command[0], request->command);
    error = errno;
    if (write(error_fd, &error, sizeof error) < 0) _exit(EXIT_NO_COMMAND);
    _exit(EXIT_NO_COMMAND);
}

/* Forks and waits until exec has happened; ends the launcher with a reason when it fails. */
static pid_t start(const struct request *request, const sigset_t *mask) {
    pid_t launcher = getpid(), child;
    int ends[2], error;
    ssize_t got;

    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe", strerror(errno));
    child = fork();
    if (child < 0) fail("fork", strerror(errno));
    if (child == 0) become_command(request, mask, launcher, ends[1]);
    setpgid(child, child);
    close(ends[1]);
    while ((got = read(ends[0], &error, sizeof error)) < 0 && errno == EINTR) continue;
    close(ends[0]);
    if (got == (ssize_t)sizeof error) {
        waitpid(child, NULL, 0);
        fail(request->command[0], strerror(error));
    }
    return child;
}

/* Ends what left the child's group (a daemon): as a subreaper we have become its parent. */
static void end_orphans(void) {
    static const char list[] = "/proc/thread-self/children";

    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        FILE *children = fopen(list, "re");
        int pid;

        if (children == NULL) return;
        while (fscanf(children, "%d", &pid) == 1) kill(pid, SIGKILL);
        fclose(children);
        if (waitpid(-1, NULL, 0) < 0) return;
    }
}

/* Waits for the child; when time is up or we are told to end, its group gets TERM, then KILL. */
static struct outcome wait_for(pid_t child, const sigset_t *signals, const struct request *request,
                               int64_t begun) {
    struct outcome outcome = {.status = 0};
    int64_t deadline = request->limit > 0 ? begun + (int64_t)(request->limit * 1e9) : INT64_MAX;

    while (wait4(child, &outcome.status, WNOHANG, &outcome.usage) != child) {
        int64_t left = deadline != INT64_MAX ? deadline - now_ns() : INT64_C(3600000000000);
        struct timespec pause = {left / 1000000000, left % 1000000000};
        bool ending = outcome.timed_out || outcome.interrupted;
        int got = left > 0 ? sigtimedwait(signals, NULL, &pause) : -1;

        if (got == SIGCHLD || (got < 0 && now_ns() < deadline)) continue;
        kill(-child, ending ? SIGKILL : SIGTERM);
        outcome.timed_out = outcome.timed_out || (got < 0 && !outcome.interrupted);
        outcome.interrupted = outcome.interrupted || got > 0;
        deadline = now_ns() + (int64_t)(request->grace * 1e9);
    }
    outcome.wall_ns = now_ns() - begun;
    kill(-child, SIGKILL); /* what the child left behind; mostly there is nothing */
    end_orphans();
    return outcome;
}

static double seconds(const struct timeval *time) {
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static void report(int fd, const struct outcome *outcome) {
    const struct rusage *usage = &outcome->usage;
    int status = outcome->status;

    dprintf(fd,
            "{\"wall_s\":%.6f,\"user_s\":%.6f,\"sys_s\":%.6f,\"minor_faults\":%ld,"
            "\"major_faults\":%ld,\"max_rss_kb\":%ld,\"voluntary_switches\":%ld,"
            "\"involuntary_switches\":%ld,\"exit\":%d,\"signal\":%d,\"timed_out\":%s,"
            "\"interrupted\":%s}\n",
            (double)outcome->wall_ns / 1e9, seconds(&usage->ru_utime), seconds(&usage->ru_stime),
            usage->ru_minflt, usage->ru_majflt, usage->ru_maxrss, usage->ru_nvcsw, usage->ru_nivcsw,
            WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            WIFSIGNALED(status) ? WTERMSIG(status) : 0, outcome->timed_out ? "true" : "false",
            outcome->interrupted ? "true" : "false");
}

int main(int argc, char **argv) {
    struct request request = parse(argc, argv);
    sigset_t before, signals = block_signals(&before);
    struct outcome outcome;
    int64_t begun;
    pid_t child;

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    begun = now_ns();
    child = start(&request, &before);
    outcome = wait_for(child, &signals, &request, begun);
    report(request.report_fd, &outcome);
    if (outcome.timed_out) return EXIT_TIME_LIMIT;
    return WIFEXITED(outcome.status) ? WEXITSTATUS(outcome.status) : 128 + WTERMSIG(outcome.status);
}
