/* each_size.c - what is promised for every size, by every function that allocates: right use is silent, and one 0 behind
 * the block, a second free, and a free of four places inside it are each reported at the call, in one line, and ignored.
 * In the first thread, in the child of a fork, in a thread, and in a destructor of a thread whose cache has gone.
 *
 *   each_size [SKIP]    each size has one in SKIP of the functions, in turn */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

enum { PAGE = 4096, KIB = 1024, MIB = 1024 * 1024, STDERR = 2, SMALL = 1100, STEP = 97 };

/* ---- reports: stderr is a file in memory ------------------------------------------------------- */

static unsigned long found, blocks;

/* The bytes on stderr since `before`, as a text. */
static size_t text_since(off_t before, char *text, size_t room) {
    const ssize_t got = pread(STDERR, text, room - 1, before);
    text[got > 0 ? got : 0] = 0;
    return got > 0 ? (size_t)got : 0;
}
static off_t now(void) { return lseek(STDERR, 0, SEEK_END); }

static void check_line(off_t before, const char *function, const char *kind, const void *pointer,
                       const char *maker, size_t size) {
    char text[512], wanted[80], other[80];
    text_since(before, text, sizeof text);
    snprintf(wanted, sizeof wanted, "hakmem: %s(): %s: %p ", function, kind, pointer);
    snprintf(other, sizeof other, "hakmem: %s(): misaligned pointer: %p ", function, pointer);
    const char *end = strchr(text, '\n');
    const bool is_inside = strcmp(kind, "interior pointer") == 0;
    CHECK(end && !end[1] &&
              (strstr(text, wanted) == text || (is_inside && strstr(text, other) == text)),
          "%s of %zu bytes: \"%s\", wanted \"%s\"", maker, size, text, wanted);
    found++;
}

/* ---- who allocates, and who frees -------------------------------------------------------------- */

typedef enum { BY_FREE, BY_FREE_SIZED, BY_DELETE, BY_DELETE_SIZED, BY_DELETE_ARRAY } freer_t;

static void *(*new_one)(size_t), *(*new_array)(size_t), *(*new_aligned)(size_t, size_t);
static void (*delete_one)(void *), (*delete_array)(void *), (*delete_sized)(void *, size_t);

static void find_operators(void) {
    new_one = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
    new_array = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znam");
    new_aligned = (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, "_ZnwmSt11align_val_t");
    delete_one = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
    delete_array = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdaPv");
    delete_sized = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "_ZdlPvm");
    CHECK(new_one && new_array && new_aligned && delete_one && delete_array && delete_sized,
          "no operators");
}

static void *by_malloc(size_t size, size_t align) {
    (void)align;
    return API(malloc)(size);
}
static void *by_calloc(size_t size, size_t align) {
    (void)align;
    char *block = API(calloc)(1, size);
    for (size_t i = 0; i < size; i++) CHECK(block[i] == 0, "byte %zu of %zu is not 0", i, size);
    return block;
}
static void *by_growth(size_t size, size_t align) {
    (void)align;
    return API(realloc)(API(malloc)(size - size / 3), size);
}
static void *by_shrinking(size_t size, size_t align) {
    (void)align;
    return API(realloc)(API(malloc)(size + size / 3 + 1), size);
}
static void *by_reallocarray(size_t size, size_t align) {
    (void)align;
    return API(reallocarray)(NULL, size, 1);
}
static void *by_memalign(size_t size, size_t align) { return API(memalign)(align, size); }
static void *by_aligned_alloc(size_t size, size_t align) { return API(aligned_alloc)(align, size); }
static void *by_posix_memalign(size_t size, size_t align) {
    void *block = NULL;
    return API(posix_memalign)(&block, align, size) == 0 ? block : NULL;
}
static void *by_valloc(size_t size, size_t align) {
    (void)align;
    return API(valloc)(size);
}
static void *by_new(size_t size, size_t align) {
    (void)align;
    return new_one(size);
}
static void *by_new_array(size_t size, size_t align) {
    (void)align;
    return new_array(size);
}
static void *by_new_aligned(size_t size, size_t align) { return new_aligned(size, align); }

static const struct maker {
    const char *name;
    void *(*make)(size_t size, size_t align);
    size_t align;
    freer_t freer;
} makers[] = {
    {"malloc", by_malloc, 8, BY_FREE},
    {"calloc", by_calloc, 8, BY_FREE},
    {"realloc to more", by_growth, 8, BY_FREE},
    {"realloc to less", by_shrinking, 8, BY_FREE},
    {"reallocarray", by_reallocarray, 8, BY_FREE_SIZED},
    {"memalign 16", by_memalign, 16, BY_FREE},
    {"memalign 128", by_memalign, 128, BY_FREE_SIZED},
    {"memalign 2048", by_memalign, 2048, BY_FREE},
    {"memalign 65536", by_memalign, 64 * KIB, BY_FREE},
    {"memalign 131072", by_memalign, 128 * KIB, BY_FREE},
    {"aligned_alloc 64", by_aligned_alloc, 64, BY_FREE},
    {"posix_memalign 32", by_posix_memalign, 32, BY_FREE},
    {"posix_memalign 4096", by_posix_memalign, PAGE, BY_FREE},
    {"valloc", by_valloc, PAGE, BY_FREE},
    {"new", by_new, 8, BY_DELETE},
    {"new, sized delete", by_new, 8, BY_DELETE_SIZED},
    {"new[]", by_new_array, 8, BY_DELETE_ARRAY},
    {"new at 256", by_new_aligned, 256, BY_DELETE_SIZED},
};
enum { MAKERS = sizeof makers / sizeof *makers };

static const char *free_block(const struct maker *maker, void *block, size_t size) {
    switch (maker->freer) {
    case BY_FREE_SIZED:
        API(free_sized)(block, size);
        return "free_sized";
    case BY_DELETE:
        delete_one(block);
        return "operator delete";
    case BY_DELETE_SIZED:
        delete_sized(block, size);
        return "operator delete";
    case BY_DELETE_ARRAY:
        delete_array(block);
        return "operator delete[]";
    default:
        API(free)(block);
        return "free";
    }
}

/* ---- trials ------------------------------------------------------------------------------------ */

static char *make(const struct maker *maker, size_t size) {
    const off_t before = now();
    char *block = maker->make(size, maker->align);
    CHECK(block != NULL, "%s: no %zu bytes", maker->name, size);
    CHECK((uintptr_t)block % maker->align == 0, "%s of %zu bytes: %p", maker->name, size, block);
    CHECK(API(malloc_usable_size)(block) == size, "%s of %zu bytes has %zu", maker->name, size,
          API(malloc_usable_size)(block));
    memset(block, 'x', size);
    CHECK(now() == before, "%s of %zu bytes is reported", maker->name, size);
    blocks++;
    return block;
}

/* A free inside the block is ignored; after the first right one each further free is a second one. */
static void try_frees(const struct maker *maker, size_t size) {
    char *block = make(maker, size);
    const size_t places[] = {1, 8, size / 2, size - 1};
    for (unsigned i = 0; i < 4; i++) {
        if (places[i] == 0 || places[i] >= size) continue;
        const off_t before = now();
        API(free)(block + places[i]);
        check_line(before, "free", "interior pointer", block + places[i], maker->name, size);
    }
    off_t before = now();
    free_block(maker, block, size);
    CHECK(now() == before, "%s of %zu bytes: a right free is reported", maker->name, size);
    const char *function = free_block(maker, block, size);
    check_line(before, function, "double free", block, maker->name, size);
}

static void try_overflow(const struct maker *maker, size_t size) {
    char *block = make(maker, size);
    const bool has_guard = size >= 64 * KIB || maker->align > 64 * KIB;
    if (has_guard && ((uintptr_t)block + size) % PAGE == 0) { /* it would end the process */
        free_block(maker, block, size);
        return;
    }
    *(volatile char *)(block + size) = 0;
    const off_t before = now();
    const char *function = free_block(maker, block, size);
    check_line(before, function, "overflow", block, maker->name, size);
}

static unsigned long skip;

static void try_size(size_t size) {
    for (size_t i = size % skip; i < MAKERS; i += skip) {
        try_frees(&makers[i], size);
        try_overflow(&makers[i], size);
    }
}

static void try_all(unsigned long step) {
    for (size_t size = 1; size < SMALL; size += step) try_size(size);
    for (size_t size = SMALL; size < 64 * KIB; size += step * STEP) try_size(size);
    for (size_t size = 64 * KIB - 3; size < 64 * KIB + 3; size++) try_size(size);
    for (size_t size = MIB - 3 * PAGE; size < MIB + 2 * PAGE; size += step * 1000) try_size(size);
    for (size_t size = 70000; size < 20 * MIB; size += size / 4) try_size(size);
}

/* ---- states ------------------------------------------------------------------------------------ */

enum { COARSE = 7 };

static void *in_thread(void *unused) {
    try_all(COARSE);
    return unused;
}

/* The key is newer than HAKMEM's, so its destructor comes after the cache has gone. */
static pthread_key_t late;
static void at_end(void *unused) {
    (void)unused;
    try_all(COARSE);
}
static void *end_late(void *unused) {
    API(free)(API(malloc)(1));
    CHECK(pthread_setspecific(late, &late) == 0, "no value");
    return unused;
}

static void run_thread(void *(*body)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

static void run_child(void (*body)(void)) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child");
    CHECK(status == 0, "a child ends with %#x", status);
}

static void try_coarsely(void) { try_all(COARSE); }

static void try_in_all_states(void) {
    CHECK(pthread_key_create(&late, at_end) == 0, "no key");
    try_all(1);
    run_child(try_coarsely);
    run_thread(in_thread);
    run_thread(end_late);
    printf("%lu misuses of %lu blocks: each reported once, at the call\n", found, blocks);
    fflush(stdout);
}

/* The trials run in a child, whose stderr is the file; the parent shows the end of it if one goes wrong. */
int main(int argc, char **argv) {
    char text[2000];
    int status = -1;
    skip = argument(argc, argv, 1, 4);
    watchdog(170, "each size");
    require_hakmem();
    find_operators();
    const int file = memfd_create("reports", 0), terminal = dup(STDERR);
    CHECK(file >= 0 && terminal >= 0 && dup2(file, STDERR) == STDERR, "no file in memory");
    const pid_t child = fork();
    if (child == 0) {
        try_in_all_states();
        _exit(0);
    }
    const bool ended = child > 0 && waitpid(child, &status, 0) == child;
    const off_t end = now();
    text_since(end >= (off_t)sizeof text ? end - (off_t)sizeof text + 1 : 0, text, sizeof text);
    dup2(terminal, STDERR);
    CHECK(ended && status == 0, "status %#x, the end of the reports: %s", status, text);
    return 0;
}
