/* churn.c - many short-lived threads hand blocks to the main thread: memory must not grow.
 *
 *     churn [threads]
 *
 * The main thread keeps a full table of handed blocks and frees an old one for each new one, of the
 * same size, and every group of threads does the same work. So the live bytes of each size stay the same.
 * After the first tenth of the threads the table is full: from then on resident memory may grow by 2 %
 * and by what the order of the threads moves from slab to slab, and the number of live blocks must not. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include "figures.h"
#include "load.h"
#include "proc.h"

#define AT_ONCE 4
#define HANDED 50
#define KEPT 5000
#define SAMPLES 100 /* in a tenth of the run */
#define LEAST_SIZE 16
#define MOST_SIZE 2000
#define MOVED_KIB 512 /* eight slabs; a cache lost with each thread would be tens of MiB */

struct hand_over {
    uint64_t seed;
    size_t places[HANDED]; /* entries of the table; each keeps its size, so live bytes stay equal */
    void *blocks[HANDED];
};

static void *kept[KEPT];
static pthread_barrier_t together;

static void *block_for(size_t place) {
    size_t size = LEAST_SIZE + place * 7919 % (MOST_SIZE - LEAST_SIZE);
    void *block = API(malloc)(size);
    CHECK(block != NULL, "malloc(%zu) gave NULL", size);
    memset(block, 1, size);
    return block;
}

static void *short_life(void *argument) {
    struct hand_over *hand_over = argument;
    struct load own = {.rng = rng_make(hand_over->seed), .most = MOST_SIZE};
    load_run(&own, 500);
    /* All are at work at once in each group: else the highest number of busy threads, and with it
     * the memory in use, would be a matter of chance that may come late. */
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < HANDED; i++) hand_over->blocks[i] = block_for(hand_over->places[i]);
    load_end(&own);
    return NULL;
}

static void prepare(struct rng *rng, struct hand_over *hand_over, size_t number) {
    hand_over->seed = number + 1;
    for (size_t i = 0; i < HANDED; i++) hand_over->places[i] = rng_below(rng, KEPT);
}

static void take_over(const struct hand_over *hand_over) {
    for (size_t i = 0; i < HANDED; i++) {
        void **place = &kept[hand_over->places[i]];
        API(free)(*place);
        *place = hand_over->blocks[i];
    }
}

/* Makes so many threads, AT_ONCE at a time. */
static void make_threads(struct rng *rng, unsigned long count) {
    pthread_t threads[AT_ONCE];
    struct hand_over hand_overs[AT_ONCE];
    for (unsigned long done = 0; done < count; done += AT_ONCE) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            prepare(rng, &hand_overs[i], i);
            CHECK(pthread_create(&threads[i], NULL, short_life, &hand_overs[i]) == 0,
                  "no thread after %lu", done);
        }
        for (size_t i = 0; i < AT_ONCE; i++) {
            pthread_join(threads[i], NULL);
            take_over(&hand_overs[i]);
        }
    }
}

/* The highest resident memory seen while so many threads come and go. */
static size_t peak_over(struct rng *rng, unsigned long count) {
    size_t peak = 0;
    for (int i = 0; i < SAMPLES; i++) {
        make_threads(rng, count / SAMPLES);
        size_t now = proc_rss_kib();
        peak = now > peak ? now : peak;
    }
    return peak;
}

/* Blocks that the program holds. What waiting caches held is in its slabs first, so that nothing
 * moves while they are counted. */
static uint64_t blocks_in_use(void) {
    API(malloc_trim)(0);
    return figure("total.live");
}

int main(int argc, char **argv) {
    unsigned long count = argument(argc, argv, 1, 40000);
    watchdog(60 + (unsigned)(count / 1000), "thread churn");
    require_hakmem();
    pthread_barrier_init(&together, NULL, AT_ONCE);
    struct rng rng = rng_make(1);
    for (size_t i = 0; i < KEPT; i++) kept[i] = block_for(i);
    size_t early = peak_over(&rng, count / 10);
    uint64_t held = blocks_in_use();
    make_threads(&rng, count / 10 * 8);
    size_t late = peak_over(&rng, count / 10);
    CHECK(late <= early + early / 50 + MOVED_KIB,
          "resident memory grew from %zu to %zu KiB over %lu threads", early, late, count);
    uint64_t held_last = blocks_in_use();
    CHECK(held_last == held, "%" PRIu64 " blocks are live, %" PRIu64 " were after a tenth",
          held_last, held);
    for (size_t i = 0; i < KEPT; i++) API(free)(kept[i]);
    printf("%lu threads: %zu KiB in the first tenth, %zu KiB in the last; leak %" PRIu64
           " blocks, %" PRIu64 " caches\n",
           count, early, late, held_last - held, figure("threads.caches"));
    return 0;
}
