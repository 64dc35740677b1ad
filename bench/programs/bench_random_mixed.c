/*
 * bench_random_mixed - random allocation and freeing in a fixed working set.
 *
 *   bench_random_mixed [iterations] [working_set] [seed] [min] [max]
 *
 * Each step draws one xorshift32 number r; slot r % working_set is freed when it is
 * filled and else filled with 16 + (r & 1023) bytes, clamped to min..max, whose
 * first byte is written. A warm-up with another seed runs first, untimed.
 *
 *   HAKMEM_BENCH_PREFAULT=N          steps of the warm-up (default: iterations / 10)
 *   HAKMEM_BENCH_C5_ONLY=1           every block has 256 bytes
 *   HAKMEM_BENCH_C6_ONLY=1           512 bytes
 *   HAKMEM_BENCH_C7_ONLY=1           1024 bytes
 */
#include "bench.h"

#define WARM_SEED 0xDEADBEEFu

enum { ITERATIONS, WORKING_SET, SEED, MIN, MAX, ARGUMENTS };

struct load {
    char **slots;
    uint32_t slot_count;
    size_t min, max;
};

static void run(const struct load *load, uint64_t iterations, uint32_t seed) {
    char **slots = load->slots;
    const uint32_t slot_count = load->slot_count;
    const size_t min = load->min, max = load->max;
    uint32_t state = seed;

    for (uint64_t i = 0; i < iterations; i++) {
        uint32_t r = bench_random(&state);
        char **slot = &slots[r % slot_count];

        if (*slot != NULL) {
            free(*slot);
            *slot = NULL;
        } else {
            size_t size = 16u + (r & 1023u);
            char *block;

            size = size < min ? min : size > max ? max : size;
            block = malloc(size);
            if (__builtin_expect(block == NULL, 0)) bench_fail(1, "malloc(%zu) gave NULL", size);
            *block = (char)r;
            *slot = block;
        }
    }
}

static uint64_t environment_number(const char *name, uint64_t high, uint64_t otherwise) {
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? bench_number(name, text, 0, high) : otherwise;
}

/* At most one HAKMEM_BENCH_C*_ONLY may be on; it overrides min and max. */
static void fix_size(struct load *load) {
    static const struct {
        const char *name;
        size_t size;
    } fixed[] = {
        {"HAKMEM_BENCH_C5_ONLY", 256},
        {"HAKMEM_BENCH_C6_ONLY", 512},
        {"HAKMEM_BENCH_C7_ONLY", 1024},
    };
    const char *chosen = NULL;

    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (environment_number(fixed[i].name, 1, 0) == 0) continue;
        if (chosen != NULL) bench_fail(2, "%s and %s cannot both be 1", chosen, fixed[i].name);
        chosen = fixed[i].name;
        load->min = load->max = fixed[i].size;
    }
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [ITERATIONS] = {"iterations", 1, UINT64_C(1) << 48, 10000000, 0},
        [WORKING_SET] = {"working_set", 1, 1u << 30, 8192, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 1234567, 0},
        [MIN] = {"min", 1, 1u << 30, 16, 0},
        [MAX] = {"max", 1, 1u << 30, 1040, 0},
    };
    struct load load;
    uint64_t start, ns, warm;
    uint32_t seed;
    char extra[96];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[MIN], &args[MAX]);
    load.min = args[MIN].value;
    load.max = args[MAX].value;
    load.slot_count = (uint32_t)args[WORKING_SET].value;
    fix_size(&load);
    seed = (uint32_t)args[SEED].value;
    warm =
        environment_number("HAKMEM_BENCH_PREFAULT", UINT64_C(1) << 48, args[ITERATIONS].value / 10);
    load.slots = bench_table(load.slot_count, sizeof *load.slots);

    run(&load, warm, seed + WARM_SEED != 0 ? seed + WARM_SEED : 1);
    start = bench_now_ns();
    run(&load, args[ITERATIONS].value, seed);
    ns = bench_now_ns() - start;

    for (uint32_t i = 0; i < load.slot_count; i++) free(load.slots[i]);
    snprintf(extra, sizeof extra, "iter=%llu ws=%u", (unsigned long long)args[ITERATIONS].value,
             load.slot_count);
    bench_report(args[ITERATIONS].value, ns, extra);
    return 0;
}
