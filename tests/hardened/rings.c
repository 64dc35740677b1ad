/* rings.c - under HAKMEM_LIMIT, threads that have freed large blocks and rest hold no more than an eighth of it: the others
 * find memory. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"

#define MIB ((size_t)1 << 20)
enum { THREADS = 6, ROUNDS = 40 };

static pthread_barrier_t all;

static void *use_and_rest(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        char *block = API(malloc)(15 * MIB);
        if (block) memset(block, 1, 15 * MIB);
        API(free)(block);
    }
    pthread_barrier_wait(&all);
    pthread_barrier_wait(&all);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    CHECK(strcmp(getenv("HAKMEM_LIMIT"), "256M") == 0, "another limit");
    pthread_barrier_init(&all, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_and_rest, NULL) == 0, "no thread");
    pthread_barrier_wait(&all);
    char *block = API(malloc)(200 * MIB);
    CHECK(block != NULL, "200 of 256 MiB are not there, and nothing is in use");
    block[0] = 1;
    API(free)(block);
    pthread_barrier_wait(&all);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
