/*
 * bench_calloc - zeroed blocks, new ones and ones that were used before.
 *
 *   bench_calloc [ops] [min] [max] [slots] [seed]
 *
 * slots > 0: a random slot is freed and filled with a new block of min..max bytes (as many
 * per doubling), so blocks come from memory that was used. slots = 0: `ops` blocks are
 * allocated and nothing is freed before the end, so memory is new. Both ends of each block
 * must be zero, and all of one block in 32; then one byte of every page is made not zero
 * (when reused: of new blocks only the two ends, so that RSS shows what calloc touched).
 * An operation is one calloc (+ free). touched = peak RSS net of the start / peak live bytes.
 */
#include "bench.h"

#define PAGE 4096
#define FULL_CHECK 32

enum { OPS, MIN, MAX, SLOTS, SEED, ARGUMENTS };

struct block {
    unsigned char *bytes;
    size_t size;
};

static struct {
    uint64_t bytes, bytes_peak;
} live;

static void check(const unsigned char *bytes, size_t size, bool whole) {
    bool zero = bytes[0] == 0 && bytes[size - 1] == 0;

    /* Zero at the start, and each byte equal to the next: zero throughout. */
    if (whole && zero) zero = memcmp(bytes, bytes + 1, size - 1) == 0;
    if (!zero) bench_fail(1, "calloc gave %zu bytes that are not zero", size);
}

static struct block new_block(uint32_t *state, uint64_t number, const struct bench_arg *args) {
    uint32_t low = (uint32_t)args[MIN].value, high = (uint32_t)args[MAX].value;
    struct block block = {.size = bench_size_log(state, low, high)};

    block.bytes = calloc(1, block.size);
    if (block.bytes == NULL) bench_fail(1, "calloc(1, %zu) gave NULL", block.size);
    check(block.bytes, block.size, number % FULL_CHECK == 0 && args[SLOTS].value > 0);
    block.bytes[0] = block.bytes[block.size - 1] = 0xA5;
    live.bytes += block.size;
    if (live.bytes > live.bytes_peak) live.bytes_peak = live.bytes;
    return block;
}

static void discard(struct block *block) {
    free(block->bytes);
    live.bytes -= block->size;
    *block = (struct block){.bytes = NULL};
}

/* Where in each page the byte is written changes with the block, so no offset is missed. */
static void make_dirty(struct block *block, uint64_t number) {
    for (size_t at = number * 61 % PAGE; at < block->size; at += PAGE) block->bytes[at] = 0x5A;
}

static void run_reused(struct block *blocks, const struct bench_arg *args, uint32_t *state) {
    for (uint64_t i = 0; i < args[OPS].value; i++) {
        struct block *block = &blocks[bench_random(state) % args[SLOTS].value];

        discard(block);
        *block = new_block(state, i, args);
        make_dirty(block, i);
    }
}

static void run_new(struct block *blocks, const struct bench_arg *args, uint32_t *state) {
    for (uint64_t i = 0; i < args[OPS].value; i++) blocks[i] = new_block(state, i, args);
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [OPS] = {"ops", 1, UINT64_C(1) << 40, 5000000, 0},
        [MIN] = {"min", 1, 1u << 28, 16, 0},
        [MAX] = {"max", 1, 1u << 28, 512, 0},
        [SLOTS] = {"slots", 0, 1u << 24, 4096, 0},
        [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},
    };
    struct block *blocks;
    uint64_t start, ns, count;
    uint32_t state;
    long floor, peak;
    char extra[160];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[MIN], &args[MAX]);
    state = (uint32_t)args[SEED].value;
    count = args[SLOTS].value != 0 ? args[SLOTS].value : args[OPS].value;
    if (count > 1u << 28) bench_fail(2, "ops must be at most %u when slots is 0", 1u << 28);
    blocks = bench_table(count, sizeof *blocks);

    floor = bench_rss_now_kb();
    start = bench_now_ns();
    (args[SLOTS].value != 0 ? run_reused : run_new)(blocks, args, &state);
    ns = bench_now_ns() - start;
    peak = bench_rss_peak_kb();
    for (uint64_t i = 0; i < count; i++)
        if (blocks[i].bytes != NULL) discard(&blocks[i]);

    snprintf(extra, sizeof extra, "slots=%llu ns_per_op=%.2f live_kb=%llu touched=%.3f",
             (unsigned long long)args[SLOTS].value, (double)ns / (double)args[OPS].value,
             (unsigned long long)(live.bytes_peak + count * sizeof *blocks) / 1024,
             (double)(peak - floor) * 1024 / (double)live.bytes_peak);
    bench_report(args[OPS].value, ns, extra);
    return 0;
}
