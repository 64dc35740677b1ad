/* timing.c - for every category of timing.def a program that moves it, compared with the statistics.
 *
 * Each program runs in its own process, with HAKMEM_TIMING=1. The count of a category must equal the growth
 * of the figures of the same steps; its sums must be plausible. A category that has
 * no row here fails the test. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"
#include "stats.h"

enum { MID = 10000, LARGE = 100000, COUNT = 402, SECONDS = 60, THREADS = 4, JSON_SIZE = 1 << 18 };

static void *blocks[COUNT];
static void *volatile kept; /* so that no call is optimised away */

/* ---- Programs -------------------------------------------------------------------------------- */

static void hold(size_t size) {
    for (int i = 0; i < COUNT; i++) CHECK(blocks[i] = API(malloc)(size), "no memory");
}

static void free_all(void) {
    for (int i = 0; i < COUNT; i++) API(free)(blocks[i]);
}

static void hold_mid(void) { hold(MID); }
static void hold_large(void) { hold(LARGE); }

static void swing_mid(void) {
    for (int round = 0; round < 5; round++) {
        hold(MID);
        free_all();
    }
}

static void *swing_own(void *unused) {
    void *own[COUNT];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < COUNT; i++) own[i] = API(malloc)(MID);
        for (int i = 0; i < COUNT; i++) API(free)(own[i]);
    }
    return unused;
}

static void swing_in_threads(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, swing_own, NULL) == 0, "no thread");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* The thread's home is the other shard. */
static void *free_there(void *unused) {
    kept = API(malloc)(8);
    free_all();
    return unused;
}

static void in_a_thread(void *(*body)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

static void free_mid_elsewhere(void) {
    hold(MID);
    in_a_thread(free_there);
    API(malloc_trim)(0);
}

static void *free_on_another_cpu(void *unused) {
    stay_on_cpu(1);
    free_all();
    return unused;
}

static void free_large_elsewhere(void) {
    stay_on_cpu(0);
    hold(LARGE);
    in_a_thread(free_on_another_cpu);
    hold(LARGE);
}

static void *hold_large_there(void *unused) {
    stay_on_cpu(1);
    hold(LARGE);
    return unused;
}

static void steal_large(void) {
    stay_on_cpu(0);
    hold(LARGE);
    for (int i = 0; i < COUNT; i++) memset(blocks[i], 1, LARGE);
    free_all();
    in_a_thread(hold_large_there);
}

/* ---- The table ------------------------------------------------------------------------------- */

/* How the count relates to the growth of the figures. */
enum relation { EQUALS, IS_AT_LEAST, IS_AT_MOST };

static const struct trial {
    const char *category;
    void (*program)(void);
    enum relation relation;
    const char *figures; /* their sum; "timing.NAME" is the count of another category */
    const char *setting; /* of an option that is fixed at start, or NULL */
} trials[] = {
    {"pool_lock", swing_mid, EQUALS, "bands.MID.shared_lock", NULL},
    {"pool_lock", swing_in_threads, EQUALS, "bands.MID.shared_lock", NULL},
    {"pool_refill", swing_mid, EQUALS, "bands.MID.uc_miss", NULL},
    {"pool_tc_drain", free_mid_elsewhere, IS_AT_MOST, "bands.MID.drained", NULL},
    {"pool_tls_ring_pop", swing_mid, EQUALS, "bands.MID.allocations", NULL},
    {"pool_tls_ring_pop", swing_in_threads, EQUALS, "bands.MID.allocations", NULL},
    {"pool_tls_lifo_pop", swing_mid, EQUALS, "refill.lifo", "HAKMEM_TLS_LO_MAX=100"},
    {"pool_remote_push", free_mid_elsewhere, IS_AT_MOST, "bands.MID.ss_remote", NULL},
    {"pool_alloc_tls_page", hold_mid, EQUALS, "bands.MID.slabs", NULL},
    {"l25_lock", hold_large, EQUALS, "timing.l25_refill", NULL},
    {"l25_refill", hold_large, IS_AT_LEAST, "large.local", NULL},
    {"l25_tls_ring_pop", free_large_elsewhere, IS_AT_LEAST, "large.remote",
     "HAKMEM_CONF=L25_PREF:remote,PURGE_DELAY_MS:-1"},
    {"l25_tls_lifo_pop", hold_large, EQUALS, "timing.l25_refill large.runs", NULL},
    {"l25_remote_push", free_large_elsewhere, EQUALS, "large.transferred large.spilled", NULL},
    {"l25_alloc_tls_page", hold_large, EQUALS, "large.runs", NULL},
    {"l25_shard_steal", steal_large, IS_AT_LEAST, "large.stolen", NULL},
};

static const char *const categories[] = {
#define TIMING(name, ...) #name,
#include "debug/timing.def"
};

/* ---- Reading ---------------------------------------------------------------------------------- */

static char report[JSON_SIZE];

/* The object of a category in the JSON. */
static const char *find(const char *category) {
    char key[60];
    CHECK(hakmem_stats_json(report, sizeof report) < sizeof report, "the JSON is too long");
    const char *timing = strstr(report, "\"timing\": {");
    CHECK(timing != NULL, "the JSON has no times");
    snprintf(key, sizeof key, "\"%s\": {", category);
    const char *found = strstr(timing, key);
    CHECK(found != NULL, "the JSON has no %s", category);
    return found;
}

static uint64_t member_of(const char *object, const char *name) {
    char key[60];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *found = strstr(object, key), *end = strchr(object, '}');
    CHECK(found != NULL && found < end, "there is no %s in %.100s", name, object);
    return strtoull(found + strlen(key), NULL, 10);
}

static uint64_t read_figures(const char *figures) {
    char names[200];
    uint64_t sum = 0;
    snprintf(names, sizeof names, "%s", figures);
    for (char *rest = names, *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        sum +=
            strncmp(word, "timing.", 7) == 0 ? member_of(find(word + 7), "count") : stat_of(word);
    return sum;
}

/* ---- Checks ----------------------------------------------------------------------------------- */

static void check_times(const char *category, uint64_t elapsed) {
    const char *object = find(category);
    uint64_t count = member_of(object, "count"), total = member_of(object, "total_ns");
    uint64_t mean = member_of(object, "mean_ns"), longest = member_of(object, "max_ns");
    uint64_t p50 = member_of(object, "p50_ns"), p99 = member_of(object, "p99_ns");
    CHECK(mean == total / count, "%s: a mean of %llu", category, (unsigned long long)mean);
    CHECK(p50 <= p99 && p99 <= longest && longest <= total && longest >= mean,
          "%s: no order in %.200s", category, object);
    CHECK(total > 0 && total <= elapsed, "%s: %llu ns of %llu", category, (unsigned long long)total,
          (unsigned long long)elapsed);
}

/* No category can have more than the time that passed, for each thread at work. */
static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run_trial(const struct trial *trial) {
    API(free)(API(malloc)(8)); /* this thread has its cache */
    uint64_t begin = now_ns();
    uint64_t count = member_of(find(trial->category), "count");
    uint64_t figures = read_figures(trial->figures);
    CHECK(hakmem_option_set("TIMING", "1") == 0, "times cannot be taken");
    trial->program();
    CHECK(hakmem_option_set("TIMING", "0") == 0, "times cannot be ended");
    count = member_of(find(trial->category), "count") - count;
    figures = read_figures(trial->figures) - figures;
    bool is_right = trial->relation == EQUALS        ? count == figures
                    : trial->relation == IS_AT_LEAST ? count >= figures
                                                     : count <= figures;
    CHECK(count > 0 && figures > 0 && is_right, "%llu times, and %llu of %s",
          (unsigned long long)count, (unsigned long long)figures, trial->figures);
    uint64_t elapsed = now_ns() - begin;
    check_times(trial->category, trial->program == swing_in_threads ? elapsed * THREADS : elapsed);
}

static void start_trial(const void *context) {
    size_t i = *(const size_t *)context;
    char setting[100], number[20];
    snprintf(setting, sizeof setting, "%s",
             trials[i].setting ? trials[i].setting : "HAKMEM_TIMING=1");
    snprintf(number, sizeof number, "%zu", i);
    putenv(setting);
    execl("/proc/self/exe", "timing", number, (char *)NULL);
}

/* Not a step is counted that nobody asked to time. */
static void check_untimed(const void *unused) {
    (void)unused;
    CHECK(hakmem_option_set("TIMING", "0") == 0, "times cannot be ended");
    uint64_t before = read_figures("timing.pool_lock timing.l25_lock");
    swing_mid();
    hold_large();
    CHECK(read_figures("timing.pool_lock timing.l25_lock") == before, "steps are timed unasked");
}

static unsigned check_rows(void) {
    unsigned wrong = 0;
    for (size_t i = 0; i < COUNT_OF(categories); i++) {
        unsigned found = 0;
        for (size_t k = 0; k < COUNT_OF(trials); k++)
            found += strcmp(trials[k].category, categories[i]) == 0;
        if (found > 0) continue;
        fprintf(stderr, "FAIL: %s has no row in timing.c\n", categories[i]);
        wrong++;
    }
    return wrong;
}

static unsigned run_in_child(void (*body)(const void *), const void *context, const char *name) {
    struct child_end end;
    child_run(body, context, SECONDS, &end);
    if (end.in_time && lacks_cpus(end.status)) printf("%s: %s", name, end.err);
    if (end.in_time && (end.status == 0 || lacks_cpus(end.status))) return 0;
    fprintf(stderr, "FAIL: %s: status %#x: %s", name, (unsigned)end.status, end.err);
    return 1;
}

/* timing          every trial
 * timing NUMBER   one, in this process */
int main(int argc, char **argv) {
    watchdog(110, "timing");
    if (argc > 1) {
        run_trial(&trials[argument(argc, argv, 1, 0)]);
        return 0;
    }
    unsigned wrong = check_rows();
    for (size_t i = 0; i < COUNT_OF(trials); i++)
        wrong += run_in_child(start_trial, &i, trials[i].category);
    wrong += run_in_child(check_untimed, NULL, "times that nobody asked for");
    CHECK(wrong == 0, "%u categories are not what they should be", wrong);
    printf("%zu categories moved by %zu programs\n", COUNT_OF(categories), COUNT_OF(trials));
    return 0;
}
