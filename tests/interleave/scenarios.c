/* scenarios.c: explores each row of a table, and counts. */
#include "scenarios.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

/* Executions of one scenario in the short dose: the long dose explores all. */
enum { SHORT_LIMIT = 4000 };

/* `name`: of the only one to explore, or NULL. */
static int must_hold(const explore_scenario_t *scenarios, unsigned count, bool heavy,
                     const char *name) {
    uint64_t executions = 0, violations = 0;
    uint64_t limit = heavy || name ? UINT64_MAX : SHORT_LIMIT;
    for (unsigned i = 0; i < count; i++) {
        if (name ? strcmp(scenarios[i].name, name) != 0 : scenarios[i].heavy && !heavy) continue;
        explore_result_t result = explore(&scenarios[i], 0, limit);
        trace_end(scenarios[i].name);
        executions += result.executions;
        bool cut = !result.exhausted && !result.failure;
        printf("%9llu executions%s, %8llu states: %s\n", (unsigned long long)result.executions,
               cut ? " of more" : "", (unsigned long long)result.states, scenarios[i].name);
        if (!result.failure) continue;
        violations++;
        explore_report();
    }
    printf("interleave: %llu executions, %llu violations\n", (unsigned long long)executions,
           (unsigned long long)violations);
    return violations ? 1 : 0;
}

static bool is_tried(const explore_scenario_t *scenario, const char *name) {
    return name ? strcmp(scenario->name, name) == 0 : !scenario->heavy;
}

/* So many executions in order 0 and, while these are few, as many in the others: what they do not find
 * soon, they find late as well. */
static explore_result_t search(const explore_scenario_t *scenario, uint64_t limit) {
    enum { ORDERS = 8, FEW = 4000 };
    explore_result_t all = explore(scenario, 0, limit);
    if (scenario->bounds || limit > FEW) return all;
    for (unsigned order = 1; order <= ORDERS && !all.failure && !all.exhausted; order++) {
        explore_result_t more = explore(scenario, order, limit / ORDERS);
        more.executions += all.executions;
        all = more;
    }
    return all;
}

/* The scenario of that name sees the mistake. Without a name one of them does, mostly at once, and
 * nobody knows which: all get a few executions first, then those that have more get more. */
static int must_fail(const explore_scenario_t *scenarios, unsigned count, const char *name) {
    enum { FIRST_LIMIT = 500, FIRST_BOUNDED = 40, GROWTH = 8, SCENARIOS_MAX = 256 };
    bool exhausted[SCENARIOS_MAX] = {false};
    if (count > SCENARIOS_MAX) abort();
    uint64_t executions = 0;
    unsigned left = count;
    uint64_t limit = scenarios->bounds ? FIRST_BOUNDED : FIRST_LIMIT;
    for (; left; limit *= GROWTH) {
        for (unsigned i = 0; i < count; i++) {
            if (exhausted[i]) continue;
            explore_result_t result = {.exhausted = true};
            if (is_tried(&scenarios[i], name)) result = search(&scenarios[i], limit);
            executions += result.executions;
            if (result.failure) {
                printf("found after %llu executions in \"%s\": %s\n",
                       (unsigned long long)executions, scenarios[i].name, result.failure);
                return 0;
            }
            exhausted[i] = result.exhausted;
            left -= exhausted[i];
        }
    }
    printf("SURVIVED %llu executions\n", (unsigned long long)executions);
    return 1;
}

int scenarios_main(const explore_scenario_t *scenarios, unsigned count, int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    trace_begin();
    const char *how = argc > 1 ? argv[1] : "", *name = argc > 2 ? argv[2] : NULL;
    if (strcmp(how, "--broken") == 0) return must_fail(scenarios, count, name);
    return must_hold(scenarios, count, strcmp(how, "--heavy") == 0, name);
}
