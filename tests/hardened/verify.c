/* verify.c - under HAKMEM_PROFILE=HARDENED: hakmem_verify, while threads allocate, resize and free, blames
 * no right program, and reads no page that has become a guard. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "alloc_names.h"
#include "check.h"

#define MIB ((size_t)1 << 20)

enum { LOOKS = 300, THREADS = 2 };

/* A block of the first size gets the second one, and so on; both 0: the block is freed instead. */
static const struct {
    const char *name;
    size_t sizes[2];
} rows[] = {
    {"small blocks are freed", {40, 0}},
    {"small blocks are resized", {100, 110}},
    {"blocks of a page and more are resized", {33000, 40000}},
    {"large blocks are freed", {100000, 0}},
    {"large blocks are resized", {100000, 120000}},
    {"huge blocks are freed", {3 * MIB, 0}},
    {"huge blocks are resized", {3 * MIB, 4 * MIB}},
};

static unsigned row;
static _Atomic unsigned running;
static _Atomic bool stop;

static void *use(void *unused) {
    char *block = NULL;
    atomic_fetch_add(&running, 1);
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        block = API(realloc)(block, rows[row].sizes[0]);
        if (rows[row].sizes[1]) block = API(realloc)(block, rows[row].sizes[1]);
        block[i % rows[row].sizes[0]] = 1;
        if (rows[row].sizes[1]) continue;
        API(free)(block);
        block = NULL;
    }
    API(free)(block);
    return unused;
}

static void test_row(size_t (*verify)(void)) {
    pthread_t threads[THREADS];
    size_t found = 0;
    atomic_store(&stop, false);
    atomic_store(&running, 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, use, NULL);
    while (atomic_load(&running) < THREADS) continue;
    for (unsigned i = 0; i < LOOKS; i++) found += verify();
    atomic_store(&stop, true);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(found == 0, "%s: %zu violations in a right program", rows[row].name, found);
}

int main(void) {
    size_t (*verify)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "hakmem_verify");
    CHECK(verify, "there is no hakmem_verify");
    for (row = 0; row < sizeof rows / sizeof *rows; row++) test_row(verify);
    return 0;
}
