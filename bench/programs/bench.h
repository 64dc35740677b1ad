/*
 * bench.h - shared by the benchmark programs: time, RSS, random numbers,
 * arguments, tables outside the allocator, and the one output format.
 *
 * Nothing here calls malloc, so that a program's own bookkeeping never shows in
 * the figures of the allocator under test. Output is
 *
 *   stdout   Throughput = N ops/s [key=value ...] time=S.SSSs
 *   stderr   [RSS] max_kb=N
 */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BENCH_UNUSED __attribute__((unused))
#define BENCH_LINE 64 /* bytes of a cache line: keeps threads' counters apart */

/* Prints one line "PROGRAM: reason" and leaves with status 2 (usage) or 1. */
static BENCH_UNUSED _Noreturn __attribute__((format(printf, 2, 3))) void
bench_fail(int status, const char *format, ...) {
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    dprintf(STDERR_FILENO, "%s: %s\n", program_invocation_short_name, line);
    _exit(status);
}

/* stdout's buffer is ours: the null allocator would overwrite one from malloc. */
static BENCH_UNUSED void bench_start(void) {
    static char buffer[4096];

    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
}

static BENCH_UNUSED uint64_t bench_now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static BENCH_UNUSED void bench_sleep_ms(uint64_t ms) {
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

/* The state must not be 0: xorshift would stay there for ever. */
static inline uint32_t bench_random(uint32_t *state) {
    uint32_t x = *state;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

/* A usable xorshift state for stream number `stream` of a run's seed. */
static BENCH_UNUSED uint32_t bench_stream(uint32_t seed, uint32_t stream) {
    uint32_t state = seed + stream * 0x9E3779B9u;

    return state != 0 ? state : 1;
}

/* The kilobytes behind `key` ("VmHWM:") in a /proc file, 0 when it is not there. */
static BENCH_UNUSED long bench_proc_kb(const char *path, const char *key) {
    char text[8192];
    size_t length = 0;
    ssize_t got;
    const char *at;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) return 0;
    while (length < sizeof text - 1 &&
           (got = read(fd, text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    close(fd);
    text[length] = '\0';
    at = strstr(text, key);
    return at != NULL ? strtol(at + strlen(key), NULL, 10) : 0;
}

static BENCH_UNUSED long bench_rss_peak_kb(void) {
    return bench_proc_kb("/proc/self/status", "VmHWM:");
}

/* From smaps_rollup, because the counters behind VmRSS lag behind by thread. */
static BENCH_UNUSED long bench_rss_now_kb(void) {
    long kb = bench_proc_kb("/proc/self/smaps_rollup", "Rss:");

    return kb != 0 ? kb : bench_proc_kb("/proc/self/status", "VmRSS:");
}

/* A result that cannot be written is a failure, and a reader that is gone no reason to say so. */
static BENCH_UNUSED void bench_flush(void) {
    if (fflush(stdout) != 0) bench_fail(1, "cannot write the result: %s", strerror(errno));
}

static BENCH_UNUSED void bench_print_rss(void) {
    dprintf(STDERR_FILENO, "[RSS] max_kb=%ld\n", bench_rss_peak_kb());
}

/* Prints the result line, with `extra` ("key=value ...") in brackets, and the RSS. */
static BENCH_UNUSED void bench_report(uint64_t ops, uint64_t ns, const char *extra) {
    double seconds = (double)(ns != 0 ? ns : 1) / 1e9;

    printf("Throughput = %.0f ops/s [%s] time=%.3fs\n", (double)ops / seconds, extra, seconds);
    bench_flush();
    bench_print_rss();
}

/* A row for a running time, 1 ms to a day. */
#define BENCH_SECONDS(milliseconds) \
    { "seconds", 1, 86400000, milliseconds, 1000 }

/* One row of a program's arguments: what it is called, its range and its default. */
struct bench_arg {
    const char *name;
    uint64_t low, high;
    uint64_t value; /* the default, then what the user gave */
    uint32_t scale; /* 0: whole number; 1000: decimals allowed, kept in thousandths */
};

static BENCH_UNUSED uint64_t bench_number(const char *name, const char *text, uint64_t low,
                                          uint64_t high) {
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < low || value > high)
        bench_fail(2, "%s must be a number from %llu to %llu, not '%s'", name,
                   (unsigned long long)low, (unsigned long long)high, text);
    return value;
}

/* A decimal number (seconds), kept in thousandths, as low, high and the result are. */
static BENCH_UNUSED uint64_t bench_thousandths(const char *name, const char *text, uint64_t low,
                                               uint64_t high) {
    char *end;
    double value = strtod(text, &end) * 1000;

    if (*text < '0' || *text > '9' || *end != '\0' || !(value >= (double)low) ||
        !(value <= (double)high))
        bench_fail(2, "%s must be a number from %g to %g, not '%s'", name, (double)low / 1000,
                   (double)high / 1000, text);
    return (uint64_t)(value + 0.5);
}

static BENCH_UNUSED bool bench_wants_help(const char *word) {
    return strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0;
}

static BENCH_UNUSED _Noreturn void bench_help(const char *name, const struct bench_arg *table,
                                              int count) {
    printf("usage: %s", name);
    for (int i = 0; i < count; i++) printf(" [%s]", table[i].name);
    putchar('\n');
    for (int i = 0; i < count; i++) {
        double unit = table[i].scale != 0 ? table[i].scale : 1;
        printf("  %-12s %.15g to %.15g; %.15g if left out\n", table[i].name,
               (double)table[i].low / unit, (double)table[i].high / unit,
               (double)table[i].value / unit);
    }
    bench_flush();
    exit(0);
}

/* Without arguments a run has its default length, which may be long: then it says so on stderr. */
static BENCH_UNUSED void bench_say_defaults(const struct bench_arg *table, int count) {
    char line[400] = "";
    size_t used = 0;

    for (int i = 0; i < count; i++)
        used +=
            (size_t)snprintf(line + used, sizeof line - used, " %s %.15g", table[i].name,
                             (double)table[i].value / (table[i].scale != 0 ? table[i].scale : 1));
    dprintf(STDERR_FILENO, "%s: runs with%s; -h explains\n", program_invocation_short_name, line);
}

/*
 * Reads up to `count` numbers in the table's order; arguments left out keep the default. argv[0] may
 * be a word behind the program's name.
 */
static BENCH_UNUSED void bench_arguments(struct bench_arg *table, int count, int argc,
                                         char **argv) {
    if (argc > 1 && bench_wants_help(argv[1])) bench_help(argv[0], table, count);
    if (argc - 1 > count)
        bench_fail(2, "%d arguments, but %d at most; -h explains", argc - 1, count);
    if (argc == 1 && count > 0 && argv[0] == program_invocation_name)
        bench_say_defaults(table, count);
    for (int i = 1; i < argc; i++) {
        struct bench_arg *arg = &table[i - 1];

        arg->value = arg->scale != 0 ? bench_thousandths(arg->name, argv[i], arg->low, arg->high)
                                     : bench_number(arg->name, argv[i], arg->low, arg->high);
    }
}

/* Ends the program unless the first number is at most the second. */
static BENCH_UNUSED void bench_in_order(const struct bench_arg *low, const struct bench_arg *high) {
    if (low->value > high->value)
        bench_fail(2, "%s (%llu) is larger than %s (%llu)", low->name,
                   (unsigned long long)low->value, high->name, (unsigned long long)high->value);
}

/*
 * A size in low..high with as many in each doubling as in any other: most blocks are small,
 * few are large, as in real programs.
 */
static BENCH_UNUSED uint32_t bench_size_log(uint32_t *state, uint32_t low, uint32_t high) {
    uint32_t doublings = 0, base;

    while ((uint64_t)low << (doublings + 1) <= high) doublings++;
    base = low << bench_random(state) % (doublings + 1);
    base += bench_random(state) % base;
    return base <= high ? base : high;
}

/* Zeroed and touched memory for a program's own tables, outside the allocator. */
static BENCH_UNUSED void *bench_table(size_t count, size_t size) {
    size_t bytes = count * size;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) bench_fail(1, "no memory for a table of %zu bytes", bytes);
    memset(memory, 0, bytes);
    return memory;
}

/* malloc that ends the program when there is no memory; touches both ends of the block. */
static inline void *bench_malloc(size_t size) {
    char *block = malloc(size);

    if (__builtin_expect(block == NULL, 0)) bench_fail(1, "malloc(%zu) gave NULL", size);
    block[0] = (char)size;
    block[size - 1] = (char)size;
    return block;
}

static BENCH_UNUSED pthread_t bench_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, argument);

    if (error != 0) bench_fail(1, "cannot start a thread: %s", strerror(error));
    return thread;
}
