/* first_call.c - the very first call of the allocator, made by 64 threads at once.
 *
 *     first_call LIBRARY [processes]
 *
 * With LD_PRELOAD libc itself would make the first call, so the test loads the library by dlopen once
 * all threads wait. Each kind of entry point is the first in some trial; each trial is a process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "child.h"

#define THREADS 64

static const char *path;
static pthread_barrier_t ready;
static void *handle;

static void *found(const char *name) {
    void *address = dlsym(handle, name);
    CHECK(address != NULL, "the library has no %s", name);
    return address;
}

static void *by_malloc(size_t size) { return ((void *(*)(size_t))found("hakmem_malloc"))(size); }

static void *by_calloc(size_t size) {
    return ((void *(*)(size_t, size_t))found("hakmem_calloc"))(1, size);
}

static void *by_realloc(size_t size) {
    return ((void *(*)(void *, size_t))found("hakmem_realloc"))(NULL, size);
}

static void *by_aligned_alloc(size_t size) {
    return ((void *(*)(size_t, size_t))found("hakmem_aligned_alloc"))(64, size);
}

static void *by_free_of_null(size_t size) {
    ((void (*)(void *))found("hakmem_free"))(NULL);
    return by_malloc(size);
}

static void *by_usable_size(size_t size) {
    size_t none = ((size_t(*)(const void *))found("hakmem_malloc_usable_size"))(NULL);
    CHECK(none == 0, "malloc_usable_size(NULL) is %zu", none);
    return by_malloc(size);
}

static void *by_trim(size_t size) {
    ((int (*)(size_t))found("hakmem_malloc_trim"))(0);
    return by_malloc(size);
}

static void *by_posix_memalign(size_t size) {
    void *block = NULL;
    int error =
        ((int (*)(void **, size_t, size_t))found("hakmem_posix_memalign"))(&block, 4096, size);
    return error == 0 ? block : NULL;
}

static void *by_memalign(size_t size) {
    return ((void *(*)(size_t, size_t))found("hakmem_memalign"))(256, size);
}

static void *by_valloc(size_t size) { return ((void *(*)(size_t))found("hakmem_valloc"))(size); }

static void *by_reallocarray(size_t size) {
    return ((void *(*)(void *, size_t, size_t))found("hakmem_reallocarray"))(NULL, size, 1);
}

static void *by_huge_calloc(size_t size) {
    return ((void *(*)(size_t, size_t))found("hakmem_calloc"))(2 << 20, size);
}

static void *by_mallopt(size_t size) {
    ((int (*)(int, int))found("hakmem_mallopt"))(-1, 1 << 20);
    return by_malloc(size);
}

static void *by_stats(size_t size) {
    char text[200];
    ((size_t(*)(char *, size_t))found("hakmem_stats_json"))(text, sizeof text);
    return by_malloc(size);
}

static void *by_option(size_t size) {
    char text[200];
    ((int (*)(const char *, char *, size_t))found("hakmem_option_get"))("HAKMEM_THP", text,
                                                                        sizeof text);
    ((int (*)(const char *, const char *))found("hakmem_option_set"))("HAKMEM_THP", "0");
    return by_malloc(size);
}

static void *by_verify(size_t size) {
    size_t wrong = ((size_t(*)(void))found("hakmem_verify"))();
    CHECK(wrong == 0, "%zu violations before the first block", wrong);
    return by_malloc(size);
}

static void *by_bounds(size_t size) {
    void *start, *end;
    int found_one =
        ((int (*)(const void *, void **, void **))found("hakmem_bounds"))(&start, &start, &end);
    CHECK(found_one == 0, "an address of the stack lies in a block");
    return by_malloc(size);
}

static const struct entry {
    const char *name;
    void *(*first)(size_t size);
} entries[] = {
    {"malloc", by_malloc},
    {"calloc", by_calloc},
    {"realloc", by_realloc},
    {"aligned_alloc", by_aligned_alloc},
    {"free(NULL)", by_free_of_null},
    {"malloc_usable_size(NULL)", by_usable_size},
    {"malloc_trim", by_trim},
    {"posix_memalign", by_posix_memalign},
    {"memalign", by_memalign},
    {"valloc", by_valloc},
    {"mallopt", by_mallopt},
    {"reallocarray", by_reallocarray},
    {"calloc of MiB", by_huge_calloc},
    {"hakmem_stats_json", by_stats},
    {"hakmem_option_set", by_option},
    {"hakmem_verify", by_verify},
    {"hakmem_bounds", by_bounds},
};

#define ENTRY_COUNT (sizeof entries / sizeof entries[0])

struct trial {
    const struct entry *entry;
    bool mixed; /* each thread enters by another function */
};

static const struct trial *trial;
static void *blocks[THREADS];

static void *enter(void *argument) {
    size_t index = (size_t)(uintptr_t)argument;
    const struct entry *entry = trial->mixed ? &entries[index % ENTRY_COUNT] : trial->entry;
    size_t size = 16 + index * 40;
    pthread_barrier_wait(&ready);
    blocks[index] = entry->first(size);
    CHECK(blocks[index] != NULL, "the first %s gave NULL", entry->name);
    memset(blocks[index], (int)index, size);
    return NULL;
}

static void run_trial(const void *context) {
    pthread_t threads[THREADS];
    trial = context;
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, enter, (void *)(uintptr_t)i) == 0, "no thread");
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL, "dlopen: %s", dlerror());
    pthread_barrier_wait(&ready);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++) {
        const unsigned char *bytes = blocks[i];
        CHECK(bytes[0] == i && bytes[15 + i * 40] == i, "two first blocks overlap");
    }
}

int main(int argc, char **argv) {
    CHECK(argc > 1, "usage: first_call LIBRARY [processes]");
    path = argv[1];
    unsigned long count = argument(argc, argv, 2, 40);
    watchdog(60 + (unsigned)(count / 4), "first calls at once");
    for (unsigned long i = 0; i < count; i++) {
        struct trial one = {&entries[i % ENTRY_COUNT], i % (ENTRY_COUNT + 1) == ENTRY_COUNT};
        child_must_succeed(run_trial, &one, 30, one.mixed ? "mixed entry points" : one.entry->name);
    }
    printf("%lu processes with %d first calls each\n", count, THREADS);
    return 0;
}
