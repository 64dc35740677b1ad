/* trials.c - runs every trial, and finds rows of stats.def without one. */
#define _GNU_SOURCE
#include "trials.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "cpu.h"

enum { WHERE_MOST = 4, NAME_SIZE = 48, SECONDS = 60 };

void *blocks[COUNT * 10];
void *volatile kept;

void allocate_some(size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) CHECK(blocks[i] = API(malloc)(size), "no memory");
}

void free_some(size_t count) {
    for (size_t i = 0; i < count; i++) API(free)(blocks[i]);
}

static size_t trial_count(void) {
    return counter_trial_count + set_trial_count + way_trial_count + record_trial_count;
}

/* NULL for one that has no setting. */
static const struct set_trial *set_trial_at(size_t i) {
    if (i < counter_trial_count) return NULL;
    i -= counter_trial_count;
    if (i < set_trial_count) return &set_trials[i];
    i -= set_trial_count;
    return i < way_trial_count ? &way_trials[i] : &record_trials[i - way_trial_count];
}

static const struct trial *trial_at(size_t i) {
    const struct set_trial *set = set_trial_at(i);
    return set ? &set->trial : &counter_trials[i];
}

/* Every name that a row is read by; returns how many. */
static size_t names_of(const struct trial *trial, char names[WHERE_MOST][NAME_SIZE]) {
    static const char *const tiers[] = {"tiny", "mid", "large", "huge"};
    static const char *const of_class[] = {"classes.224", "bands.C5"};
    static const char *const of_tier[] = {"tiers.tiny", "tiers.mid", "tiers.large", "tiers.huge"};
    const char *const *places = &trial->group;
    size_t count = 1;
    if (strcmp(trial->group, "classes") == 0) {
        places = of_class;
        count = COUNT_OF(of_class);
    } else if (strcmp(trial->group, "bands") == 0) {
        places = &of_class[1];
    } else if (strcmp(trial->group, "tiers") == 0) {
        places = of_tier;
        count = COUNT_OF(tiers);
    }
    for (size_t i = 0; i < count; i++)
        snprintf(names[i], NAME_SIZE, "%s.%s", places[i], trial->name);
    return count;
}

static void run_trial(const struct trial *trial) {
    char names[WHERE_MOST][NAME_SIZE];
    uint64_t before[WHERE_MOST];
    size_t count = names_of(trial, names);
    API(free)(API(malloc)(SIZE)); /* this thread has its cache */
    for (size_t i = 0; i < count; i++) before[i] = stat_of(names[i]);
    trial->program();
    for (size_t i = 0; i < count; i++) {
        uint64_t now = stat_of(names[i]), grown = now - before[i];
        CHECK(now >= before[i] && grown >= trial->least && grown <= trial->most,
              "%s went from %llu to %llu, not up by %llu..%llu", names[i],
              (unsigned long long)before[i], (unsigned long long)now,
              (unsigned long long)trial->least, (unsigned long long)trial->most);
    }
}

/* In the child; with a setting, as this program anew. */
static void start_trial(const void *context) {
    size_t i = *(const size_t *)context;
    const struct set_trial *set = set_trial_at(i);
    char setting[100], number[20];
    if (!set || !set->setting) {
        run_trial(trial_at(i));
        return;
    }
    snprintf(setting, sizeof setting, "%s", set->setting);
    snprintf(number, sizeof number, "%zu", i);
    putenv(setting);
    execl("/proc/self/exe", "counters", number, (char *)NULL);
}

static unsigned count_missing(void) {
    unsigned missing = 0;
    for (size_t i = 0; i < COUNT_OF(stat_rows); i++) {
        unsigned found = 0;
        for (size_t k = 0; k < trial_count(); k++)
            if (strcmp(trial_at(k)->group, stat_rows[i].group) == 0 &&
                strcmp(trial_at(k)->name, stat_rows[i].name) == 0)
                found++;
        if (found) continue;
        fprintf(stderr, "FAIL: no trial moves %s.%s\n", stat_rows[i].group, stat_rows[i].name);
        missing++;
    }
    return missing;
}

static unsigned run_in_child(void (*body)(const void *), const void *context, const char *group,
                             const char *name) {
    struct child_end end;
    child_run(body, context, SECONDS, &end);
    if (end.in_time && lacks_cpus(end.status)) printf("%s.%s: %s", group, name, end.err);
    if (end.in_time && (end.status == 0 || lacks_cpus(end.status))) return 0;
    fprintf(stderr, "FAIL: %s.%s: status %#x: %s", group, name, (unsigned)end.status, end.err);
    return 1;
}

static unsigned run_trials(unsigned index, unsigned step) {
    unsigned failures = 0;
    for (size_t k = index; k < trial_count(); k += step) {
        const struct trial *trial = trial_at(k);
        failures += run_in_child(start_trial, &k, trial->group, trial->name);
    }
    return failures;
}

/* counters          every trial
 * counters NUMBER   one, in this process */
int main(int argc, char **argv) {
    enum { AT_ONCE = 4 };
    watchdog(240, "statistics");
    if (argc > 1) {
        run_trial(trial_at(argument(argc, argv, 1, 0)));
        return 0;
    }
    unsigned missing = count_missing();
    CHECK(missing == 0, "%u figures without a program that moves them", missing);
    missing += child_share(AT_ONCE, run_trials);
    missing += run_in_child(check_sums, NULL, "all", "sums");
    CHECK(missing == 0, "%u programs did not move their figure as they should", missing);
    printf("%zu figures moved by %zu programs\n", COUNT_OF(stat_rows), trial_count());
    return 0;
}
