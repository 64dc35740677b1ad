/* rest.c - what a program can see of the hardened path, and what it costs: a block that is resized where it is shows no
 * canary, the canary of one block tells none of another, and the children of a process place their blocks each in
 * another way; no request that fails takes freed blocks out of the quarantine, and a huge block that never rested is not
 * read when it is freed. Memory that was a program's heap in between holds what that wrote, which is no write after
 * free. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"

enum { BLOCKS = 50, SIZE = 100, MOST_FAULTS = 2000 };

static uint64_t cached(void) {
    int (*get)(const char *, uint64_t *) = dlsym(RTLD_DEFAULT, "hakmem_stats_get");
    uint64_t value = 0;
    CHECK(get("total.cached_bytes", &value) == 0, "there is no such figure");
    return value;
}

static void test_failing_requests(void) {
    static const size_t sizes[] = {(size_t)1 << 60, (size_t)1 << 48, PTRDIFF_MAX};
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) blocks[i] = API(malloc)(SIZE);
    for (int i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
    for (int i = 0; i < 3; i++) {
        uint64_t before = cached();
        volatile size_t size = sizes[i];
        CHECK(before >= (uint64_t)BLOCKS * SIZE, "only %d bytes rest", (int)before);
        CHECK(API(malloc)(size) == NULL, "%zu bytes", size);
        CHECK(cached() == before, "%d of %d bytes rest after a request for %zu", (int)cached(),
              (int)before, size);
    }
}

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0, "no usage");
    return usage.ru_minflt;
}

/* One page of each is touched. */
static void test_untouched(void) {
    for (size_t size = (size_t)64 << 20; size <= (size_t)2 << 30; size *= 2) {
        long before = faults();
        char *block = API(malloc)(size);
        CHECK(block != NULL, "no memory");
        memset(block, 1, 100);
        API(free)(block);
        CHECK(faults() - before < MOST_FAULTS, "%ld faults with a block of %zu bytes",
              faults() - before, size);
    }
}

/* A block that stays for new sizes; what it grows by is zero, since nobody wrote there. */
static void test_canaries(void) {
    static const size_t sizes[] = {17, 40, 100, 1000, 3000, 20000, 70000, 1100000, 3000000};
    unsigned stayed = 0;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t more = 1; more <= 24; more++) {
            char *block = API(realloc)(API(calloc)(1, sizes[i]), sizes[i] - 8);
            char *grown = API(realloc)(block, sizes[i] - 8 + more);
            CHECK(block && grown, "no memory");
            stayed += grown == block;
            for (size_t at = 0; at < sizes[i] - 8 + more; at++)
                CHECK(grown[at] == 0, "byte %zu of %zu shows the canary of %zu", at,
                      sizes[i] - 8 + more, sizes[i] - 8);
            API(free)(grown);
        }
    }
    CHECK(stayed > 100, "%u blocks stayed", stayed);
}

/* What lies behind one block tells nobody what lies behind another: each secret byte of the canaries of a class takes
 * many of its 128 values. */
static void test_values_of_canaries(void) {
    static const size_t sizes[] = {8,   24,  40, 100,
                                   500, 1000}; /* eight bytes or more are left in their classes */
    enum { CANARY = 7, BLOCKS_OF_A_SIZE = 1500, LEAST = 110 };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool seen[CANARY][256] = {{false}};
        for (int k = 0; k < BLOCKS_OF_A_SIZE; k++) {
            const volatile unsigned char *block = API(malloc)(sizes[i]);
            CHECK(block != NULL, "no memory");
            for (int at = 0; at < CANARY; at++) seen[at][block[sizes[i] + at]] = true;
        }
        for (int at = 0; at < CANARY; at++) {
            unsigned values = 0;
            for (int value = 0; value < 256; value++) values += seen[at][value];
            CHECK(values >= LEAST, "byte %d behind blocks of %zu bytes has %u values", at, sizes[i],
                  values);
        }
    }
}

/* Where the next blocks of a process lie: a sum over their order. */
static uint64_t places(void) {
    uint64_t sum = 0;
    for (int i = 0; i < 200; i++) {
        void *block = API(malloc)(SIZE);
        sum = sum * 0x9E3779B97F4A7C15u + (uintptr_t)block;
        if (i % 2) API(free)(block);
    }
    return sum;
}

/* In a thread, which gets a cache that waits for one. */
static uint64_t places_of_thread(void) { return number_in_thread(places); }

/* Children of one process place their blocks each in another way. */
static void test_forks(uint64_t (*find)(void)) {
    API(free)(API(malloc)(SIZE));
    CHECK(number_in_child(find) != number_in_child(find), "two children place their blocks alike");
}

enum { MANY = 20000, PARTS = 60, PART = 60000 };

/* Its end gives all that rests to the slabs, and these give their units back. */
static void *fill_and_free(void *blocks) {
    void **at = blocks;
    for (int i = 0; i < MANY; i++) CHECK((at[i] = API(malloc)(SIZE)) != NULL, "no memory");
    for (int i = 0; i < MANY; i++) API(free)(at[i]);
    return NULL;
}

static void run_thread(void **blocks) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fill_and_free, blocks) == 0, "no thread");
    pthread_join(thread, NULL);
}

static void test_units_of_a_heap(void) {
    static void *blocks[MANY];
    void *(*make)(size_t) = dlsym(RTLD_DEFAULT, "hakmem_heap_new");
    void *(*allocate)(void *, size_t) = dlsym(RTLD_DEFAULT, "hakmem_heap_malloc");
    void (*destroy)(void *) = dlsym(RTLD_DEFAULT, "hakmem_heap_destroy");
    unsigned again = 0;
    run_thread(blocks);
    void *heap = make(0);
    for (int i = 0; i < PARTS; i++) {
        char *part = allocate(heap, PART);
        CHECK(part != NULL, "no memory");
        memset(part, 1, PART);
        for (int k = 0; k < MANY; k++) again += (uintptr_t)blocks[k] - (uintptr_t)part < PART;
    }
    CHECK(again > MANY / 10, "the heap has the memory of %u blocks only", again);
    destroy(heap);
    run_thread(blocks);
}

int main(void) {
    test_forks(places);
    test_canaries();
    test_values_of_canaries();
    test_failing_requests();
    test_untouched();
    places_of_thread(); /* leaves a cache that waits */
    test_forks(places_of_thread);
    test_units_of_a_heap(); /* last: its memory is not zero */
    return 0;
}
