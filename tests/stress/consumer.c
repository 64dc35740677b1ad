/* consumer.c - four producers and one thread that only frees: memory must come back to the producers.
 *
 *     consumer [blocks in thousands [percent]]
 *
 * (peak resident memory - floor) / peak live bytes must stay below so many percent. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include "load.h"
#include "proc.h"

#define PRODUCERS 4
#define QUEUE 16384 /* blocks in the ring of each producer */
#define KIB 1024

struct ring {
    sem_t free_places;
    sem_t filled;
    unsigned index;
    void *blocks[QUEUE];
};

static struct ring rings[PRODUCERS];
static unsigned long per_producer;
static atomic_long live;
static atomic_long peak_live;

static void note_live(long change) {
    long now = atomic_fetch_add(&live, change) + change;
    long seen = atomic_load(&peak_live);
    while (now > seen && !atomic_compare_exchange_weak(&peak_live, &seen, now)) continue;
}

static void *produce(void *argument) {
    struct ring *ring = argument;
    struct rng rng = rng_make(ring->index);
    for (unsigned long i = 0; i < per_producer; i++) {
        size_t size = 16 + rng_below(&rng, 1024);
        while (sem_wait(&ring->free_places) != 0) continue;
        void *block = API(malloc)(size);
        CHECK(block != NULL, "malloc gave NULL");
        memset(block, 1, size);
        note_live((long)API(malloc_usable_size)(block));
        ring->blocks[i % QUEUE] = block;
        sem_post(&ring->filled);
    }
    return NULL;
}

static void consume(void) {
    for (unsigned long i = 0; i < per_producer; i++)
        for (size_t p = 0; p < PRODUCERS; p++) {
            while (sem_wait(&rings[p].filled) != 0) continue;
            void *block = rings[p].blocks[i % QUEUE];
            note_live(-(long)API(malloc_usable_size)(block));
            API(free)(block);
            sem_post(&rings[p].free_places);
        }
}

int main(int argc, char **argv) {
    pthread_t producers[PRODUCERS];
    per_producer = argument(argc, argv, 1, 400) * 1000 / PRODUCERS;
    unsigned long percent = argument(argc, argv, 2, 150);
    watchdog(240, "a consumer that only frees");
    require_hakmem();
    /* The rings' own pages belong to the floor: touch them. */
    memset(rings, 0, sizeof rings);
    size_t floor = proc_rss_kib();
    proc_reset_peak();
    for (unsigned p = 0; p < PRODUCERS; p++) {
        rings[p].index = p;
        sem_init(&rings[p].free_places, 0, QUEUE);
        sem_init(&rings[p].filled, 0, 0);
    }
    for (unsigned p = 0; p < PRODUCERS; p++)
        CHECK(pthread_create(&producers[p], NULL, produce, &rings[p]) == 0, "no thread");
    consume();
    for (unsigned p = 0; p < PRODUCERS; p++) pthread_join(producers[p], NULL);
    size_t grown = proc_status_kib("VmHWM") - floor;
    size_t most_live = (size_t)peak_live / KIB;
    printf("peak live %zu KiB, resident memory above the floor %zu KiB: %zu %%\n", most_live, grown,
           grown * 100 / most_live);
    CHECK(grown * 100 <= most_live * percent,
          "resident memory grew by %zu KiB for %zu KiB of live blocks at most", grown, most_live);
    return 0;
}
