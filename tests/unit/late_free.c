/* late_free.c: a second free of a block above 1 MiB comes in the midst of the call that gives the block back, resizes it
 * or hands its memory out again: it is reported, and nobody else gets the block. The linker sends the engine's calls
 * here (--wrap). */
#include "unit.h"

#include <string.h>

#include "error/error.h"
#include "hakmem.h"
#include "large/huge.h"
#include "thread/verify.h"

enum { SIZE = 4 << 20, MORE = SIZE + (64 << 10), TRIES = 16 };

static unsigned reports;

void __wrap_hak_error_report(const char *function, const char *format, ...);
void __wrap_hak_error_report(const char *function, const char *format, ...) {
    (void)function, (void)format;
    reports++;
}

/* The next call of this step is the window; `found` in it, and not before. */
static const char *window;
static bool is_found;

static bool opens(const char *step, const void *block) {
    if (!window || strcmp(window, step) != 0 || !block) return false;
    window = NULL;
    return is_found = true;
}

/* The second free, and requests that would get the block. */
static void free_again(void *block) {
    void *others[TRIES];
    const unsigned before = reports;
    hakmem_free(block);
    REQUIRE(reports == before + 1, "%u reports of a second free", reports - before);
    for (unsigned i = 0; i < TRIES; i++) {
        others[i] = hakmem_malloc(SIZE);
        REQUIRE(others[i] != block, "a block in hand is handed out");
    }
    for (unsigned i = 0; i < TRIES; i++) hakmem_free(others[i]);
    REQUIRE(reports == before + 1, "%u reports of right frees", reports - before - 1);
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

static void begin(const char *step) {
    reports = 0;
    is_found = false;
    window = step;
}

static void end(const char *step) {
    REQUIRE(is_found, "no %s", step);
    REQUIRE(reports == 1, "%u reports", reports);
    REQUIRE(hak_verify() == 0, "violations");
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

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_PURGE_THREAD=0", NULL});
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_heap)};
    return cmocka_run_group_tests_name("late_free", tests, NULL, NULL);
}
