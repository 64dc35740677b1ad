/*
 * bench_crowd - what threads that rest keep in memory.
 *
 *   bench_crowd [threads] [blocks] [kept] [active] [pairs] [min] [max] [seed] [turns] [at_once]
 *
 * Starts `threads` threads and looks at the resident memory before any of them has called malloc. Then
 * each allocates `blocks` blocks of `min` to `max` bytes, uses both ends of them, frees all but `kept`, and
 * rests. Then `active` of them replace a block at random `pairs` times, and rest again: all at once, as
 * the system lets them run, or `at_once` at a time, each of which lets the next one go on; they do so `turns` times. A
 * thread that keeps no block allocates and frees one in turn. Printed, net of the first look:
 *
 *   per_thread  resident bytes of one thread when all rest first, less the bytes it keeps
 *   overhead    resident bytes / bytes that are kept, then (0 when none are)
 *   after       the same as `per_thread` when the active ones rest again
 *   cpu_pairs   pairs of the active ones for each second of CPU time, which a busy machine changes less
 *
 * An operation is one malloc + free.
 */
#include "bench.h"

#include <semaphore.h>

enum { THREADS, BLOCKS, KEPT, ACTIVE, PAIRS, MIN, MAX, SEED, TURNS, AT_ONCE, ARGUMENTS };

static struct bench_arg args[ARGUMENTS] = {
    [THREADS] = {"threads", 1, 30000, 2000, 0}, /* each is two mappings to the kernel */
    [BLOCKS] = {"blocks", 1, 1u << 20, 10, 0},   [KEPT] = {"kept", 0, 1u << 20, 10, 0},
    [ACTIVE] = {"active", 0, 30000, 64, 0},      [PAIRS] = {"pairs", 1, 1u << 30, 1000, 0},
    [MIN] = {"min", 16, 1u << 20, 16, 0},        [MAX] = {"max", 16, 1u << 20, 1024, 0},
    [SEED] = {"seed", 1, UINT32_MAX, 4141, 0},   [TURNS] = {"turns", 1, 1u << 20, 1, 0},
    [AT_ONCE] = {"at_once", 1, 30000, 30000, 0},
};

struct worker {
    sem_t go;
    pthread_t thread;
    uint32_t state;
    char **blocks; /* a part of one table */
    uint64_t bytes;
    struct worker *next; /* goes on when this one has had its turn; or NULL */
};

static sem_t rests; /* posted by each thread that has done what it was told */

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0) continue;
}

static uint32_t next_size(struct worker *worker) {
    uint32_t low = (uint32_t)args[MIN].value, span = (uint32_t)args[MAX].value - low + 1;

    return low + bench_random(&worker->state) % span;
}

/* A block knows its size, by its last bytes but one: both ends are bench_malloc's. */
static char *make(struct worker *worker) {
    uint32_t size = next_size(worker);
    char *block = bench_malloc(size);

    memcpy(block + 4, &size, sizeof size);
    worker->bytes += size;
    return block;
}

static void drop(struct worker *worker, char *block) {
    uint32_t size;

    memcpy(&size, block + 4, sizeof size);
    worker->bytes -= size;
    free(block);
}

static void fill(struct worker *worker) {
    uint64_t blocks = args[BLOCKS].value, kept = args[KEPT].value;

    for (uint64_t i = 0; i < blocks; i++) worker->blocks[i] = make(worker);
    for (uint64_t i = blocks; i > kept; i--) drop(worker, worker->blocks[i - 1]);
}

static void replace(struct worker *worker) {
    uint64_t kept = args[KEPT].value;

    for (uint64_t i = 0; i < args[PAIRS].value; i++) {
        if (kept == 0) {
            drop(worker, make(worker));
            continue;
        }
        char **place = &worker->blocks[bench_random(&worker->state) % kept];
        drop(worker, *place);
        *place = make(worker);
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;

    sem_post(&rests);
    wait_for(&worker->go);
    fill(worker);
    sem_post(&rests);
    for (;;) {
        wait_for(&worker->go);
        replace(worker);
        if (worker->next) sem_post(&worker->next->go);
        sem_post(&rests);
    }
    return NULL;
}

static uint64_t cpu_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Lets the first `count` threads go on, at first `at_once` of them, and waits until they rest. */
static void run(struct worker *workers, uint64_t count, uint64_t at_once) {
    for (uint64_t i = 0; i < count && i < at_once; i++) sem_post(&workers[i].go);
    for (uint64_t i = 0; i < count; i++) wait_for(&rests);
}

/* The turns of the active threads. Returns the CPU time that they took. */
static uint64_t run_turns(struct worker *workers) {
    const uint64_t active = args[ACTIVE].value, at_once = args[AT_ONCE].value;
    const uint64_t start = cpu_ns();

    for (uint64_t i = 0; i + at_once < active; i++) workers[i].next = &workers[i + at_once];
    for (uint64_t turn = 0; turn < args[TURNS].value; turn++) run(workers, active, at_once);
    return cpu_ns() - start;
}

static uint64_t kept_bytes(const struct worker *workers) {
    uint64_t bytes = 0;

    for (uint64_t i = 0; i < args[THREADS].value; i++) bytes += workers[i].bytes;
    return bytes;
}

static double pairs_of_active(void) {
    return (double)(args[ACTIVE].value * args[PAIRS].value * args[TURNS].value);
}

/* Resident bytes of one thread beside those it keeps. */
static double per_thread(long kb, uint64_t bytes) {
    return ((double)kb * 1024 - (double)bytes) / (double)args[THREADS].value;
}

int main(int argc, char **argv) {
    struct worker *workers;
    char **table, extra[280];
    uint64_t count, blocks, start, ns, cpu, bytes, later;
    long floor, rss, after;

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    bench_in_order(&args[KEPT], &args[BLOCKS]);
    bench_in_order(&args[ACTIVE], &args[THREADS]);
    bench_in_order(&args[MIN], &args[MAX]);
    count = args[THREADS].value;
    blocks = args[BLOCKS].value;
    workers = bench_table(count, sizeof *workers);
    table = bench_table(count * blocks, sizeof *table);
    sem_init(&rests, 0, 0);
    for (uint64_t i = 0; i < count; i++) {
        workers[i].blocks = table + i * blocks;
        workers[i].state = bench_stream((uint32_t)args[SEED].value, (uint32_t)i);
        sem_init(&workers[i].go, 0, 0);
        workers[i].thread = bench_thread(work, &workers[i]);
    }
    for (uint64_t i = 0; i < count; i++) wait_for(&rests);
    floor = bench_rss_now_kb();

    start = bench_now_ns();
    run(workers, count, count);
    ns = bench_now_ns() - start;
    rss = bench_rss_now_kb() - floor;
    bytes = kept_bytes(workers);
    start = bench_now_ns();
    cpu = run_turns(workers);
    ns += bench_now_ns() - start;
    after = bench_rss_now_kb() - floor;
    later = kept_bytes(workers);

    snprintf(extra, sizeof extra,
             "per_thread=%.0f overhead=%.3f after=%.0f kept_kb=%llu floor_kb=%ld rss_kb=%ld "
             "cpu_pairs=%.0f",
             per_thread(rss, bytes), bytes != 0 ? (double)rss * 1024 / (double)bytes : 0,
             per_thread(after, later), (unsigned long long)bytes / 1024, floor, rss,
             pairs_of_active() / ((double)(cpu != 0 ? cpu : 1) / 1e9));
    bench_report(count * blocks + (uint64_t)pairs_of_active(), ns, extra);
    _exit(0); /* the threads still rest */
}
