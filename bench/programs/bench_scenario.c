/*
 * bench_scenario - what real programs do with their allocator, in small.
 *
 *   bench_scenario NAME [ops] [seed]
 *
 * NAME is one of the table below; each scenario has a file of its own, whose head says
 * which programs it stands for and what it allocates. A tenth of the operations run
 * first, untimed and with another seed. Each scenario checks what it reads back, and its
 * checksum depends on the number of operations and the seed, not on the allocator.
 */
#include "scenario.h"

enum { OPS, SEED, ARGUMENTS };

static const struct {
    const char *name;
    void (*body)(struct scenario_run *run);
    uint64_t ops; /* about half a second */
} scenarios[] = {
    {"string-builder", scenario_string_builder, 20000000},
    {"token-stream", scenario_token_stream, 10000000},
    {"small-objects", scenario_small_objects, 10000000},
    {"json", scenario_json, 5000000},
    {"mir", scenario_mir, 20000},
    {"vm", scenario_vm, 10000000},
};

#define SCENARIOS (sizeof scenarios / sizeof scenarios[0])

static size_t scenario_named(const char *name) {
    char names[160] = "";
    size_t used = 0;

    for (size_t i = 0; i < SCENARIOS; i++) {
        if (name != NULL && strcmp(name, scenarios[i].name) == 0) return i;
        used += (size_t)snprintf(names + used, sizeof names - used, " %s", scenarios[i].name);
    }
    if (name == NULL) bench_fail(2, "which scenario? One of:%s", names);
    if (bench_wants_help(name)) {
        printf("usage: bench_scenario NAME [ops] [seed]; NAME is one of:%s\n", names);
        bench_flush();
        exit(0);
    }
    bench_fail(2, "no scenario '%s'; there are:%s", name, names);
}

static struct scenario_run run_one(size_t number, uint64_t ops, uint32_t seed) {
    struct scenario_run run = {.wanted = ops, .state = seed};

    scenarios[number].body(&run);
    return run;
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [OPS] = {"ops", 1, UINT64_C(1) << 48, 0, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 1234567, 0},
    };
    struct scenario_run run;
    uint64_t start, ns;
    uint32_t seed;
    size_t number;
    char extra[160];

    bench_start();
    number = scenario_named(argc > 1 ? argv[1] : NULL);
    args[OPS].value = scenarios[number].ops;
    bench_arguments(args, ARGUMENTS, argc - 1, argv + 1);
    seed = (uint32_t)args[SEED].value;

    run_one(number, args[OPS].value / 10 + 1, bench_stream(seed, 1));
    start = bench_now_ns();
    run = run_one(number, args[OPS].value, seed);
    ns = bench_now_ns() - start;

    snprintf(extra, sizeof extra, "scenario=%s ops=%llu ns_per_op=%.2f checksum=0x%016llx",
             scenarios[number].name, (unsigned long long)run.done, (double)ns / (double)run.done,
             (unsigned long long)run.checksum);
    bench_report(run.done, ns, extra);
    return 0;
}
