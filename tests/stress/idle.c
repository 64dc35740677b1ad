/* idle.c - a program that frees all of a large heap and then makes no further call keeps little of
 * it, although it has no thread, and no helper thread either; also when it fills and frees its heap again later.
 *
 *     idle [MiB]
 *
 * Each trial is a process that allocates so many MiB in blocks of one tier and frees them in order, in
 * reverse or at random, three times. A second later resident memory must be at most the base and 5 % of them; of a
 * small heap 30 MiB, as 16 MiB are kept in any case (LEAST in thread/purge_ahead.c). */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"
#include "rng.h"

enum { ROUNDS = 3, IDLE_MS = 1000, KEPT_PERCENT = 5, KEPT_KIB = 30 << 10 };

static size_t bytes;

typedef enum { IN_ORDER, REVERSE, RANDOM, ORDERS } order_t;
static const char *const order_names[] = {"in order", "in reverse", "at random"};

struct trial {
    size_t least, most;
    order_t order;
};

static void check_round(const struct trial *trial, unsigned round, void **blocks, size_t base) {
    struct rng rng = rng_make(trial->least + round);
    size_t count = 0;
    for (size_t made = 0; made < bytes; count++) {
        size_t size = rng_size(&rng, trial->least, trial->most);
        blocks[count] = API(malloc)(size);
        CHECK(blocks[count] != NULL, "no memory");
        memset(blocks[count], 1, size);
        made += size;
    }
    CHECK(proc_rss_kib() - base > bytes / 1024 / 10 * 9, "so much does not show");
    if (trial->order == RANDOM) rng_shuffle(&rng, blocks, count);
    for (size_t i = 0; i < count; i++)
        API(free)(blocks[trial->order == REVERSE ? count - 1 - i : i]);
    size_t at_once = proc_rss_kib() - base;
    proc_sleep_ms(IDLE_MS);
    size_t kept = bytes / 1024 * KEPT_PERCENT / 100;
    size_t now = proc_rss_kib(), most = base + (kept > KEPT_KIB ? kept : KEPT_KIB);
    CHECK(proc_threads() == 1, "there are %u threads", proc_threads());
    fprintf(stdout, "%zu..%zu %s, round %u: %zu KiB at once, %zu after %d ms\n", trial->least,
            trial->most, order_names[trial->order], round, at_once, now - base, IDLE_MS);
    CHECK(now <= most, "%zu KiB of blocks of %zu..%zu freed %s remain in round %u", now - base,
          trial->least, trial->most, order_names[trial->order], round);
}

static void check(const void *context) {
    const struct trial *trial = context;
    size_t table = bytes / trial->least * sizeof(void *);
    void **blocks = mmap(NULL, table, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(blocks != MAP_FAILED, "no table");
    API(free)(API(malloc)(100));
    const size_t base = proc_rss_kib();
    for (unsigned round = 0; round < ROUNDS; round++) check_round(trial, round, blocks, base);
}

static const size_t sizes[][2] = {
    {16, 1024}, {8192, 8192}, {100 << 10, 100 << 10}, {3 << 20, 3 << 20}};

/* Bounds on time grow with the heap; at least 1. */
static unsigned gib(void) { return (unsigned)((bytes + ((size_t)1 << 30) - 1) >> 30); }

/* Most of a trial is the wait at its end. */
static unsigned try_sizes(unsigned index, unsigned step) {
    unsigned failures = 0;
    for (size_t i = index; i < sizeof sizes / sizeof *sizes * ORDERS; i += step) {
        struct trial trial = {sizes[i / ORDERS][0], sizes[i / ORDERS][1], (order_t)(i % ORDERS)};
        struct child_end end;
        child_run(check, &trial, 60 * gib(), &end);
        fputs(end.err, stderr);
        failures += !end.in_time || end.status != 0;
    }
    return failures;
}

int main(int argc, char **argv) {
    enum { AT_ONCE = 2 };
    bytes = argument(argc, argv, 1, 1024) << 20;
    watchdog(300 * gib(), "a program at rest");
    require_hakmem();
    CHECK(child_share(AT_ONCE, try_sizes) == 0, "a program at rest keeps what it has freed");
    return 0;
}
