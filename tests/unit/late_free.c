/* late_free.c: a second free of a block above 1 MiB comes in the midst of the call that gives the block back, resizes it
 * or hands its memory out again: it is reported, and nobody else gets the block. The linker sends the engine's calls
 * here (--wrap). */
#include "unit.h"

#include <string.h>

#include "error/error.h"
#include "hakmem.h"
#include "large/huge.h"
#include "large/large.h"
#include "thread/verify.h"

enum { SIZE = 4 << 20, MORE = SIZE + (64 << 10), LARGE = 70000, TRIES = 16, COUNT = 100 };

static size_t wanted = SIZE; /* of the blocks that are freed */
static unsigned reports;

void __wrap_hak_error_report(const char *function, const char *format, ...);
void __wrap_hak_error_report(const char *function, const char *format, ...) {
    (void)function, (void)format;
    reports++;
}

/* The next call of this step, with this block or any, is the window. */
static const char *window;
static const void *victim;
static bool is_found;

static bool opens(const char *step, const void *block) {
    if (!window || strcmp(window, step) != 0 || !block || (victim && victim != block)) return false;
    window = NULL;
    return is_found = true;
}

/* The second free, and requests that would get the block. */
static void free_again(void *block) {
    void *others[TRIES];
    const unsigned before = reports;
    hakmem_free(block);
    CHECK(reports == before + 1, "%u reports of a second free", reports - before);
    for (unsigned i = 0; i < TRIES; i++) {
        others[i] = hakmem_malloc(wanted);
        CHECK(others[i] != block, "a block in hand is handed out");
    }
    for (unsigned i = 0; i < TRIES; i++) hakmem_free(others[i]);
    CHECK(reports == before + 1, "%u reports of right frees", reports - before - 1);
}

void __real_hak_huge_drop(void *block, size_t size);
void __wrap_hak_huge_drop(void *block, size_t size);
void __wrap_hak_huge_drop(void *block, size_t size) {
    if (opens("drop", block)) free_again(block);
    __real_hak_huge_drop(block, size);
}

size_t __real_hak_huge_free(void *block);
size_t __wrap_hak_huge_free(void *block);
size_t __wrap_hak_huge_free(void *block) {
    if (opens("free", block)) free_again(block);
    return __real_hak_huge_free(block);
}

void *__real_hak_huge_take(size_t size, size_t align, uint64_t note, size_t *dirty);
void *__wrap_hak_huge_take(size_t size, size_t align, uint64_t note, size_t *dirty);
void *__wrap_hak_huge_take(size_t size, size_t align, uint64_t note, size_t *dirty) {
    void *block = __real_hak_huge_take(size, align, note, dirty);
    if (opens("take", block)) free_again(block);
    return block;
}

void *__real_hak_huge_resize_noted(void *block, size_t size, uint64_t note);
void *__wrap_hak_huge_resize_noted(void *block, size_t size, uint64_t note);
void *__wrap_hak_huge_resize_noted(void *block, size_t size, uint64_t note) {
    if (opens("before the resize", block)) free_again(block);
    void *moved = __real_hak_huge_resize_noted(block, size, note);
    if (opens("after the resize", moved)) free_again(moved);
    return moved;
}

size_t __real_hak_large_free(unsigned home, void *block);
size_t __wrap_hak_large_free(unsigned home, void *block);
size_t __wrap_hak_large_free(unsigned home, void *block) {
    if (opens("free", block)) free_again(block);
    return __real_hak_large_free(home, block);
}

void *__real_hak_large_alloc(unsigned home, size_t bytes, size_t align, bool zero);
void *__wrap_hak_large_alloc(unsigned home, size_t bytes, size_t align, bool zero);
void *__wrap_hak_large_alloc(unsigned home, size_t bytes, size_t align, bool zero) {
    void *block = __real_hak_large_alloc(home, bytes, align, zero);
    if (opens("take", block)) free_again(block);
    return block;
}

static void begin(const char *step) {
    reports = 0;
    victim = NULL;
    is_found = false;
    window = step;
}

static void end(const char *step) {
    CHECK(is_found, "no %s", step);
    CHECK(reports == 1, "%u reports", reports);
    CHECK(hak_verify() == 0, "violations");
}

static void of_a_heap(void **state) {
    (void)state;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    begin("take");
    char *block = hakmem_heap_malloc(heap, SIZE);
    REQUIRE(block && hakmem_heap_of(block) == heap, "no block");
    end("take");
    for (unsigned i = 0; i < 2; i++) {
        const char *step = i ? "after the resize" : "before the resize";
        begin(step);
        block = hakmem_heap_realloc(heap, block, i ? 2 * MORE : MORE);
        REQUIRE(block && hakmem_heap_of(block) == heap, "the block has left its heap");
        end(step);
    }
    begin("drop");
    hakmem_free(block);
    end("drop");
    REQUIRE(hakmem_heap_malloc(heap, SIZE), "no block");
    begin("free");
    hakmem_heap_free_all(heap);
    end("free");
    hakmem_heap_destroy(heap);
}

/* ---- The hardened path ----------------------------------------------------------------------------- */

/* A block leaves its thread's ring while others come, and is handed out again. */
static void leave_and_return(size_t bytes) {
    static void *blocks[COUNT];
    wanted = bytes;
    for (unsigned i = 0; i < COUNT; i++) CHECK(blocks[i] = hakmem_malloc(wanted), "no block");
    begin("free");
    victim = blocks[0];
    for (unsigned i = 0; i < COUNT; i++) hakmem_free(blocks[i]);
    end("free");
    begin("take");
    if (bytes == LARGE) victim = blocks[0];
    for (unsigned i = 0; i < COUNT; i++) CHECK(blocks[i] = hakmem_malloc(wanted), "no block");
    end("take");
    for (unsigned i = 0; i < COUNT; i++) hakmem_free(blocks[i]);
    CHECK(reports == 1, "%u reports of right frees", reports - 1);
}

static void large(const void *unused) {
    (void)unused;
    leave_and_return(LARGE);
}
static void huge(const void *unused) {
    (void)unused;
    leave_and_return(SIZE);
}

static void resized(const void *unused) {
    (void)unused;
    char *block = hakmem_malloc(SIZE);
    for (unsigned i = 0; i < 2; i++) {
        const char *step = i ? "after the resize" : "before the resize";
        begin(step);
        CHECK(block = hakmem_realloc(block, i ? 2 * MORE : MORE), "no block");
        end(step);
    }
    hakmem_free(block);
    CHECK(reports == 1, "a right free is reported");
}

/* Blocks of the program's heaps begin where others of the hardened path did, and are none of them. */
static void chunks(const void *unused) {
    static char *blocks[COUNT];
    unsigned same = 0;
    (void)unused;
    uintptr_t last = 0;
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK(blocks[i] = hakmem_aligned_alloc(64 << 10, 2 * LARGE), "no block");
        if ((uintptr_t)blocks[i] > last) last = (uintptr_t)blocks[i];
    }
    for (unsigned i = 0; i < COUNT; i++) hakmem_free(blocks[i]);
    hakmem_heap_t *heap = hakmem_heap_new(0);
    for (unsigned i = 0; i < COUNT; i++) {
        char *block = hakmem_heap_malloc(heap, 2 * LARGE);
        CHECK(block && hakmem_malloc_usable_size(block) >= 2 * LARGE, "a block is not known");
        for (unsigned k = 0; k < COUNT; k++) same += block == blocks[k];
        hakmem_free(block);
        CHECK(hakmem_heap_malloc(heap, 2 * LARGE), "no block");
    }
    hakmem_heap_destroy(heap);
    CHECK(same > 0, "no address was used before");
    CHECK(reports == 0, "%u right calls are reported", reports);
}

static int hardened(void) {
    child_must_succeed(large, NULL, 60, "large blocks");
    child_must_succeed(huge, NULL, 60, "huge blocks");
    child_must_succeed(resized, NULL, 60, "a huge block that is resized");
    child_must_succeed(chunks, NULL, 60, "chunks");
    return 0;
}

static void of_the_hardened_path(void **state) {
    static const char *const environment[] = {"HAKMEM_PROFILE=HARDENED", "HAKMEM_PURGE_THREAD=0",
                                              NULL};
    struct child_end done;
    (void)state;
    unit_rerun("hardened", environment, 240, &done);
    REQUIRE(done.in_time && done.status == 0, "%s", done.err);
}

int main(int argc, char **argv) {
    if (argc > 1) return hardened();
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_THREAD=0", NULL});
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_heap),
                                       cmocka_unit_test(of_the_hardened_path)};
    return cmocka_run_group_tests_name("late_free", tests, NULL, NULL);
}
