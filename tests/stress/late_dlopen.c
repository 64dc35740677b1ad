/* late_dlopen.c - libhakmem loaded late, with RTLD_LOCAL, into a process that runs on another malloc.
 *
 *     late_dlopen LIBRARY [rounds]
 *
 * Threads that are older than the library use it, and so do new ones; blocks of both allocators are
 * live at the same time. After dlclose the blocks must keep their contents, and threads must end
 * normally. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rng.h"

#define THREADS 8
#define BLOCKS 500

static struct {
    void *(*allocate)(size_t size);
    void *(*resize)(void *ptr, size_t size);
    void (*release)(void *ptr);
    int (*version)(void);
} library;

static pthread_barrier_t loaded;
static pthread_barrier_t closed;
static unsigned long rounds;

static void use_both(struct rng *rng) {
    unsigned char *theirs[BLOCKS];
    unsigned char *ours[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = rng_size(rng, 1, 100000);
        theirs[i] = malloc(size);
        ours[i] = library.allocate(size);
        CHECK(theirs[i] != NULL && ours[i] != NULL, "no block of %zu bytes", size);
        theirs[i][0] = 1;
        ours[i][0] = 2;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        ours[i] = library.resize(ours[i], rng_size(rng, 1, 100000));
        CHECK(theirs[i][0] == 1 && ours[i][0] == 2, "two allocators gave the same memory");
        free(theirs[i]);
        library.release(ours[i]);
    }
}

static void *older_thread(void *argument) {
    struct rng rng = rng_make((uint64_t)(uintptr_t)argument);
    pthread_barrier_wait(&loaded);
    for (unsigned long i = 0; i < rounds; i++) use_both(&rng);
    pthread_barrier_wait(&closed);
    use_both(&rng);
    return NULL;
}

static void *newer_thread(void *argument) {
    struct rng rng = rng_make((uint64_t)(uintptr_t)argument + 100);
    use_both(&rng);
    return NULL;
}

static void *function(void *handle, const char *name) {
    void *address = dlsym(handle, name);
    CHECK(address != NULL, "the library has no %s", name);
    return address;
}

int main(int argc, char **argv) {
    pthread_t older[THREADS];
    CHECK(argc > 1, "usage: late_dlopen LIBRARY [rounds]");
    rounds = argument(argc, argv, 2, 20);
    watchdog(120, "libhakmem by dlopen");
    pthread_barrier_init(&loaded, NULL, THREADS + 1);
    pthread_barrier_init(&closed, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&older[i], NULL, older_thread, (void *)i) == 0, "no thread");
    void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL, "dlopen: %s", dlerror());
    library.allocate = (void *(*)(size_t))function(handle, "hakmem_malloc");
    library.resize = (void *(*)(void *, size_t))function(handle, "hakmem_realloc");
    library.release = (void (*)(void *))function(handle, "hakmem_free");
    library.version = (int (*)(void))function(handle, "hakmem_version");
    Dl_info info;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) != 0 &&
              strstr(info.dli_fname, "libc.so") != NULL,
          "this process was to run on libc's malloc");
    CHECK(library.version() > 0, "no version");
    pthread_barrier_wait(&loaded);
    for (unsigned long round = 0; round < rounds; round++) {
        pthread_t newer[2];
        for (size_t i = 0; i < 2; i++)
            CHECK(pthread_create(&newer[i], NULL, newer_thread, (void *)i) == 0, "no thread");
        for (size_t i = 0; i < 2; i++) pthread_join(newer[i], NULL);
    }
    dlclose(handle);
    pthread_barrier_wait(&closed);
    for (size_t i = 0; i < THREADS; i++) pthread_join(older[i], NULL);
    return 0;
}
