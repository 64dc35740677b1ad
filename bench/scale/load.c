/* load.c: phases of a workload, and its blocks. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "lines.h"
#include "memory.h"
#include "sched.h"

enum { TOUCH_MOST = 256, PIECE = 32 };
enum { PREPARE, WARM, MEASURE, END };

load_options_t load_options;

static struct {
    worker_t *workers;
    unsigned arrived;
    uint64_t begun;
    char door, finished;
} run;

void *load_table(size_t size) { return scale_map(size); }

uint32_t load_random(worker_t *worker, uint32_t below) {
    worker->random = worker->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((worker->random >> 32) * below) >> 32);
}

/* ---- Blocks ------------------------------------------------------------------------------------ */

static uint64_t mark_of(const void *block) { return (uintptr_t)block * 0x9E3779B97F4A7C15u; }

__attribute__((noinline)) void *load_get_sized(size_t size) {
    void *block = malloc(size);
    if (!block) {
        fprintf(stderr, "scale: malloc(%zu) failed\n", size);
        _Exit(5);
    }
    scale_access(block, size < TOUCH_MOST ? size : TOUCH_MOST, ACCESS_WRITE,
                 (const char *)load_get_sized + 1);
    *(uint64_t *)block = mark_of(block);
    return block;
}

void *load_get(worker_t *worker) {
    const load_t *load = load_options.load;
    return load_get_sized(load->min + load_random(worker, load->max - load->min + 1));
}

__attribute__((noinline)) void load_check(void *block) {
    scale_access(block, sizeof(uint64_t), ACCESS_READ, (const char *)load_check + 1);
    if (*(uint64_t *)block == mark_of(block)) return;
    fputs("scale: a block was given to two users, or written by the allocator\n", stderr);
    _Exit(5);
}

void load_put(void *block) {
    if (!block) return;
    load_check(block);
    *(uint64_t *)block = 0;
    free(block);
}

/* ---- Phases ------------------------------------------------------------------------------------ */

static unsigned ops_of(const worker_t *worker, unsigned ops) {
    const load_t *load = load_options.load;
    ops /= load->divisor ? load->divisor : 1;
    return load->share ? load->share(worker->id, ops) : ops;
}

static void all_arrived(unsigned phase) {
    run.arrived = 0;
    if (phase == MEASURE) {
        sched_align();
        machine_reset();
        run.begun = sched_now();
    }
    if (phase == END) {
        sched_wake(&run.finished, 1, false);
        return;
    }
    sched_wake(&run.door, UINT32_MAX, true);
}

/* Waits until all workers are here; then the next phase begins. The last one ends for good. */
void load_next_phase(worker_t *worker) {
    worker->phase++;
    if (worker->phase == END) worker->finished_at = sched_now();
    if (worker->phase == WARM || worker->phase == MEASURE)
        worker->left = ops_of(worker, worker->phase == WARM ? load_options.warm : load_options.ops);
    if (++run.arrived == load_options.workers) {
        all_arrived(worker->phase);
    } else {
        sched_block(&run.door, 0, NULL);
    }
    while (worker->phase == END) sched_block(worker, 0, NULL);
}

static void fill(worker_t *worker) {
    for (unsigned i = 0; i < load_options.load->slots; i++) worker->slots[i] = load_get(worker);
}

static void prepare(worker_t *worker) {
    const load_t *load = load_options.load;
    worker->phase = PREPARE;
    if (load->prepare)
        load->prepare(worker);
    else
        fill(worker);
    load_next_phase(worker);
}

static void begin(worker_t *worker, void *(*life)(void *)) {
    pthread_t thread;
    scale_next_cpu = (int)(worker->id % machine_options.cpus);
    scale_pthread_create(&thread, NULL, life, worker);
    scale_pthread_detach(thread);
    scale_next_cpu = -1;
}

/* A thread of a worker: works for a round, then another thread takes over. */
void *load_life(void *value) {
    worker_t *worker = value;
    const load_t *load = load_options.load;
    unsigned quota = load->round ? load->round : UINT32_MAX;
    if (worker->phase == PREPARE) prepare(worker);
    while (quota) {
        while (!worker->left) load_next_phase(worker);
        unsigned ops = worker->left < PIECE ? worker->left : PIECE;
        if (ops > quota) ops = quota;
        load->work(worker, ops);
        worker->left -= ops;
        quota -= ops;
    }
    begin(worker, load_life);
    return NULL;
}

void load_run(void) {
    const load_t *load = load_options.load;
    run.workers = load_table(sizeof *run.workers * load_options.workers);
    for (unsigned i = 0; i < load_options.workers; i++) {
        worker_t *worker = &run.workers[i];
        worker->id = i;
        worker->random = (load_options.seed * 1000003 + i + 1) * 0x9E3779B97F4A7C15u;
        worker->slots = load_table(sizeof(void *) * (load->slots + 1));
    }
    for (unsigned i = 0; i < load_options.workers; i++)
        begin(&run.workers[i], load->life ? load->life : load_life);
    sched_block(&run.finished, 0, NULL);
}

uint64_t load_operations(void) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < load_options.workers; i++)
        sum += ops_of(&run.workers[i], load_options.ops);
    return sum;
}

uint64_t load_ns(void) {
    uint64_t latest = run.begun;
    for (unsigned i = 0; i < load_options.workers; i++)
        if (run.workers[i].finished_at > latest) latest = run.workers[i].finished_at;
    return latest - run.begun;
}
