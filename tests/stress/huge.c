/* huge.c - blocks of 1.1 to 13 MB in many threads: every function that the huge tier serves; contents
 * are checked.
 *
 *     huge all|zeroed|limit CALLS THREADS
 *
 * "zeroed" only makes zeroed blocks and frees them; "all" also makes plain and aligned ones,
 * resizes, trims, and asks for statistics. Meanwhile a thread maps, fills, checks and unmaps
 * memory of the same sizes behind the allocator's back. "limit" is "all" where requests fail, too
 * (HAKMEM_LIMIT).
 *
 * A word in each page, and the last word, name the block; in one block of a hundred all words do. Zeroed
 * blocks and foreign mappings are read completely. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "rng.h"

enum {
    THREADS_MAX = 64,
    SLOTS_PER_THREAD = 2,
    FOREIGN = 4,
    LEAST = 1100 * 1000,
    USUAL = 3 * 1000 * 1000,
    MOST = 13 * 1000 * 1000,
    STEP = 512, /* words of the smallest page */
};

typedef struct {
    uint64_t *words;
    size_t size;
    uint64_t tag;
    bool whole; /* all words are written */
} block_t;

typedef struct {
    atomic_flag taken;
    block_t block;
} slot_t;

static slot_t slots[THREADS_MAX * SLOTS_PER_THREAD];
static unsigned thread_count;
static unsigned long calls_each;
static bool only_zeroed, may_refuse;
static atomic_bool done;
static atomic_ulong refused, served;

/* ---- Contents -------------------------------------------------------------------------------- */

static uint64_t word_at(const block_t *block, size_t index) {
    return block->tag + index * UINT64_C(0x9E3779B97F4A7C15);
}

static size_t step_of(const block_t *block) { return block->whole ? 1 : STEP; }

static void write_words(const block_t *block) {
    size_t count = block->size / sizeof *block->words;
    for (size_t i = 0; i < count; i += step_of(block)) block->words[i] = word_at(block, i);
    block->words[count - 1] = word_at(block, count - 1);
}

/* Of the first `size` bytes; the last word only where the block still ends. */
static void check_words(const block_t *block, size_t size) {
    size_t count = size / sizeof *block->words;
    for (size_t i = 0; i < count; i += step_of(block))
        CHECK(block->words[i] == word_at(block, i), "word %zu of a block of %zu bytes at %p", i,
              block->size, (void *)block->words);
    CHECK(size != block->size || block->words[count - 1] == word_at(block, count - 1),
          "the last word of a block of %zu bytes at %p", size, (void *)block->words);
}

static void check_zero(const block_t *block) {
    const unsigned char *bytes = (const unsigned char *)block->words;
    size_t count = block->size / sizeof *block->words;
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum |= block->words[i];
    for (size_t i = count * sizeof *block->words; i < block->size; i++) sum |= bytes[i];
    CHECK(sum == 0, "a zeroed block of %zu bytes at %p is not", block->size, (void *)bytes);
}

/* Three of four are short: they meet each other more often. */
static size_t random_size(struct rng *rng) {
    return rng_size(rng, LEAST, rng_below(rng, 4) ? USUAL : MOST);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static bool got(const void *block, size_t size) {
    if (block != NULL) {
        atomic_fetch_add_explicit(&served, 1, memory_order_relaxed);
        return true;
    }
    CHECK(may_refuse && errno == ENOMEM, "%zu bytes are refused with error %d", size, errno);
    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
    return false;
}

static void make(block_t *block, struct rng *rng) {
    size_t size = random_size(rng), kind = only_zeroed ? 0 : rng_below(rng, 5);
    void *start;
    if (kind < 2) {
        start = API(calloc)(1, size);
    } else if (kind < 4) {
        start = API(malloc)(size);
    } else {
        size_t align = (size_t)4096 << rng_below(rng, 11);
        int error = API(posix_memalign)(&start, align, size);
        if (error != 0) errno = error;
        if (error != 0) start = NULL;
        CHECK(((uintptr_t)start & (align - 1)) == 0, "%p is no multiple of %zu", start, align);
    }
    if (!got(start, size)) return;
    *block = (block_t){start, size, rng_next(rng), rng_below(rng, 100) == 0};
    CHECK(API(malloc_usable_size)(start) >= size, "a block of %zu bytes is shorter", size);
    if (kind < 2) check_zero(block);
    write_words(block);
}

static void drop(block_t *block) {
    check_words(block, block->size);
    API(free)(block->words);
    block->words = NULL;
}

static void resize(block_t *block, struct rng *rng) {
    size_t size = random_size(rng);
    check_words(block, block->size);
    void *start = API(realloc)(block->words, size);
    if (got(start, size)) {
        block->words = start;
        check_words(block, size < block->size ? size : block->size);
        block->size = size;
    }
    write_words(block);
}

static void visit(slot_t *slot, struct rng *rng) {
    if (atomic_flag_test_and_set_explicit(&slot->taken, memory_order_acquire)) return;
    if (!slot->block.words)
        make(&slot->block, rng);
    else if (only_zeroed || rng_below(rng, 5) < 3)
        drop(&slot->block);
    else
        resize(&slot->block, rng);
    atomic_flag_clear_explicit(&slot->taken, memory_order_release);
}

static void *work(void *argument) {
    struct rng rng = rng_make((uintptr_t)argument);
    for (unsigned long call = 0; call < calls_each; call++) {
        size_t what = only_zeroed ? 0 : rng_below(&rng, 128);
        if (what == 1) API(malloc_trim)(0);
        if (what == 2) CHECK(API(mallinfo2)().hblks <= thread_count * SLOTS_PER_THREAD, "blocks");
        visit(&slots[rng_below(&rng, (size_t)thread_count * SLOTS_PER_THREAD)], &rng);
    }
    return NULL;
}

/* Another library that asks the system for memory: nobody else may touch it. */
static void *map_beside(void *unused) {
    struct rng rng = rng_make(4711);
    block_t mappings[FOREIGN] = {0};
    for (unsigned long turn = 0; !atomic_load(&done); turn++) {
        block_t *mapping = &mappings[turn % FOREIGN];
        if (mapping->words) {
            check_words(mapping, mapping->size);
            munmap(mapping->words, mapping->size);
        }
        size_t size = (random_size(&rng) + 65535) & ~(size_t)65535;
        void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(start != MAP_FAILED, "the system has no %zu bytes", size);
        *mapping = (block_t){start, size, rng_next(&rng), true};
        check_zero(mapping);
        write_words(mapping);
    }
    for (unsigned i = 0; i < FOREIGN; i++)
        if (mappings[i].words) check_words(&mappings[i], mappings[i].size);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS_MAX], other;
    unsigned long calls = argument(argc, argv, 2, 10000);
    thread_count = (unsigned)argument(argc, argv, 3, 4);
    only_zeroed = argc > 1 && strcmp(argv[1], "zeroed") == 0;
    may_refuse = argc > 1 && strcmp(argv[1], "limit") == 0;
    CHECK(thread_count > 0 && thread_count <= THREADS_MAX, "%u threads", thread_count);
    calls_each = calls / thread_count + 1;
    watchdog(2300, "huge blocks");
    require_hakmem();
    CHECK(pthread_create(&other, NULL, map_beside, NULL) == 0, "no thread");
    for (uintptr_t i = 0; i < thread_count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    for (unsigned i = 0; i < thread_count; i++) pthread_join(threads[i], NULL);
    atomic_store(&done, true);
    pthread_join(other, NULL);
    for (unsigned i = 0; i < thread_count * SLOTS_PER_THREAD; i++)
        if (slots[i].block.words) drop(&slots[i].block);
    API(malloc_trim)(0);
    size_t live = API(mallinfo2)().hblkhd;
    CHECK(live == 0, "%zu bytes of huge blocks are live", live);
    CHECK(atomic_load(&served) > 0 && (atomic_load(&refused) > 0) == may_refuse,
          "%lu requests are served, %lu refused", atomic_load(&served), atomic_load(&refused));
    return 0;
}
