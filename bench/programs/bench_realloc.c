/*
 * bench_realloc - one block that doubles until it is huge, as vectors and buffers do.
 *
 *   bench_realloc [passes] [first] [megabytes]
 *
 * A pass starts with `first` bytes and doubles by realloc up to `megabytes` MiB; a word of
 * each new page is written and all of them are read back at the end. An operation is
 * one MiB by which the block grows; the time contains the use of the pages.
 *
 * Whether bytes were copied is seen like this: of each new half a quarter, from its middle
 * on, is left untouched (from 1 MiB on). If the middle page of that hole was not resident before
 * realloc and is afterwards, the block was copied. When it cannot be seen, because the
 * allocator's memory was not new, a block that has moved counts as copied. Printed: copied_mb,
 * the sum of the sizes of the blocks above 1 MiB that were copied, and moved, how
 * many blocks of any size came back at another address.
 */
#include "bench.h"

#define PAGE 4096u
#define SMALLEST_HOLE (1u << 20)

enum { PASSES, FIRST, MEGABYTES, ARGUMENTS };

static struct {
    uint64_t calls, moved, copied, realloc_ns;
} seen;

/* The untouched part of the half [size / 2, size); empty in small blocks. */
static size_t hole_start(size_t size) { return size / 2 + size / 4; }
static size_t hole_end(size_t size) {
    return size >= SMALLEST_HOLE ? hole_start(size) + size / 8 : hole_start(size);
}

static bool resident(const char *address) {
    unsigned char state = 0;
    char *page = (char *)((uintptr_t)address & ~(uintptr_t)(PAGE - 1));

    return mincore(page, PAGE, &state) != 0 || (state & 1) != 0;
}

/* Writes (or checks) the number of each page of [from, size) at the page's start. */
static void use(char *block, size_t from, size_t size, bool check) {
    for (size_t at = from; at < size; at += PAGE) {
        uint64_t word = at ^ UINT64_C(0x5DEECE66D);

        if (at >= hole_start(size) && at < hole_end(size)) continue;
        if (!check)
            memcpy(block + at, &word, sizeof word);
        else if (memcmp(block + at, &word, sizeof word) != 0)
            bench_fail(1, "byte %zu of a block of %zu has changed", at, size);
    }
}

static char *grow(char *block, size_t size) {
    size_t middle = (hole_start(size) + hole_end(size)) / 2;
    bool hole = size >= SMALLEST_HOLE && !resident(block + middle);
    uint64_t start = bench_now_ns();
    char *bigger = realloc(block, 2 * size);
    bool moved = bigger != block;

    if (bigger == NULL) bench_fail(1, "realloc to %zu bytes gave NULL", 2 * size);
    seen.realloc_ns += bench_now_ns() - start;
    seen.calls++;
    seen.moved += moved;
    if (size > SMALLEST_HOLE && moved && (!hole || resident(bigger + middle))) seen.copied += size;
    return bigger;
}

static void pass(size_t first, size_t last) {
    char *block = bench_malloc(first);
    size_t size = first;

    use(block, 0, size, false);
    for (; size <= last / 2; size *= 2) {
        block = grow(block, size);
        use(block, size, 2 * size, false);
    }
    for (size_t half = size; half > first; half /= 2) use(block, half / 2, half, true);
    use(block, 0, first, true);
    free(block);
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [PASSES] = {"passes", 1, 1u << 30, 1, 0},
        [FIRST] = {"first", 16, 1u << 20, 4096, 0},
        [MEGABYTES] = {"megabytes", 1, 1u << 20, 1024, 0},
    };
    uint64_t start, ns;
    char extra[200];

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    start = bench_now_ns();
    for (uint64_t i = 0; i < args[PASSES].value; i++)
        pass(args[FIRST].value, args[MEGABYTES].value << 20);
    ns = bench_now_ns() - start;

    snprintf(
        extra, sizeof extra,
        "passes=%llu megabytes=%llu copied_mb=%llu moved=%llu ns_per_realloc=%.0f live_kb=%llu",
        (unsigned long long)args[PASSES].value, (unsigned long long)args[MEGABYTES].value,
        (unsigned long long)(seen.copied >> 20), (unsigned long long)seen.moved,
        (double)seen.realloc_ns / (double)(seen.calls > 0 ? seen.calls : 1),
        (unsigned long long)args[MEGABYTES].value * 1024 * 3 / 4);
    bench_report(args[PASSES].value * args[MEGABYTES].value, ns, extra);
    return 0;
}
