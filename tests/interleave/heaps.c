/* heaps.c: what threads do with heaps of the program's own. */
#include "heaps.h"

#include "hakmem.h"
#include "large/user_heap_huge.h"
#include "explore.h"
#include "memory.h"
#include "process.h"
#include "program.h"

static hakmem_heap_t *heap;

void with_heap(void) {
    program_start(OPTIONS("SHARDS=2"));
    heap = hakmem_heap_new(0);
    program_heap_malloc(heap, 60, SMALL);
}
void without_blocks(void) {
    program_start(OPTIONS("SHARDS=2"));
    heap = hakmem_heap_new(0);
}
void with_limit(void) {
    program_start(OPTIONS("SHARDS=2"));
    heap = hakmem_heap_new(3 * HUGE);
}
void fill_heap_and_post(void) {
    for (unsigned i = 0; i < 3; i++) program_heap_malloc(heap, i, SMALL);
    program_heap_malloc(heap, 3, LARGE);
    program_heap_malloc(heap, 4, HUGE);
    program_post(0);
    program_heap_malloc(heap, 5, PAGES);
    program_heap_malloc(heap, 6, HUGE);
}
void await_and_free_of_heap(void) {
    program_await(0);
    program_free_all(0, 5);
    program_heap_malloc(heap, 8, PAGES);
    program_free(8);
}
void use_heap(void) {
    program_heap_malloc(heap, 0, PAGES);
    program_free(0);
}
void use_heap_too(void) {
    program_heap_malloc(heap, 8, PAGES);
    program_free(8);
}
void huge_of_heap(void) {
    program_heap_malloc(heap, 0, HUGE);
    program_heap_malloc(heap, 1, HUGE);
    program_free(0);
}
void huge_of_heap_too(void) {
    program_heap_malloc(heap, 8, HUGE);
    program_free(8);
}
void begin_and_end_heaps(void) {
    for (unsigned i = 0; i < 2; i++) {
        hakmem_heap_t *own = hakmem_heap_new(0);
        program_heap_malloc(own, 0, SMALL);
        program_heap_malloc(own, 1, HUGE);
        program_forget(0, 2);
        hakmem_heap_destroy(own);
    }
}
void begin_and_end_heaps_too(void) {
    hakmem_heap_t *own = hakmem_heap_new(0), *other = hakmem_heap_new(0);
    program_heap_malloc(own, 8, PAGES);
    program_heap_malloc(other, 9, PAGES);
    program_forget(8, 2);
    hakmem_heap_free_all(own);
    hakmem_heap_destroy(other);
    hakmem_heap_destroy(own);
}
void list_heaps(void) {
    struct hakmem_heap_stat stat;
    size_t blocks = 0;
    for (hakmem_heap_t *at = NULL; (at = hakmem_heap_next(at)) != NULL;)
        if (hakmem_heap_stats(at, &stat, sizeof stat) == 0) blocks += stat.blocks;
    EXPLORE_CHECK(blocks < 8, "heaps have %zu blocks", blocks);
}
void use_heap_and_fork(void) {
    program_heap_malloc(heap, 0, LARGE);
    if (process_fork()) {
        explore_start(3);
        program_heap_malloc(heap, 2, PAGES);
        explore_join(3);
    } else {
        EXPLORE_CHECK(hakmem_verify() == 0, "the records do not hold in a child");
    }
    program_free(0);
}
void check_heap(void) {
    program_check();
    EXPLORE_CHECK(hakmem_verify() == 0, "the records of the engine do not hold");
}

/* Two threads free one block: one of them is told so, whatever has become of its chunk. */
static void *freed_twice;
void with_one_block(void) {
    program_start(OPTIONS("SHARDS=2", "ON_ERROR=report"));
    heap = hakmem_heap_new(0);
    freed_twice = hakmem_heap_malloc(heap, RAGGED);
}
void free_one_block(void) { hakmem_free(freed_twice); }
void check_one_report(void) {
    EXPLORE_CHECK(process.reports == 1, "%u reports of a double free", process.reports);
    process.reports = 0;
    check_heap();
}

/* A second free of a huge block, which has left its heap: it is reported, and the block stays the caller's who gets it,
 * whatever the first one has left to do. */
static const hak_user_heap_t *left;
void with_one_huge_block(void) {
    program_start(OPTIONS("SHARDS=2", "ON_ERROR=report"));
    heap = hakmem_heap_new(0);
    left = hak_user_heap_of_handle(heap);
    freed_twice = hakmem_heap_malloc(heap, HUGE);
}
static bool has_left(const void *unused) {
    (void)unused;
    return !hak_load_relaxed(&left->huge_blocks);
}
void await_and_free_huge_again(void) {
    explore_await(has_left, NULL);
    hakmem_free(freed_twice);
    program_malloc_all(8, 4, HUGE);
}

/* A heap is emptied while another thread is anywhere in a request or a free. At most one of the two
 * frees of a block is reported. */
void with_reports(void) {
    program_start(OPTIONS("SHARDS=2", "ON_ERROR=report"));
    heap = hakmem_heap_new(0);
}
void huge_and_free_one(void) {
    void *block = hakmem_heap_malloc(heap, HUGE);
    EXPLORE_CHECK(hakmem_heap_malloc(heap, HUGE), "no block");
    hakmem_free(block);
}
void empty_heap(void) { hakmem_heap_free_all(heap); }
void check_empty_heap(void) {
    EXPLORE_CHECK(process.reports <= 1, "%u reports of a double free", process.reports);
    process.reports = 0;
    hakmem_heap_destroy(heap);
    check_heap();
}

/* The same where the other thread has a block and still writes: the bytes of it, and what is known of it.
 * What it writes comes to nobody else's block. */
static hakmem_heap_t *other_heap;
static void with_blocks_in_flight(const char *const *options) {
    program_start(options);
    heap = hakmem_heap_new(0);
    other_heap = hakmem_heap_new(0);
}
void without_records(void) { with_blocks_in_flight(OPTIONS("SHARDS=2")); }
void with_samples(void) {
    with_blocks_in_flight(OPTIONS("SHARDS=2", "PROF=1", "PROF_RATE=1", "PURGE_THREAD=0"));
}
void with_records(void) { with_blocks_in_flight(OPTIONS("SHARDS=2", "HDR_LIGHT=1")); }
/* A step before the bytes of a block in flight are written (mutants.py). */
static uint64_t written;
void heaps_write(void) {
    memory_atomic_begin(&written, sizeof written);
    written = 1;
    memory_atomic_end(&written, "write", false, true, __ATOMIC_RELAXED, 0, 1);
}
void zeroes_of_heap(void) {
    const char *block = hakmem_heap_calloc(heap, 1, RAGGED);
    EXPLORE_CHECK(block && hakmem_heap_calloc(heap, 1, SMALL), "no block");
    EXPLORE_CHECK(hakmem_heap_calloc(heap, 1, HUGE), "no block");
}
void blocks_of_heap(void) {
    hakmem_heap_of(hakmem_heap_malloc(heap, HUGE)); /* it may be gone, or the other heap's */
    EXPLORE_CHECK(hakmem_heap_malloc(heap, RAGGED) && hakmem_heap_malloc(heap, HUGE), "no block");
}
void copies_to_heap(void) {
    void *block = hakmem_malloc(RAGGED), *moved = hakmem_heap_realloc(heap, block, RAGGED + 1);
    EXPLORE_CHECK(moved && hakmem_heap_realloc(heap, hakmem_malloc(LARGE), HUGE), "no block");
}
void empty_heap_and_allocate(void) {
    heaps_write();
    hakmem_heap_free_all(heap);
    program_heap_malloc(other_heap, 8, RAGGED); /* a chunk of its own, the first that is free */
    program_heap_malloc(other_heap, 9, HUGE);
}
void check_left_heap(void) {
    hakmem_heap_destroy(heap);
    program_free_all(8, 2);
    EXPLORE_CHECK(program_figure("profile.live") == 0, "samples are left");
    EXPLORE_CHECK(program_figure("debug.records") == 0, "records are left");
    check_heap();
}

/* A block in flight has moved, and the heap is emptied before it lands: it stays in the heap, with its sample. */
void with_moves(void) {
    with_samples();
    process.moves_all = true;
}
void move_in_heap(void) {
    void *block = hakmem_heap_malloc(heap, HUGE);
    EXPLORE_CHECK(block && hakmem_heap_realloc(heap, block, 2 * HUGE), "no block");
}
static bool has_moved(const void *unused) {
    (void)unused;
    return process.has_moved;
}
void empty_heap_of_moved(void) {
    explore_await(has_moved, NULL);
    hakmem_heap_free_all(heap);
}
/* The same, and another block of the heap is in flight by then, where the first one was. */
void move_in_heap_and_empty(void) {
    move_in_heap();
    hakmem_heap_free_all(heap);
    program_heap_malloc(other_heap, 8, HUGE);
    program_heap_malloc(other_heap, 9, HUGE);
}
void copy_to_heap(void) {
    EXPLORE_CHECK(hakmem_heap_realloc(heap, hakmem_malloc(LARGE), HUGE), "no block");
}

/* In the child nobody writes to the block that was in flight, and all is freed. */
void fork_beside_flight(void) {
    heaps_write();
    if (!process_fork()) return;
    hakmem_heap_free_all(heap);
    EXPLORE_CHECK(program_figure("heaps.blocks") == 0, "a block is left in a child");
    EXPLORE_CHECK(hakmem_verify() == 0, "the records do not hold in a child");
}
void check_forked_heap(void) {
    hakmem_heap_destroy(heap);
    hakmem_heap_destroy(other_heap);
    check_heap();
}

void resize_in_heap(void) {
    program_heap_malloc(heap, 0, PAGES);
    program_realloc(0, PAGES / 4);
    program_realloc(0, PAGES);
    program_heap_malloc(heap, 1, 2 * LARGE);
    program_realloc(1, LARGE);
    program_realloc(1, 2 * LARGE);
    program_heap_malloc(heap, 2, HUGE);
    program_realloc(2, 2 * HUGE);
    program_free_all(0, 3);
}

/* A block stays for a new size while the heap is emptied. The program must not do that, but no debug record is left
 * of a block that is gone. */
void with_records_and_reports(void) {
    with_blocks_in_flight(OPTIONS("SHARDS=2", "HDR_LIGHT=1", "ON_ERROR=report"));
}
void stay_in_heap(void) {
    (void)!hakmem_heap_realloc(heap, hakmem_heap_malloc(heap, RAGGED), RAGGED - 1);
}
void check_stayed_heap(void) {
    process.reports = 0;
    check_left_heap();
}

/* A mistake of the program, but for the heap's records: at most one of the two has an effect. */
void resize_huge_only(void) {
    void *block = hakmem_heap_malloc(heap, HUGE);
    hak_user_heap_huge_resize(block, 2 * HUGE, NULL);
    EXPLORE_CHECK(hakmem_heap_malloc(heap, SMALL), "no block");
}
