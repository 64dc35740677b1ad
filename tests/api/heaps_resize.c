/* heaps_resize.c - realloc in heaps of the caller's own: what stays where it is, what a heap's limit allows, and that no
 * fork waits for a copy. */
#define _GNU_SOURCE
#include "api.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "heaps.h"

static struct hakmem_heap_stat figures(const hakmem_heap_t *heap) {
    struct hakmem_heap_stat stat;
    assert_int_equal(hakmem_heap_stats(heap, &stat, sizeof stat), 0);
    return stat;
}

static void assert_counted(const hakmem_heap_t *heap, void *block, size_t committed) {
    assert_int_equal(figures(heap).blocks, 1);
    assert_int_equal(figures(heap).live_bytes, API(malloc_usable_size)(block));
    assert_int_equal(figures(heap).committed_bytes, committed);
    assert_ptr_equal(hakmem_heap_of(block), heap);
    assert_int_equal(hakmem_verify(), 0);
}

static void *resized(hakmem_heap_t *heap, void *block, size_t from, size_t to, unsigned char mark) {
    memset(block, mark, from);
    unsigned char *now = hakmem_heap_realloc(heap, block, to);
    assert_non_null(now);
    for (size_t i = 0; i < from && i < to; i += 61) assert_int_equal(now[i], mark);
    return now;
}

/* What is cut off serves the next request, and what lies behind a block serves that. */
void short_blocks_are_resized_in_place(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(UNIT);
    char *block = hakmem_heap_malloc(heap, 60000), *behind;
    assert_ptr_equal(resized(heap, block, 60000, 20000, 1), block);
    assert_in_range(API(malloc_usable_size)(block), 20000, 20000 + GRAIN);
    assert_counted(heap, block, UNIT);
    assert_non_null(behind = hakmem_heap_malloc(heap, 30000));
    assert_null(hakmem_heap_realloc(heap, block, 40000));
    assert_ptr_equal(hakmem_heap_realloc(heap, block, 19000), block); /* as it is: an eighth */
    assert_in_range(API(malloc_usable_size)(block), 20000, 20000 + GRAIN);
    API(free)(behind);
    assert_ptr_equal(resized(heap, block, 20000, 65000, 2), block);
    assert_ptr_equal(API(realloc)(block, 65536), block);
    assert_counted(heap, block, UNIT);
    assert_null(hakmem_heap_realloc(heap, block, 65537));
    assert_ptr_equal(resized(heap, block, 65536, 1, 3), block);
    for (unsigned i = 1; i < UNIT / GRAIN; i++) assert_non_null(hakmem_heap_malloc(heap, 1));
    assert_null(hakmem_heap_malloc(heap, 1));
    assert_int_equal(hakmem_verify(), 0);
    hakmem_heap_destroy(heap);
}

/* A block of whole units gives units back, and takes the free ones behind it. */
void long_blocks_are_resized_in_place(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(8 * UNIT);
    char *block = hakmem_heap_malloc(heap, 8 * UNIT), *now;
    assert_ptr_equal(resized(heap, block, 8 * UNIT, 2 * UNIT + 1, 1), block);
    assert_counted(heap, block, 3 * UNIT);
    assert_ptr_equal(resized(heap, block, 2 * UNIT, 8 * UNIT, 2), block);
    assert_counted(heap, block, 8 * UNIT);
    assert_null(hakmem_heap_realloc(heap, block, 8 * UNIT + 1));
    assert_ptr_equal(resized(heap, block, 8 * UNIT, UNIT, 3), block);
    assert_counted(heap, block, UNIT);
    now = resized(heap, block, UNIT, 100, 4);
    API(free)(now);
    assert_int_equal(figures(heap).blocks | figures(heap).committed_bytes, 0);
    /* No memory for another one: the block stays, with what it needs. */
    block = hakmem_heap_malloc(heap, 8 * UNIT);
    assert_ptr_equal(resized(heap, block, 8 * UNIT, 100, 5), block);
    assert_counted(heap, block, UNIT);
    hakmem_heap_destroy(heap);
}

/* Blocks all over their superslabs, also at the ends of these: what is behind one that grows is its own, or it moves. */
void blocks_that_grow_keep_to_their_superslab(void **state) {
    (void)state;
    enum { BLOCKS = 200, STEPS = 6 };
    unsigned char *blocks[BLOCKS];
    hakmem_heap_t *heap = hakmem_heap_new(0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_non_null(blocks[i] = hakmem_heap_malloc(heap, (2 + i % 3) * UNIT));
        memset(blocks[i], (int)i, (2 + i % 3) * UNIT);
    }
    for (unsigned i = 0; i < BLOCKS; i += 2) API(free)(blocks[i]);
    for (size_t step = 1; step <= STEPS; step++)
        for (unsigned i = 1; i < BLOCKS; i += 2) {
            const size_t size = (2 + i % 3 + step) * UNIT;
            assert_non_null(blocks[i] = API(realloc)(blocks[i], size));
            for (size_t at = 0; at < size - UNIT; at += UNIT / 2)
                assert_int_equal(blocks[i][at], i % 256);
            memset(blocks[i], (int)i, size);
        }
    assert_int_equal(hakmem_verify(), 0);
    hakmem_heap_destroy(heap);
}

/* Under the limit a block grows by the difference. */
void huge_blocks_are_resized_in_place(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(15 * MIB);
    char *block = hakmem_heap_malloc(heap, 10 * MIB);
    block = resized(heap, block, 10 * MIB, 6 * MIB, 1);
    assert_counted(heap, block, 6 * MIB);
    block = resized(heap, block, 6 * MIB, 12 * MIB, 2);
    assert_counted(heap, block, 12 * MIB);
    assert_refused(hakmem_heap_realloc(heap, block, 16 * MIB), ENOMEM);
    assert_counted(heap, block, 12 * MIB);
    char *other = hakmem_heap_malloc(heap, 3 * MIB);
    assert_non_null(other);
    assert_refused(hakmem_heap_realloc(heap, other, 3 * MIB + UNIT), ENOMEM);
    hakmem_heap_set_limit(heap, MIB); /* what shrinks needs no room */
    other = resized(heap, other, 3 * MIB, 5 * MIB / 2, 3);
    API(free)(other);
    block = API(realloc)(block, 3 * MIB);
    assert_counted(heap, block, 3 * MIB);
    hakmem_heap_free_all(heap);
    assert_int_equal(figures(heap).blocks | figures(heap).committed_bytes, 0);
    hakmem_heap_destroy(heap);
}

/* ---- A fork beside a copy -------------------------------------------------------------------- */

static struct {
    hakmem_heap_t *heap;
    char *page; /* or several, of the block that is copied: who reads them waits */
    sem_t reached, goes_on;
} copy;

static void wait_in_copy(int number, siginfo_t *info, void *context) {
    (void)context;
    if ((char *)info->si_addr < copy.page || (char *)info->si_addr >= copy.page + UNIT)
        signal(number, SIG_DFL);
    sem_post(&copy.reached);
    while (sem_wait(&copy.goes_on)) continue;
    mprotect(copy.page, UNIT, PROT_READ | PROT_WRITE);
}

static void *bring_to_heap(void *block) { return hakmem_heap_realloc(copy.heap, block, 3 * MIB); }

/* The copy waits until the child has ended. In the child nobody writes to the block any more: all is freed. */
void no_fork_waits_for_a_copy(void **state) {
    (void)state;
    const struct sigaction action = {.sa_sigaction = wait_in_copy, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    pthread_t thread;
    int status;
    void *block;
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    assert_int_equal(sem_init(&copy.reached, 0, 0) | sem_init(&copy.goes_on, 0, 0), 0);
    assert_non_null(copy.heap = hakmem_heap_new(0));
    char *from = API(aligned_alloc)(UNIT, 2 * MIB);
    memset(from, 7, 2 * MIB);
    copy.page = from + MIB;
    assert_int_equal(mprotect(copy.page, UNIT, PROT_NONE), 0);
    assert_int_equal(pthread_create(&thread, NULL, bring_to_heap, from), 0);
    while (sem_wait(&copy.reached)) continue;
    hakmem_heap_free_all(copy.heap); /* which leaves the block */
    assert_int_equal(figures(copy.heap).blocks, 1);
    const pid_t child = fork();
    if (child == 0) {
        hakmem_heap_free_all(copy.heap);
        if (figures(copy.heap).committed_bytes || hakmem_verify()) _exit(1);
        block = hakmem_heap_realloc(copy.heap, API(malloc)(1000), 100000);
        hakmem_heap_destroy(copy.heap);
        _exit(block && hakmem_verify() == 0 ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    sem_post(&copy.goes_on);
    assert_int_equal(pthread_join(thread, &block), 0);
    assert_ptr_equal(hakmem_heap_of(block), copy.heap);
    for (size_t i = 0; i < 2 * MIB; i += 509) assert_int_equal(((char *)block)[i], 7);
    hakmem_heap_destroy(copy.heap);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(hakmem_verify(), 0);
}
