/* copied_tags.c - free blocks above 2 KiB carry a tag, and a right program may copy it: with memory that it
 * has not written. All blocks that are freed here have it, so that each free looks for its block among the free ones,
 * while their threads fill and empty the caches that it looks into. No look may find it.
 *
 *     copied_tags [rounds [threads]]
 *
 * A wrong finding aborts the program. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "load.h"

enum { THREADS_MOST = 128, SLOTS = 64, OWN = 48 };

static const size_t sizes[] = {64, 2048, 2049, 3000, 4096, 8192, 20000, 65536};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void *_Atomic slots[SLOTS]; /* blocks that go from thread to thread */
static uintptr_t tag;
static unsigned long rounds;

/* The compiler must not know that it is freed. */
static uintptr_t tag_of_freed(void) {
    void *volatile block = API(malloc)(4096);
    memset(block, 1, 4096);
    API(free)(block);
    return *(uintptr_t *)block;
}

static void *make(struct rng *rng) {
    uintptr_t *block = API(malloc)(sizes[rng_below(rng, SIZES)]);
    CHECK(block != NULL, "malloc gave NULL");
    *block = tag;
    return block;
}

static void *work(void *index) {
    struct rng rng = rng_make((unsigned)(uintptr_t)index);
    void *own[OWN] = {NULL};
    for (unsigned long round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < OWN; i++) own[i] = make(&rng);
        for (unsigned i = 0; i < OWN; i++) {
            void *other = atomic_exchange(&slots[rng_below(&rng, SLOTS)], own[i]);
            API(free)(other);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS_MOST];
    rounds = argument(argc, argv, 1, 300);
    unsigned long count = argument(argc, argv, 2, 4);
    watchdog(100, "frees of blocks with the tag");
    require_hakmem();
    CHECK(count <= THREADS_MOST, "too many threads");
    tag = tag_of_freed();
    CHECK(tag != (uintptr_t)0x0101010101010101, "a freed block has no tag");
    for (unsigned long i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread");
    for (unsigned long i = 0; i < count; i++) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < SLOTS; i++) API(free)(slots[i]);
    return 0;
}
