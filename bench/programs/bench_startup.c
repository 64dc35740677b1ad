/*
 * bench_startup - what an allocator costs a program that does next to nothing.
 *
 *   bench_startup [runs] [blocks]
 *
 * Starts itself `runs` times, one after the other, each time to allocate and free `blocks`
 * small blocks (0 = like `true`) and to end. An operation is one such process. Printed: its
 * mean wall time and page faults; max_kb in the [RSS] line is a child's, not the parent's.
 */
#include "bench.h"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CHILD "child-of-bench_startup"
#define BLOCK 100

enum { RUNS, BLOCKS, ARGUMENTS };

extern char **environ;

static int live_as_child(const char *blocks, const char *report) {
    for (long left = strtol(blocks, NULL, 10); left > 0; left--) free(bench_malloc(BLOCK));
    if (*report == '1') bench_print_rss();
    return 0;
}

/* Runs one child, which prints its RSS when asked to; adds up its page faults. */
static void run_child(uint64_t blocks, bool report, uint64_t *faults) {
    char count[24];
    char *words[] = {program_invocation_name, CHILD, count, report ? "1" : "0", NULL};
    struct rusage usage;
    int status, error;
    pid_t child;

    snprintf(count, sizeof count, "%llu", (unsigned long long)blocks);
    error = posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ);
    if (error != 0) bench_fail(1, "cannot start a process: %s", strerror(error));
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR) bench_fail(1, "wait4: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_fail(1, "the child ended with wait status 0x%x", (unsigned)status);
    *faults += (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [RUNS] = {"runs", 1, 1u << 30, 500, 0},
        [BLOCKS] = {"blocks", 0, 1u << 30, 0, 0},
    };
    uint64_t start, ns, runs, faults = 0, unused = 0;

    if (argc == 4 && strcmp(argv[1], CHILD) == 0) return live_as_child(argv[2], argv[3]);
    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    runs = args[RUNS].value;

    start = bench_now_ns();
    for (uint64_t i = 0; i < runs; i++) run_child(args[BLOCKS].value, false, &faults);
    ns = bench_now_ns() - start;

    printf("Throughput = %.0f ops/s [us_per_start=%.1f faults=%.1f] time=%.3fs\n",
           (double)runs / ((double)ns / 1e9), (double)ns / 1e3 / (double)runs,
           (double)faults / (double)runs, (double)ns / 1e9);
    bench_flush();
    run_child(args[BLOCKS].value, true, &unused);
    return 0;
}
