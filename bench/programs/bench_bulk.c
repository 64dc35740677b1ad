/*
 * bench_bulk - phases: allocate N blocks of one size, then free all of them.
 *
 *   bench_bulk [blocks] [size] [order] [passes] [seed]
 *
 * order: 0 = free in the order of allocation, 1 = in reverse, 2 = at random (a fixed
 * permutation). One untimed pass runs first. An operation is one malloc + free pair.
 */
#include "bench.h"

enum { BLOCKS, SIZE, ORDER, PASSES, SEED, ARGUMENTS };

static const char *const order_names[] = {"inorder", "reverse", "random"};

/* permutation[i] = index of the block that is freed as number i */
static void fill_order(uint32_t *permutation, uint32_t count, uint64_t order, uint32_t seed) {
    uint32_t state = seed;

    for (uint32_t i = 0; i < count; i++) permutation[i] = order == 1 ? count - 1 - i : i;
    for (uint32_t i = count - 1; order == 2 && i > 0; i--) {
        uint32_t j = bench_random(&state) % (i + 1);
        uint32_t swap = permutation[i];

        permutation[i] = permutation[j];
        permutation[j] = swap;
    }
}

static void run(char **blocks, const uint32_t *permutation, uint32_t count, size_t size,
                uint64_t passes) {
    while (passes-- > 0) {
        for (uint32_t i = 0; i < count; i++) {
            blocks[i] = malloc(size);
            if (__builtin_expect(blocks[i] == NULL, 0))
                bench_fail(1, "malloc(%zu) gave NULL", size);
            *blocks[i] = 1;
        }
        for (uint32_t i = 0; i < count; i++) free(blocks[permutation[i]]);
    }
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [BLOCKS] = {"blocks", 1, 1u << 28, 1600, 0},
        [SIZE] = {"size", 1, 1u << 20, 64, 0},
        [ORDER] = {"order", 0, 2, 0, 0},
        [PASSES] = {"passes", 1, UINT64_C(1) << 40, 10000, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 1234567, 0},
    };
    uint64_t start, ns, pairs;
    uint32_t count;
    uint32_t *permutation;
    char **blocks;
    char extra[160];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    count = (uint32_t)args[BLOCKS].value;
    blocks = bench_table(count, sizeof *blocks);
    permutation = bench_table(count, sizeof *permutation);
    fill_order(permutation, count, args[ORDER].value, (uint32_t)args[SEED].value);

    run(blocks, permutation, count, args[SIZE].value, 1);
    start = bench_now_ns();
    run(blocks, permutation, count, args[SIZE].value, args[PASSES].value);
    ns = bench_now_ns() - start;

    pairs = args[PASSES].value * count;
    snprintf(
        extra, sizeof extra,
        "blocks=%u size=%llu order=%s passes=%llu ns_per_pair=%.3f live_kb=%llu", count,
        (unsigned long long)args[SIZE].value, order_names[args[ORDER].value],
        (unsigned long long)args[PASSES].value, (double)ns / (double)pairs,
        (unsigned long long)(count * (args[SIZE].value + sizeof *blocks + sizeof *permutation) /
                             1024));
    bench_report(pairs, ns, extra);
    return 0;
}
