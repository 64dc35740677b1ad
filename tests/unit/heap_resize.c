/* heap_resize.c: blocks of the program's heaps are resized where they are while another thread frees the whole heap:
 * here in the midst of the resize. */
#include "unit.h"

#include <sys/mman.h>

#include "hakmem.h"
#include "large/fine_grain.h"
#include "large/huge.h"
#include "large/user_heap_huge.h"
#include "profile/samples.h"
#include "debug_record/record.h"
#include "thread/verify.h"

static hakmem_heap_t *emptied; /* after the next resize of a block, before its call returns */

static void empty_once(void) {
    hakmem_heap_t *heap = emptied;
    emptied = NULL;
    if (heap) hakmem_heap_free_all(heap);
}

bool __real_hak_fine_resize(void *block, size_t size);
bool __wrap_hak_fine_resize(void *block, size_t size);
bool __wrap_hak_fine_resize(void *block, size_t size) {
    const bool is_done = __real_hak_fine_resize(block, size);
    empty_once();
    return is_done;
}

void *__real_hak_user_heap_huge_resize(void *block, size_t size, hak_flight_t *flight);
void *__wrap_hak_user_heap_huge_resize(void *block, size_t size, hak_flight_t *flight);
void *__wrap_hak_user_heap_huge_resize(void *block, size_t size, hak_flight_t *flight) {
    void *moved = __real_hak_user_heap_huge_resize(block, size, flight);
    empty_once();
    return moved;
}

static hakmem_heap_t *recorded; /* emptied before the next debug record of a block */

void __real_hak_record_open(const void *block, size_t size, const void *site);
void __wrap_hak_record_open(const void *block, size_t size, const void *site);
void __wrap_hak_record_open(const void *block, size_t size, const void *site) {
    hakmem_heap_t *heap = recorded;
    recorded = NULL;
    if (heap) hakmem_heap_free_all(heap);
    __real_hak_record_open(block, size, site);
}

static hak_user_heap_t *joined; /* by another block, as soon as the next huge block has moved */
static hak_flight_t other;      /* the flight of that */

/* The kernel may give the former address to any thread at once: here one that asks for a block of the same heap. */
void *__real_hak_huge_resize_noted(void *block, size_t size, uint64_t note);
void *__wrap_hak_huge_resize_noted(void *block, size_t size, uint64_t note);
void *__wrap_hak_huge_resize_noted(void *block, size_t size, uint64_t note) {
    void *moved = __real_hak_huge_resize_noted(block, size, note);
    hak_user_heap_t *heap = joined;
    joined = NULL;
    if (heap) {
        HAK_HOLD(&heap->lock);
        hak_user_heap_take_off(heap, &other, block);
    }
    return moved;
}

/* Nothing is known of a block that is no more, and what is in use is known. */
static void a_resize_leaves_no_sample_behind(void **state) {
    static const size_t sizes[][2] = {{40000, 20000},   {20000, 40000},     {400000, 200000},
                                      {200000, 400000}, {8 << 20, 3 << 20}, {3 << 20, 64 << 20}};
    (void)state;
    hakmem_free(hakmem_malloc(1)); /* the first block starts the samples */
    hakmem_heap_t *heap = hakmem_heap_new(0);
    const uint64_t others = hak_load_relaxed(&hak_sample_stats.live);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = hakmem_heap_malloc(heap, sizes[i][0]);
        REQUIRE(block && hak_load_relaxed(&hak_sample_stats.live) == others + 1, "%u: no sample",
                i);
        emptied = heap;
        block = hakmem_heap_realloc(heap, block, sizes[i][1]);
        REQUIRE(block && !emptied, "%u: not resized in place", i);
        REQUIRE(hakmem_heap_of(block) == heap, "%u: a block that was resized is gone", i);
        REQUIRE(hak_load_relaxed(&hak_sample_stats.live) == others + 1, "%u: no sample stays", i);
        hakmem_heap_free_all(heap);
        REQUIRE(hakmem_heap_of(block) == NULL, "%u: a block stays in flight", i);
        REQUIRE(hak_load_relaxed(&hak_sample_stats.live) == others, "%u: a sample stays", i);
    }
    hakmem_heap_destroy(heap);
    REQUIRE(hak_verify() == 0, "violations");
}

static void a_block_moves_its_own_flight_only(void **state) {
    const size_t size = 3 << 20;
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    char *block = hakmem_heap_malloc(heap, size);
    REQUIRE(block, "no block");
    /* Fails where something is mapped there: either way the block has no room to grow. */
    void *behind = mmap(block + size, HAK_UNIT_SIZE, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    joined = hak_user_heap_of_handle(heap);
    char *moved = hakmem_heap_realloc(heap, block, 64 << 20);
    REQUIRE(moved && moved != block && !joined, "the block has not moved");
    REQUIRE(other.block == block, "the flight of another block has moved");
    hak_user_heap_land(&other);
    hakmem_heap_free_all(heap);
    REQUIRE(hakmem_heap_of(moved) == NULL, "the block stays in flight");
    if (behind != MAP_FAILED) munmap(behind, HAK_UNIT_SIZE);
    hakmem_heap_destroy(heap);
    REQUIRE(hak_verify() == 0, "violations");
}

/* The third number is the limit of the heap then: 1 leaves no room for a copy. */
static void a_block_that_stays_leaves_no_record_behind(void **state) {
    static const size_t cases[][3] = {{40000, 39000, 0}, {128 << 10, 10000, 1}};
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        hakmem_heap_t *heap = hakmem_heap_new(0);
        char *block = hakmem_heap_malloc(heap, cases[i][0]);
        REQUIRE(block && hak_record_read(block).state == HAK_RECORD_IN_USE, "%u: no record", i);
        hakmem_heap_set_limit(heap, cases[i][2]);
        recorded = heap;
        REQUIRE(hakmem_heap_realloc(heap, block, cases[i][1]) == block, "%u: it moved", i);
        REQUIRE(!recorded, "%u: no record is made", i);
        REQUIRE(hakmem_heap_of(block) == heap, "%u: a record of a block that is gone", i);
        REQUIRE(hak_record_read(block).size == cases[i][1], "%u: not the new size", i);
        hakmem_heap_free_all(heap);
        REQUIRE(hakmem_heap_of(block) == NULL, "%u: the block stays in flight", i);
        REQUIRE(hak_record_read(block).state != HAK_RECORD_IN_USE, "%u: a record stays", i);
        hakmem_heap_destroy(heap);
    }
    REQUIRE(hak_verify() == 0, "violations");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_THREAD=0", "HAKMEM_PROF=1",
                                                      "HAKMEM_PROF_RATE=1", "HAKMEM_HDR_LIGHT=1",
                                                      "HAKMEM_PROF_FILE=/dev/null", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resize_leaves_no_sample_behind),
        cmocka_unit_test(a_block_moves_its_own_flight_only),
        cmocka_unit_test(a_block_that_stays_leaves_no_record_behind),
    };
    return cmocka_run_group_tests_name("heap_resize", tests, NULL, NULL);
}
