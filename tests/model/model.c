/* model.c - random operations against a shadow of what the heap must look like.
 *
 *     model [mix [operations [threads [seed]]]]
 *
 * Each thread holds blocks of its own and trades them through common boxes, so that other
 * threads resize and free them. Threads live for one round; blocks outlive them. The first violation ends the program with one line that names the seed. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "ops.h"

#define ROUND_COUNT 5
#define BOX_COUNT 128
#define THREAD_LIMIT 64

static const struct mix mixes[] = {
    {"tiny", 1, 2048, 3, 3000},       {"mid", 2049, 65536, 5, 400},
    {"large", 65537, 1 << 20, 5, 60}, {"huge", (1 << 20) + 1, 24 << 20, 10, 10},
    {"aligned", 1, 100000, 100, 200}, {"all", 1, 2 << 20, 5, 250},
};

struct run {
    const struct mix *mix;
    unsigned long op_count; /* of one thread in one round */
    unsigned thread_count;
    uint64_t seed;
    struct block **blocks[THREAD_LIMIT]; /* the records that a thread holds */
    _Atomic(struct block *) boxes[BOX_COUNT];
};

static struct run run;

/* The model's own memory never comes from the allocator under test. */
static void *own_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory for the model itself");
    return memory;
}

static void prepare_blocks(void) {
    unsigned per_thread = run.mix->block_count;
    size_t count = (size_t)per_thread * run.thread_count + BOX_COUNT;
    struct block *record = own_memory(count * sizeof *record);
    for (unsigned t = 0; t < run.thread_count; t++) {
        run.blocks[t] = own_memory(per_thread * sizeof *run.blocks[t]);
        for (unsigned i = 0; i < per_thread; i++) run.blocks[t][i] = record++;
    }
    for (unsigned i = 0; i < BOX_COUNT; i++) atomic_init(&run.boxes[i], record++);
}

static void one_operation(struct worker *worker, struct block **place) {
    struct block *block = *place;
    size_t dice = rng_below(&worker->rng, 32);
    if (dice < 4) {
        size_t box = rng_below(&worker->rng, BOX_COUNT);
        *place = atomic_exchange_explicit(&run.boxes[box], block, memory_order_acq_rel);
    } else if (block->ptr == NULL) {
        op_allocate(worker, block);
    } else if (dice < 8) {
        op_verify(worker, block);
    } else if (dice < 12) {
        op_resize(worker, block);
    } else {
        op_release(worker, block);
    }
}

struct worker_start {
    unsigned index;
    unsigned round;
};

static void *work(void *argument) {
    const struct worker_start *start = argument;
    unsigned life = start->round * THREAD_LIMIT + start->index;
    struct worker worker = {
        .mix = run.mix,
        .rng = rng_make(run.seed * 1000003 + life),
        .seed = run.seed,
        .index = start->index,
        .next_id = ((uint64_t)life << 40) + 1,
    };
    struct block **blocks = run.blocks[start->index];
    for (worker.op = 0; worker.op < run.op_count; worker.op++) {
        if (rng_below(&worker.rng, 8192) == 0) op_housekeeping(&worker);
        one_operation(&worker, &blocks[rng_below(&worker.rng, run.mix->block_count)]);
    }
    return NULL;
}

static void run_round(unsigned round) {
    pthread_t threads[THREAD_LIMIT];
    struct worker_start starts[THREAD_LIMIT];
    for (unsigned t = 0; t < run.thread_count; t++) {
        starts[t] = (struct worker_start){.index = t, .round = round};
        if (run.thread_count == 1)
            work(&starts[t]);
        else
            CHECK(pthread_create(&threads[t], NULL, work, &starts[t]) == 0, "no thread");
    }
    for (unsigned t = 0; run.thread_count > 1 && t < run.thread_count; t++)
        pthread_join(threads[t], NULL);
}

static void release_all(void) {
    struct worker last = {
        .mix = run.mix, .rng = rng_make(run.seed), .seed = run.seed, .index = THREAD_LIMIT};
    for (unsigned t = 0; t < run.thread_count; t++)
        for (unsigned i = 0; i < run.mix->block_count; i++)
            if (run.blocks[t][i]->ptr != NULL) op_release(&last, run.blocks[t][i]);
    for (unsigned i = 0; i < BOX_COUNT; i++)
        if (run.boxes[i]->ptr != NULL) op_release(&last, run.boxes[i]);
}

static const struct mix *find_mix(const char *name) {
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0]; i++)
        if (strcmp(mixes[i].name, name) == 0) return &mixes[i];
    check_failed(__FILE__, __LINE__, "no mix is called \"%s\"", name);
}

static size_t live_bytes(void) {
    api_mallinfo2 info = API(mallinfo2)();
    return info.uordblks + info.hblkhd;
}

int main(int argc, char **argv) {
    run.mix = find_mix(argc > 1 ? argv[1] : "all");
    unsigned long op_count = argument(argc, argv, 2, 200000);
    run.thread_count = (unsigned)argument(argc, argv, 3, 1);
    run.seed = argument(argc, argv, 4, (unsigned long)time(NULL) ^ (unsigned long)getpid());
    CHECK(run.thread_count >= 1 && run.thread_count <= THREAD_LIMIT, "1 to %d threads",
          THREAD_LIMIT);
    run.op_count = op_count / run.thread_count / ROUND_COUNT + 1;
    require_hakmem();
    printf("model: mix %s, %lu operations, %u threads, seed %" PRIu64 "\n", run.mix->name, op_count,
           run.thread_count, run.seed);
    fflush(stdout);
    prepare_blocks();
    size_t live_before = live_bytes();
    for (unsigned round = 0; round < ROUND_COUNT; round++) run_round(round);
    release_all();
    size_t live_after = live_bytes();
    CHECK(live_after <= live_before + (256 << 10), "%zu bytes live at the end, %zu at the start",
          live_after, live_before);
    puts("model: no violation");
    return 0;
}
