/* heap_resize.c: blocks of the program's heaps are resized where they are while another thread frees the whole heap:
 * here in the midst of the resize. */
#include "unit.h"

#include "hakmem.h"
#include "large/fine.h"
#include "large/user_heap_huge.h"
#include "profile/sample.h"
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

void *__real_hak_user_heap_huge_resize(void *block, size_t size);
void *__wrap_hak_user_heap_huge_resize(void *block, size_t size);
void *__wrap_hak_user_heap_huge_resize(void *block, size_t size) {
    void *moved = __real_hak_user_heap_huge_resize(block, size);
    empty_once();
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

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_THREAD=0", "HAKMEM_PROF=1",
                                                      "HAKMEM_PROF_RATE=1",
                                                      "HAKMEM_PROF_FILE=/dev/null", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resize_leaves_no_sample_behind),
    };
    return cmocka_run_group_tests_name("heap_resize", tests, NULL, NULL);
}
