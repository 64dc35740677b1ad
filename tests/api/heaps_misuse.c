/* heaps_misuse.c - what is wrong about a heap or a block of it ends the process with one line. */
#define _GNU_SOURCE
#include "api.h"

#include <signal.h>
#include <sys/wait.h>

#include "child.h"
#include "hakmem.h"
#include "heaps.h"

static void use_after_destroy(const void *unused) {
    (void)unused;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    hakmem_heap_destroy(heap);
    CHECK(hakmem_heap_new(0), "no heap");
    hakmem_heap_malloc(heap, 1) ? (void)0 : (void)1;
}

static void destroy_twice(const void *unused) {
    (void)unused;
    hakmem_heap_t *heap = hakmem_heap_new(0);
    hakmem_heap_destroy(heap);
    hakmem_heap_destroy(heap);
}

static void pass_a_pointer(const void *unused) {
    (void)unused;
    hakmem_heap_free_all((hakmem_heap_t *)API(malloc)(100));
}

static void pass_null(const void *unused) {
    (void)unused;
    hakmem_heap_t *heap = NULL;
    hakmem_heap_set_limit(heap, 1);
}

static void free_twice(const void *size) {
    hakmem_heap_t *heap = hakmem_heap_new(0);
    void *block = hakmem_heap_malloc(heap, *(const size_t *)size);
    void *stays = hakmem_heap_malloc(heap, *(const size_t *)size);
    CHECK(block && stays, "no block");
    API(free)(block);
    API(free)(block);
}

static void free_after_free_all(const void *size) {
    hakmem_heap_t *heap = hakmem_heap_new(0);
    void *block = hakmem_heap_malloc(heap, *(const size_t *)size);
    hakmem_heap_free_all(heap);
    API(free)(block);
}

static void free_inside(const void *size) {
    hakmem_heap_t *heap = hakmem_heap_new(0);
    char *block = hakmem_heap_malloc(heap, *(const size_t *)size);
    API(free)(block + *(const size_t *)size / 2 / GRAIN * GRAIN);
}

static void resize_inside(const void *size) {
    hakmem_heap_t *heap = hakmem_heap_new(0);
    char *block = hakmem_heap_malloc(heap, *(const size_t *)size);
    hakmem_heap_realloc(heap, block + 16, 100) ? (void)0 : (void)1;
}

static void assert_reported(void (*body)(const void *), const size_t *size, const char *text) {
    struct child_end end;
    child_run(body, size, 20, &end);
    const char *line = strchr(end.err, '\n');
    if (!end.in_time || !WIFSIGNALED(end.status) || WTERMSIG(end.status) != SIGABRT || !line ||
        line[1] || !strstr(end.err, text))
        fail_msg("no single line \"%s\" for %zu bytes: %s", text, size ? *size : 0, end.err);
}

void misuse_of_heaps_ends_in_a_line(void **state) {
    (void)state;
    static const size_t sizes[] = {40, 1000, 5000, 60000, 100000, MIB, 5 * MIB};
    assert_reported(use_after_destroy, NULL, "heap_malloc(): no heap: ");
    assert_reported(destroy_twice, NULL, "heap_destroy(): no heap: ");
    assert_reported(pass_a_pointer, NULL, "heap_free_all(): no heap: ");
    assert_reported(pass_null, NULL, "heap_set_limit(): no heap: ");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_reported(free_twice, &sizes[i], "free(): double free: ");
        assert_reported(free_after_free_all, &sizes[i], "free(): double free: ");
        assert_reported(free_inside, &sizes[i], "free(): interior pointer: ");
        assert_reported(resize_inside, &sizes[i], "interior pointer: ");
    }
}
