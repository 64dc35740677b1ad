/* live.c - live bytes are the sum of the usable sizes of the program's blocks.
 *
 *     test_stats_live OPERATIONS
 *
 * The sum is exact whenever no thread allocates: in one thread, in eight threads at a barrier, after other
 * threads freed blocks, after the threads ended. While four threads do OPERATIONS random operations, a
 * fifth one reads: no figure is ever negative, and no counter ever falls. */
#define _GNU_SOURCE
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "rng.h"
#include "stats.h"

enum { THREADS = 8, EACH = 2000, WORKERS = 4, SLOTS = 500, JSON_SIZE = 1 << 18 };

/* Mostly small, some of each tier. */
static size_t random_size(struct rng *rng) {
    switch (rng_next(rng) % 200) {
    case 0:
        return 1 + rng_next(rng) % (3 << 20);
    case 1:
    case 2:
        return 1 + rng_next(rng) % (1 << 20);
    case 3:
    case 4:
    case 5:
    case 6:
        return 1 + rng_next(rng) % 65536;
    default:
        return rng_next(rng) % 2100;
    }
}

static void *block_of(struct rng *rng) {
    size_t size = random_size(rng);
    void *block = rng_next(rng) % 8 ? API(malloc)(size) : API(memalign)(64, size);
    CHECK(block != NULL, "no memory");
    return block;
}

/* ---- At rest --------------------------------------------------------------------------------- */

static struct {
    void *block;
    size_t usable;
} held[THREADS][EACH];
static pthread_barrier_t barrier;

/* What the table says is held. */
static uint64_t sum_held(size_t *count) {
    uint64_t sum = 0;
    *count = 0;
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < EACH; i++)
            if (held[t][i].block) {
                sum += held[t][i].usable;
                ++*count;
            }
    return sum;
}

static void fill(int owner, struct rng *rng) {
    for (int i = 0; i < EACH; i++) {
        held[owner][i].block = block_of(rng);
        held[owner][i].usable = API(malloc_usable_size)(held[owner][i].block);
    }
}

/* Frees every `step`th block of an owner. */
static void empty(int owner, int step) {
    for (int i = 0; i < EACH; i += step) {
        API(free)(held[owner][i].block);
        held[owner][i].block = NULL;
    }
}

/* Live bytes and blocks of everybody else in this process: libc's, the harness's. */
static uint64_t others_bytes, others_blocks;

static void expect_exact(const char *when) {
    size_t count;
    uint64_t sum = sum_held(&count);
    uint64_t bytes = stat_of("total.live_bytes") - others_bytes;
    uint64_t blocks = stat_of("total.live") - others_blocks;
    CHECK(bytes == sum && blocks == count,
          "%s: %llu bytes in %llu blocks are live, not %llu in %zu", when,
          (unsigned long long)bytes, (unsigned long long)blocks, (unsigned long long)sum, count);
#if HAKMEM_DEBUG
    uint64_t given = stat_of("total.allocations"), back = stat_of("total.frees");
    CHECK(given - back == stat_of("total.live"), "%s: %llu blocks given, %llu back", when,
          (unsigned long long)given, (unsigned long long)back);
#endif
    api_mallinfo2 info = API(mallinfo2)();
    CHECK(stat_of("total.live_bytes") == info.uordblks + info.hblkhd, "%s: mallinfo2 differs",
          when);
}

static void set_others(void) {
    size_t count;
    others_bytes = stat_of("total.live_bytes") - sum_held(&count);
    others_blocks = stat_of("total.live") - count;
}

/* The main thread is the ninth at the barrier; it looks between two of its visits. */
static void stop(void) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
}

static void *be_one_of_many(void *argument) {
    int self = (int)(intptr_t)argument;
    struct rng rng = rng_make((uint64_t)self);
    API(free)(API(malloc)(1));
    stop();
    fill(self, &rng);
    stop();
    empty((self + 1) % THREADS, 2); /* another one's */
    stop();
    fill(self, &rng);
    return NULL;
}

static void look(const char *when) {
    pthread_barrier_wait(&barrier);
    if (when)
        expect_exact(when);
    else
        set_others();
    pthread_barrier_wait(&barrier);
}

static void many_threads(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, be_one_of_many, (void *)(intptr_t)t) == 0,
              "no thread");
    look(NULL);
    look("with eight threads that hold blocks");
    look("after other threads have freed half of them");
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
}

static void one_thread(void) {
    struct rng rng = rng_make(42);
    set_others();
    expect_exact("at first");
    for (int round = 0; round < 5; round++) {
        fill(0, &rng);
        expect_exact("with one thread that holds blocks");
        empty(0, 3);
        expect_exact("after a third was freed");
        empty(0, 1);
        API(malloc_trim)(0);
        expect_exact("after all were freed");
    }
}

/* `fill` has overwritten a block of each pair that was still there: those are lost to the table,
 * and counted among the others. */
static void after_the_threads(void) {
    set_others();
    for (int t = 0; t < THREADS; t++) {
        empty(t, 1);
        expect_exact("after the threads have ended");
    }
    API(malloc_trim)(0);
    expect_exact("after a trim");
}

/* ---- While others work ----------------------------------------------------------------------- */

static _Atomic(void *) slots[SLOTS];
static _Atomic unsigned working;
static unsigned long operations;

static void *work(void *argument) {
    struct rng rng = rng_make((uint64_t)(intptr_t)argument + 100);
    for (unsigned long i = 0; i < operations / WORKERS; i++) {
        void *block = rng_next(&rng) % 2 ? block_of(&rng) : NULL;
        API(free)(atomic_exchange(&slots[rng_next(&rng) % SLOTS], block));
    }
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static bool is_counter(const char *name, size_t length) {
    for (size_t i = 0; i < COUNT_OF(stat_rows); i++)
        if (strlen(stat_rows[i].name) == length && memcmp(stat_rows[i].name, name, length) == 0)
            return stat_rows[i].is_counter;
    return false;
}

/* One JSON, all of its numbers up to the caches; `before` has those of the last one. */
static size_t read_numbers(char *text, uint64_t *before, bool is_first) {
    size_t length = hakmem_stats_json(text, JSON_SIZE), count = 0;
    CHECK(length > 1000 && length < JSON_SIZE, "the JSON has %zu bytes", length);
    char *name = text, *end = strstr(text, "\"caches\": [");
    CHECK(end != NULL, "the JSON has no caches");
    for (char *at = strstr(text, "\"bands\""); at < end; at++) {
        if (*at == '"') {
            name = at + 1;
            at = strchr(name, '"');
            continue;
        }
        if (!isdigit((unsigned char)*at)) continue;
        size_t name_length = (size_t)(strchr(name, '"') - name);
        uint64_t value = strtoull(at, &at, 10);
        CHECK(value < (uint64_t)1 << 48, "%.*s is %llu", (int)name_length, name,
              (unsigned long long)value);
        CHECK(is_first || value >= before[count] || !is_counter(name, name_length),
              "%.*s fell from %llu to %llu", (int)name_length, name,
              (unsigned long long)before[count], (unsigned long long)value);
        before[count++] = value;
    }
    return count;
}

static void read_while_others_work(void) {
    static char text[JSON_SIZE];
    static uint64_t numbers[4000];
    pthread_t threads[WORKERS];
    size_t count = read_numbers(text, numbers, true), reads = 0;
    atomic_store(&working, WORKERS);
    for (int t = 0; t < WORKERS; t++)
        CHECK(pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t) == 0, "no thread");
    do {
        size_t again = read_numbers(text, numbers, false);
        CHECK(again == count, "%zu numbers, and then %zu", count, again);
        reads++;
    } while (atomic_load(&working) > 0);
    for (int t = 0; t < WORKERS; t++) pthread_join(threads[t], NULL);
    printf("%zu numbers read %zu times in %lu operations\n", count, reads, operations);
    set_others();
    uint64_t live = others_bytes, freed = 0;
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i]) freed += API(malloc_usable_size)(slots[i]);
        API(free)(slots[i]);
    }
    CHECK(stat_of("total.live_bytes") == live - freed, "the blocks that were left are not all");
}

int main(int argc, char **argv) {
    operations = argument(argc, argv, 1, 1000000);
    watchdog(200, "live bytes");
    one_thread();
    many_threads();
    after_the_threads();
    read_while_others_work();
    return 0;
}
