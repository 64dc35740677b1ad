/*
 * bench_aligned - blocks with an alignment, as vector code, file buffers and pools ask for.
 *
 *   bench_aligned [ops] [slots] [low] [high] [seed]
 *
 * A random slot is freed and filled with a block aligned to a power of two in low..high,
 * of one quarter to four times that size, by posix_memalign, aligned_alloc and memalign in
 * turn (aligned_alloc with a multiple of the alignment, as C11 wanted it). Each
 * address is checked, both ends are written and read again when the block dies. An
 * operation is one free + aligned allocation.
 */
#include "bench.h"

#include <malloc.h>

enum { OPS, SLOTS, LOW, HIGH, SEED, ARGUMENTS };

struct block {
    char *bytes;
    size_t size;
};

static struct {
    uint64_t bytes, bytes_peak;
} live;

static void *allocate(uint64_t number, size_t alignment, size_t size) {
    void *bytes = NULL;

    switch (number % 3) {
    case 0:
        return posix_memalign(&bytes, alignment, size) == 0 ? bytes : NULL;
    case 1:
        return aligned_alloc(alignment, size);
    default:
        return memalign(alignment, size);
    }
}

static struct block new_block(uint32_t *state, uint64_t number, uint32_t low, uint32_t doublings) {
    size_t alignment = (size_t)low << bench_random(state) % (doublings + 1);
    struct block block = {.size = alignment / 4 + bench_random(state) % (4 * alignment)};

    if (number % 3 == 1) block.size = (block.size + alignment - 1) & ~(alignment - 1);
    block.bytes = allocate(number, alignment, block.size);
    if (block.bytes == NULL) bench_fail(1, "no block of %zu bytes", block.size);
    if (((uintptr_t)block.bytes & (alignment - 1)) != 0)
        bench_fail(1, "%p is not aligned to %zu", (void *)block.bytes, alignment);
    block.bytes[0] = block.bytes[block.size - 1] = (char)block.size;
    live.bytes += block.size;
    if (live.bytes > live.bytes_peak) live.bytes_peak = live.bytes;
    return block;
}

static void discard(struct block *block) {
    if (block->bytes == NULL) return;
    if (block->bytes[0] != (char)block->size || block->bytes[block->size - 1] != (char)block->size)
        bench_fail(1, "a block of %zu bytes has changed", block->size);
    free(block->bytes);
    live.bytes -= block->size;
    block->bytes = NULL;
}

static bool is_power(uint64_t value) { return (value & (value - 1)) == 0; }

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [OPS] = {"ops", 1, UINT64_C(1) << 40, 5000000, 0},
        [SLOTS] = {"slots", 1, 1u << 24, 1000, 0},
        [LOW] = {"low", 8, 1u << 24, 16, 0},
        [HIGH] = {"high", 8, 1u << 24, 4096, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
    };
    struct block *blocks;
    uint64_t start, ns;
    uint32_t state, low, doublings = 0;
    char extra[160];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[LOW], &args[HIGH]);
    if (!is_power(args[LOW].value) || !is_power(args[HIGH].value))
        bench_fail(2, "low and high must be powers of two");
    state = (uint32_t)args[SEED].value;
    low = (uint32_t)args[LOW].value;
    while ((uint64_t)low << (doublings + 1) <= args[HIGH].value) doublings++;
    blocks = bench_table(args[SLOTS].value, sizeof *blocks);

    start = bench_now_ns();
    for (uint64_t i = 0; i < args[OPS].value; i++) {
        struct block *block = &blocks[bench_random(&state) % args[SLOTS].value];

        discard(block);
        *block = new_block(&state, i, low, doublings);
    }
    ns = bench_now_ns() - start;
    for (uint64_t i = 0; i < args[SLOTS].value; i++) discard(&blocks[i]);

    snprintf(extra, sizeof extra, "slots=%llu ns_per_op=%.2f live_kb=%llu",
             (unsigned long long)args[SLOTS].value, (double)ns / (double)args[OPS].value,
             (unsigned long long)(live.bytes_peak + args[SLOTS].value * sizeof *blocks) / 1024);
    bench_report(args[OPS].value, ns, extra);
    return 0;
}
