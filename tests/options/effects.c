/* effects.c - what setting an option changes, for every row of the table of options.
 *
 * Each row of `effects` gives one option two values and the figure that tells them apart. The figure
 * is taken in a process of its own for each value and each way to set it: the environment,
 * HAKMEM_CONF and, for an option that may change while the process runs, hakmem_option_set. Figures
 * are counts and bytes, never times. A row of options.def without a row here fails the test;
 * obsolete options need none, and those of the debug build are tried there only. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "cpu.h"
#include "hardened_figures.h"
#include "large_figures.h"
#include "mid_figures.h"
#include "pool_figures.h"
#include "policy_figures.h"
#include "profile_figures.h"
#include "proc.h"
#include "shard_figures.h"
#include "warm_figures.h"

#if defined(TEST_PREFIXED)
static int set_option(const char *name, const char *value) {
    return hakmem_option_set(name, value);
}
#else
#include <dlfcn.h>
static int set_option(const char *name, const char *value) {
    int (*set)(const char *, const char *) = dlsym(RTLD_DEFAULT, "hakmem_option_set");
    CHECK(set != NULL, "there is no hakmem_option_set");
    return set(name, value);
}
#endif

enum { SECONDS = 60, MIB = 1024 * 1024 };
enum { ENDED_BY_ABORT = -1, LACKS_CPUS = -2 };

/* ---- The figures ------------------------------------------------------------------------------- */

static void *block_of_no_use;

/* 1 after a double free was ignored; the process does not get that far when it aborts. */
static long after_a_free_error(void) {
    proc_no_core_files();
    void *block = API(malloc)(100);
    API(free)(block);
    *(void *volatile *)&block_of_no_use = block;
    API(free)(block_of_no_use);
    return 1;
}

enum { SPIKE_COUNT = 40000, SPIKE_SIZE = 1000 };
static void *spike[SPIKE_COUNT];

/* MiB of freed memory that still has its pages, after two looks at the clock of the purge; taken
 * while the program goes on to call. */
static long dirty_after_a_spike(void) {
    for (int i = 0; i < SPIKE_COUNT; i++) spike[i] = memset(API(malloc)(SPIKE_SIZE), 1, SPIKE_SIZE);
    for (int i = 0; i < SPIKE_COUNT; i++) API(free)(spike[i]);
    for (int round = 0; round < 70; round++) {
        for (int i = 0; i < 100; i++) API(free)(API(malloc)(100000));
        proc_sleep_ms(10);
    }
    return (long)(API(mallinfo2)().keepcost / MIB);
}

/* MiB of pages between blocks in use that were given back while the program went on to blocks of
 * another size. */
static long sparse_purged(void) {
    for (int i = 0; i < SPIKE_COUNT; i++) spike[i] = memset(API(malloc)(SPIKE_SIZE), 1, SPIKE_SIZE);
    for (int i = 0; i < SPIKE_COUNT; i++)
        if (i % 64 != 0) API(free)(spike[i]);
    for (int i = 0; i < SPIKE_COUNT; i++) spike[i] = memset(API(malloc)(SPIKE_SIZE / 2), 1, 1);
    return statistic("memory.sparse_purged") / MIB;
}

static long thread_count(void) {
    long count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "no /proc/self/task");
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void *do_nothing(void *unused) { return unused; }

/* Threads that the allocator started while the heap grew to 64 MiB. A sanitizer's own thread may
 * come with the first one. */
static long helper_threads(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    long before = thread_count();
    for (int i = 0; i < 1000; i++) *(char *)API(malloc)(64 * 1024) = 1;
    return thread_count() - before;
}

#define REPORT "effects_of_error_file.txt"

/* Lines in the file of errors after a double free. */
static long lines_of_a_report(void) {
    long lines = 0;
    unlink(REPORT);
    after_a_free_error();
    FILE *file = fopen(REPORT, "r");
    for (int c; file && (c = getc(file)) != EOF;) lines += c == '\n';
    if (file) fclose(file);
    unlink(REPORT);
    return lines;
}

/* What a child of this process says on stderr while it ends: 0 nothing, 1 statistics as text,
 * 2 as JSON, 3 the tiny tier's table, 4 times, 5 the warm pool's line, 6 leaks, 7 anything else. */
static long words_at_the_end(void) {
    static const char *const beginnings[] = {"hakmem: statistics of", "{",
                                             "hakmem: tiny bands",    "hakmem: timing of",
                                             "hakmem: warm pool",     "hakmem: not freed at"};
    char text[64] = "", rest[4096];
    int ends[2], status;
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t pid = fork();
    CHECK(pid >= 0, "no child");
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        exit(0);
    }
    close(ends[1]);
    ssize_t size = read(ends[0], text, sizeof text - 1);
    while (read(ends[0], rest, sizeof rest) > 0) continue;
    close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child's status is %#x",
          (unsigned)status);
    if (size <= 0) return 0;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(text, beginnings[i], strlen(beginnings[i])) == 0) return (long)i + 1;
    return 7;
}

/* Live pages of this process that the command would find. */
static long live_pages(void) {
    char path[300], target[64];
    long count = 0;
    DIR *links = opendir("/proc/self/fd");
    CHECK(links != NULL, "no /proc/self/fd");
    for (struct dirent *entry; (entry = readdir(links)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t size = readlink(path, target, sizeof target - 1);
        target[size > 0 ? size : 0] = 0;
        count += strncmp(target, "/memfd:hakmem-live", 18) == 0;
    }
    closedir(links);
    return count;
}

/* ---- The table --------------------------------------------------------------------------------- */

typedef struct {
    const char *value;
    long least, most; /* what the figure then is */
} outcome_t;

#define PROFILED "HAKMEM_PROF=1 HAKMEM_PROF_FILE=/dev/null"
#define IN_A_FOLDER "HAKMEM_PROF=1 HAKMEM_PROF_RATE=1 HAKMEM_PROF_FILE=" FOLDER_OF_PROFILES "%p/"
#define ALL_PROMOTED "HAKMEM_TINY_POLICY_PROFILE=tinyplus_all"

static const struct effect {
    const char *option;
    const char *beside; /* other settings that the figure needs, a space between, or NULL */
    long (*figure)(void);
    outcome_t one, other;
} effects[] = {
    {"ON_ERROR",
     NULL,
     after_a_free_error,
     {"abort", ENDED_BY_ABORT, ENDED_BY_ABORT},
     {"report", 1, 1}},
    {"STATS", NULL, words_at_the_end, {"off", 0, 0}, {"text", 1, 1}},
    {"STATS", NULL, words_at_the_end, {"json", 2, 2}, {"text", 1, 1}},
    {"ERROR_FILE", "HAKMEM_ON_ERROR=report", lines_of_a_report, {"", 0, 0}, {REPORT, 5, 100}},
    {"STATS_FILE", "HAKMEM_STATS=json", words_at_the_end, {"", 2, 2}, {"/dev/null", 0, 0}},
    {"TINY_STATS_DUMP", NULL, words_at_the_end, {"0", 0, 0}, {"1", 3, 3}},
    {"TIMING", NULL, words_at_the_end, {"0", 0, 0}, {"1", 4, 4}},
    {"TIMING", "HAKMEM_STATS=text", words_at_the_end, {"0", 1, 1}, {"1", 1, 1}},
    {"LIVE", NULL, live_pages, {"0", 0, 0}, {"1", 1, 1}},
    {"PROF",
     "HAKMEM_PROF_FILE=/dev/null HAKMEM_PROF_RATE=65536",
     sampled_blocks,
     {"0", 0, 0},
     {"1", 30, 110}},
    {"PROF_RATE", PROFILED, sampled_blocks, {"1", 4096, 4200}, {"1000000000", 0, 3}},
    {"PROF_FILE",
     "HAKMEM_PROF=1",
     error_of_dump,
     {"/tmp/no_such_folder/%p", ENOENT, ENOENT},
     {"/dev/null/%p", ENOTDIR, ENOTDIR}},
    {"PROF_GROWTH", IN_A_FOLDER, profiles_while_growing, {"0", 0, 0}, {"2M", 4, 4}},
    {"PROF_GROWTH", IN_A_FOLDER, profiles_while_changing, {"1M", 0, 0}, {"64K", 0, 1}},
    {"PROF_INTERVAL", IN_A_FOLDER, profiles_while_changing, {"0", 0, 0}, {"2M", 4, 4}},
    {"PROF_SIGNAL", PROFILED, handled_signal, {"0", 0, 0}, {"61", 61, 61}},
#if defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__) /* the report reads their shadows: terabytes */
    {"LEAK", NULL, words_at_the_end, {"0", 0, 0}, {"0", 0, 0}},
#else
    {"LEAK", NULL, words_at_the_end, {"0", 0, 0}, {"1", 6, 6}},
#endif
    {"TINY_POLICY_PROFILE", "HAKMEM_LEARN=off", promoted_bands, {"legacy", 0, 0}, {"auto", 1, 1}},
    {"TINY_POLICY_PROFILE", NULL, promoted_bands, {"c5_7_only", 3, 3}, {"tinyplus_all", 8, 8}},
    {"LEARN", "HAKMEM_TINY_POLICY_PROFILE=legacy", looks_after_work, {"off", 0, 0}, {"on", 1, 50}},
    {"LEARN",
     "HAKMEM_TINY_POLICY_PROFILE=auto",
     looks_after_work,
     {"off", 0, 0},
     {"observe", 1, 50}},
    {"LEARN",
     "HAKMEM_TINY_POLICY_PROFILE=auto",
     promoted_bands_after_work,
     {"observe", 1, 1},
     {"on", 3, 3}},
    {"TINY_POLICY_LOG",
     "HAKMEM_TINY_POLICY_PROFILE=c5_7_only",
     lines_of_a_promotion,
     {"0", 0, 0},
     {"1", 5, 5}},
    {"PURGE_DELAY_MS", "HAKMEM_PURGE_THREAD=0", dirty_after_a_spike, {"0", 0, 4}, {"-1", 30, 60}},
    {"PURGE_DELAY_MS",
     "HAKMEM_PURGE_THREAD=0",
     dirty_after_a_spike,
     {"1", 0, 4},
     {"3600000", 30, 60}},
    {"PURGE_DELAY_MS", "HAKMEM_PURGE_THREAD=0", sparse_purged, {"3600000", 10, 40}, {"-1", 0, 0}},
    {"PURGE_THREAD", NULL, helper_threads, {"0", 0, 0}, {"1", 1, 1}},
    {"PURGE_THREAD", NULL, helper_threads, {"0", 0, 0}, {"2", 1, 1}},
    {"CACHE_BUDGET", NULL, cached_kib, {"1", 1, 64}, {"1G", 1000, 20000}},
    {"SHARDS", "HAKMEM_TRYLOCK_PROBES=0", slabs_of_four_threads, {"1", 1, 1}, {"256", 4, 4}},
    {"SHARD_MIX",
     "HAKMEM_SHARDS=4 HAKMEM_TRYLOCK_PROBES=0",
     slabs_on_one_cpu,
     {"0", 1, 1},
     {"1", 4, 4}},
    /* The first thread may have begun on another CPU. */
    {"SHARD_MIX", "HAKMEM_SHARDS=4", threads_of_one_shard, {"0", 4, 5}, {"1", 2, 2}},
    {"TRYLOCK_PROBES", "HAKMEM_SHARDS=2", blocks_of_another_shard, {"0", 0, 0}, {"15", 1, 1}},
    {"TINY_PROFILE",
     "HAKMEM_SHARDS=2",
     blocks_of_another_shard,
     {"full", 1, 1},
     {"larson_guard", 0, 0}},
    {"TINY_PROFILE",
     "HAKMEM_SHARDS=2 HAKMEM_POOL_TLS_RING=0",
     empty_slab_moves,
     {"full", 0, 0},
     {"larson_guard", 1, 1}},
    {"TINY_PROFILE",
     "HAKMEM_SHARDS=1 HAKMEM_SS_SIZE=512K",
     budget_hits,
     {"full", 0, 0},
     {"larson_guard", 1, 1000}},
    {"SS_BUDGET", "HAKMEM_SHARDS=1", budget_hits, {"0", 0, 0}, {"40", 1, 1000}},
    {"SS_BUDGET",
     "HAKMEM_SHARDS=1 HAKMEM_TINY_PROFILE=larson_guard",
     budget_hits,
     {"0", 0, 0},
     {"40", 1, 1000}},
    {"SS_SIZE", NULL, superslab_kib, {"512K", 512, 512}, {"2M", 2048, 2048}},
    {"TINY_USE_SUPERSLAB", NULL, superslabs_of_slabs, {"0", 40, 60}, {"1", 3, 8}},
    {"TINY_SS_PARTIAL",
     "HAKMEM_PURGE_DELAY_MS=0 HAKMEM_PURGE_THREAD=0 HAKMEM_TINY_SS_PARTIAL_INTERVAL=1",
     units_released_in_part,
     {"0", 0, 0},
     {"1", 30, 60}},
    {"TINY_SS_PARTIAL_INTERVAL",
     "HAKMEM_PURGE_DELAY_MS=1 HAKMEM_PURGE_THREAD=0",
     units_released_in_part,
     {"1", 30, 60},
     {"1024", 0, 0}},
    {"WARM_TLS_BIND_C7", ALL_PROMOTED, slabs_bound, {"0", 0, 0}, {"1", 1, 4}},
    {"WARM_TLS_BIND_C7", ALL_PROMOTED, refills_carved, {"1", 0, 0}, {"2", 10, 2000}},
    {"WARM_POOL_SIZE", ALL_PROMOTED, slabs_bound, {"0", 0, 0}, {"1", 1, 1}},
    {"WARM_POOL_SIZE", ALL_PROMOTED, slabs_bound, {"1", 1, 1}, {"64", 8, 40}},
    {"WARM_POOL_STATS", NULL, words_at_the_end, {"0", 0, 0}, {"1", 5, 5}},
    {"TINY_WARM_LOG", ALL_PROMOTED, lines_of_warm_slabs, {"0", 0, 0}, {"1", 10, 1000}},
    {"TINY_PAGEBOX_LOG", NULL, lines_of_hand_overs, {"0", 0, 0}, {"1", 80, 100}},
    {"POOL_TLS_RING", NULL, ring_depth, {"0", 0, 0}, {"1", 20, 31}},
    {"POOL_TLS_RING", NULL, ring_hits, {"0", 0, 0}, {"1", 5000, 12600}},
    {"POOL_RING_CAP", NULL, ring_depth, {"1", 1, 1}, {"256", 200, 255}},
    {"TLS_LO_MAX", NULL, ring_depth, {"0", 20, 31}, {"100", 120, 131}},
    {"TLS_LO_MAX", NULL, lifo_hits, {"0", 0, 0}, {"100", 20, 1000}},
    {"RING_RETURN_DIV", NULL, blocks_returned, {"1", 31, 31}, {"8", 3, 3}},
    {"POOL_MIN_BUNDLE", NULL, blocks_of_first_refill, {"1", 4, 4}, {"64", 16, 16}},
    {"POOL_MIN_BUNDLE", NULL, refills_of_large_rings, {"1", 200, 350}, {"64", 60, 140}},
    {"POOL_RING_CAP", NULL, refills_of_small_rings, {"1", 600, 600}, {"32", 40, 100}},
    {"POOL_DRAIN_MAX",
     "HAKMEM_SHARDS=2 HAKMEM_POOL_MIN_BUNDLE=64 HAKMEM_PURGE_DELAY_MS=-1",
     refills_after_remote_frees,
     {"1", 23, 100},
     {"4096", 10, 21}},
    {"HDR_LIGHT", NULL, records_of_forty, {"2", 0, 0}, {"1", 40, 40}},
    {"HDR_LIGHT",
     NULL,
     record_bytes_of_forty,
     {"1", 2 * 4096, 3 * 4096},
     {"0", 2 * 8192, 3 * 8192}},
    {"MID_DYN1", NULL, size_of_one, {"0", 13312, 13312}, {"13100", 13184, 13184}},
    {"MID_DYN1", NULL, size_of_many, {"auto", 4224, 4224}, {"0", 4608, 4608}},
    {"WRAP_L2", NULL, live_in_mid, {"0", 0, 0}, {"1", 10, 10}},
    {"WRAP_L25", NULL, live_in_large, {"0", 0, 0}, {"1", 10, 10}},
    {"L25_RUN_FACTOR", NULL, units_of_a_run, {"1", 16, 16}, {"16", 17, 1000}},
    {"L25_TC_SPILL", "HAKMEM_SHARDS=2", large_transferred, {"0", 0, 0}, {"256", 84, 84}},
    {"L25_PREF", "HAKMEM_SHARDS=2", large_from_others, {"local", 0, 0}, {"remote", 1, 84}},
    {"DISABLE_BATCH", NULL, large_purge_calls, {"0", 0, 0}, {"1", 30, 100}},
    {"HUGE_CACHE", NULL, huge_mib_kept, {"0", 0, 0}, {"1G", 40, 40}},
    {"LIMIT", NULL, mib_until_refused, {"16M", 8, 16}, {"0", 100, 100}},
    {"LIMIT_SOFT",
     "HAKMEM_PURGE_DELAY_MS=3600000",
     dirty_mib_with_a_limit,
     {"32M", 0, 20},
     {"0", 50, 70}},
    {"THP", NULL, huge_superslabs, {"0", 0, 0}, {"1", 60, 100}},
    {"THP", NULL, huge_superslabs_of_a_small_heap, {"1", 0, 0}, {"2", 4, 12}},
    {"THP", NULL, advice_for_a_huge_block, {"1", 0, 0}, {"2", 1, 1}},
    {"LIMIT_SOFT", "HAKMEM_THP=2", huge_superslabs_of_a_small_heap, {"8M", 0, 0}, {"0", 4, 12}},
    {"SS_PREFAULT", NULL, populated_units, {"0", 0, 0}, {"2", 16, 200}},
    {"HARDENED", "HAKMEM_PROFILE=HARDENED", usable_of_hundred, {"0", 112, 128}, {"1", 100, 100}},
    {"CANARY", "HAKMEM_PROFILE=HARDENED", usable_of_hundred, {"0", 112, 112}, {"1", 100, 100}},
    {"QUARANTINE",
     "HAKMEM_PROFILE=HARDENED HAKMEM_QUARANTINE_BYTES=16M",
     frees_until_used_again,
     {"0", 0, 120},
     {"1024", 400, 20000}},
    {"QUARANTINE_BYTES",
     "HAKMEM_PROFILE=HARDENED",
     frees_until_used_again,
     {"0", 0, 120},
     {"1M", 140, 20000}},
    {"RANDOM_PLACEMENT",
     "HAKMEM_PROFILE=HARDENED",
     neighbours_in_order,
     {"0", 180, 200},
     {"1", 60, 140}},
    {"ZERO_ON_FREE", "HAKMEM_PROFILE=HARDENED", bytes_left_by_a_free, {"0", 64, 64}, {"1", 0, 0}},
    {"CHECK_FREED",
     "HAKMEM_PROFILE=HARDENED",
     after_a_write_after_free,
     {"0", 1, 1},
     {"1", ENDED_BY_ABORT, ENDED_BY_ABORT}},
    {"CHECK_MISMATCH",
     "HAKMEM_PROFILE=HARDENED",
     after_a_free_of_another_size,
     {"0", 1, 1},
     {"1", ENDED_BY_ABORT, ENDED_BY_ABORT}},
    {"GUARD_LARGE",
     "HAKMEM_PROFILE=HARDENED",
     pages_behind_with_no_access,
     {"0", 0, 0},
     {"1", 10, 10}},
    {"GUARD_UNITS", "HAKMEM_PROFILE=HARDENED", guard_units, {"0", 0, 0}, {"8", 10, 100}},
    {"GUARD_EMPTY",
     "HAKMEM_PROFILE=HARDENED",
     empty_blocks_with_no_access,
     {"0", 0, 0},
     {"1", 10, 10}},
    {"GUARD_SAMPLE", NULL, blocks_as_large_as_requested, {"0", 0, 0}, {"1", 100, 100}},
    {"CONF",
     "HAKMEM_PURGE_THREAD=0",
     dirty_after_a_spike,
     {"PURGE_DELAY_MS:0", 0, 4},
     {"PURGE_DELAY_MS:-1", 30, 60}},
    {"PROFILE", "HAKMEM_PURGE_THREAD=0", dirty_after_a_spike, {"LOWMEM", 0, 4}, {"SERVER", 30, 60}},
};

enum { START, ANY_TIME };
enum { NUMBER, WORD, EITHER, TEXT, DEBUG, OBSOLETE };
static const struct {
    const char *name;
    int kind, change;
} options[] = {
#define OPTION(name, tier, kind, change, ...) {#name, kind, change},
#include "options/each_option.def"
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---- Running them ------------------------------------------------------------------------------ */

typedef struct {
    const struct effect *effect;
    const char *value;
    enum { BY_ENVIRONMENT, BY_CONF, BY_CALL } way;
} trial_t;

static const char *const ways[] = {"the environment", "HAKMEM_CONF", "hakmem_option_set"};

/* In the child: this program again, in the environment of the trial. */
static void run_trial(const void *context) {
    static char setting[200], number[20];
    char *environment[300];
    const trial_t *trial = context;
    const struct effect *effect = trial->effect;
    size_t count = 0;
    for (char **at = environ; *at && count < 290; at++)
        if (strncmp(*at, "HAKMEM_", 7) != 0) environment[count++] = *at;
    static char beside[200];
    snprintf(beside, sizeof beside, "%s", effect->beside ? effect->beside : "");
    for (char *word = strtok(beside, " "); word; word = strtok(NULL, " "))
        environment[count++] = word;
    snprintf(setting, sizeof setting, trial->way == BY_CONF ? "HAKMEM_CONF=%s:%s" : "HAKMEM_%s=%s",
             effect->option, trial->value);
    if (trial->way != BY_CALL) environment[count++] = setting;
    environment[count] = NULL;
    snprintf(number, sizeof number, "%zu", (size_t)(effect - effects));
    const char *call = trial->way == BY_CALL ? trial->value : NULL;
    const char *arguments[] = {"effects", number, call, NULL};
    execve("/proc/self/exe", (char **)(uintptr_t)arguments, (char **)(uintptr_t)environment);
}

/* The figure, in the last line of what the child wrote. */
static long figure_of(const trial_t *trial) {
    struct child_end end;
    child_run(run_trial, trial, SECONDS, &end);
    CHECK(end.in_time, "%s=%s: no end after %d s", trial->effect->option, trial->value, SECONDS);
    if (WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT) return ENDED_BY_ABORT;
    if (lacks_cpus(end.status)) {
        printf("%s=%s: %s", trial->effect->option, trial->value, end.err);
        return LACKS_CPUS;
    }
    CHECK(end.status == 0, "%s=%s: status %#x: %s", trial->effect->option, trial->value,
          (unsigned)end.status, end.err);
    const char *figure = strstr(end.err, "figure ");
    CHECK(figure != NULL, "%s=%s: no figure in %s", trial->effect->option, trial->value, end.err);
    return strtol(figure + 7, NULL, 10);
}

static unsigned failure_count;

static void try_value(const struct effect *effect, const outcome_t *outcome, int way) {
    trial_t trial = {effect, outcome->value, way};
    long figure = figure_of(&trial);
    bool is_right = figure == LACKS_CPUS || (figure >= outcome->least && figure <= outcome->most);
    if (is_right) return;
    fprintf(stderr, "FAIL: %s=%s by %s: the figure is %ld, not in %ld..%ld\n", effect->option,
            outcome->value, ways[way], figure, outcome->least, outcome->most);
    failure_count++;
}

static void try_effect(const struct effect *effect, int change) {
    bool is_selector = strcmp(effect->option, "CONF") == 0;
    int last = change == ANY_TIME ? BY_CALL : is_selector ? BY_ENVIRONMENT : BY_CONF;
    for (int way = BY_ENVIRONMENT; way <= last; way++) {
        try_value(effect, &effect->one, way);
        try_value(effect, &effect->other, way);
    }
}

/* Each process has the rows that are its turn: with most of them it waits. */
static unsigned try_rows(unsigned index, unsigned step) {
    for (size_t k = index; k < COUNT_OF(effects); k += step)
        for (size_t i = 0; i < COUNT_OF(options); i++)
            if (strcmp(effects[k].option, options[i].name) == 0 &&
                (HAKMEM_DEBUG || options[i].kind != DEBUG))
                try_effect(&effects[k], options[i].change);
    return failure_count;
}

static unsigned options_without_a_row(void) {
    unsigned missing = 0;
    for (size_t i = 0; i < COUNT_OF(options); i++) {
        bool is_needed = options[i].kind != OBSOLETE && (HAKMEM_DEBUG || options[i].kind != DEBUG);
        for (size_t k = 0; k < COUNT_OF(effects); k++)
            is_needed &= strcmp(effects[k].option, options[i].name) != 0;
        if (!is_needed) continue;
        fprintf(stderr, "FAIL: no row of effects.c says what HAKMEM_%s changes\n", options[i].name);
        missing++;
    }
    return missing;
}

/* effects                 every option
 * effects ROW [VALUE]     the figure of one row, after a call of hakmem_option_set for VALUE */
int main(int argc, char **argv) {
    enum { AT_ONCE = 12 };
    if (argc > 1) {
        const struct effect *effect = &effects[argument(argc, argv, 1, 0)];
        if (argc > 2)
            CHECK(set_option(effect->option, argv[2]) == 0, "%s cannot be set", effect->option);
        fprintf(stderr, "figure %ld\n", effect->figure());
        return 0;
    }
    watchdog(240, "effects of options");
    require_hakmem();
    unsigned failures = options_without_a_row() + child_share(AT_ONCE, try_rows);
    CHECK(failures == 0, "%u options without their effect, see the lines above", failures);
    printf("%zu effects of %zu options seen\n", COUNT_OF(effects), COUNT_OF(options));
    return 0;
}
