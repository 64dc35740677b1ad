/* trials.c - many wrong calls at random places of a heap in use: each is told at the call, in one line that
 * names its pointer, and changes nothing.
 *
 *     trials COUNT      what the default build promises at the call
 *     trials COUNT all  and what HAKMEM_PROFILE=HARDENED promises there
 *
 * HAKMEM_ON_ERROR is report. Between two wrong calls a random block is replaced by another one; the ends of
 * each block have a mark that must be there when it goes. Stderr is a file in memory. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "rng.h"

enum { SLOTS = 2000, MOST = 200000, MARK = 32, LATE = 256 };

struct slot {
    unsigned char *block;
    size_t size;
    unsigned char mark;
};

static struct slot slots[SLOTS];
static void *late[LATE]; /* freed blocks, the addresses of which malloc has not given out again */
static unsigned late_at;
static struct rng rng;
static char variable[100];
static void *volatile escaped; /* the compiler knows nothing of a pointer that was here */

static void *hide(const void *pointer) {
    escaped = (void *)(uintptr_t)pointer;
    return escaped;
}

static size_t ends_of(const struct slot *slot) { return slot->size < MARK ? slot->size : MARK; }

static void *take(size_t size) {
    void *block = API(malloc)(size);
    CHECK(block, "no block of %zu bytes", size);
    for (unsigned i = 0; i < LATE; i++)
        if (late[i] == block) late[i] = NULL;
    return block;
}

static void give(void *block) {
    API(free)(block);
    late[late_at++ % LATE] = block;
}

static void check_marks(const struct slot *slot) {
    for (size_t i = 0; i < ends_of(slot); i++)
        CHECK(slot->block[i] == slot->mark && slot->block[slot->size - 1 - i] == slot->mark,
              "a block of %zu bytes has changed", slot->size);
}

static void replace(struct slot *slot) {
    if (slot->block) {
        check_marks(slot);
        give(slot->block);
    }
    slot->size = rng_size(&rng, 1, rng_below(&rng, 50) ? 4000 : MOST);
    slot->block = take(slot->size);
    slot->mark = (unsigned char)rng_next(&rng);
    memset(slot->block, slot->mark, ends_of(slot));
    memset(slot->block + slot->size - ends_of(slot), slot->mark, ends_of(slot));
}

/* ---- Wrong calls: each returns the pointer that the line must have ---------------------------------- */

static struct slot *any_slot(void) { return &slots[rng_below(&rng, SLOTS)]; }

static void *free_on_stack(void) {
    char local[64];
    void *pointer = hide(local + rng_below(&rng, sizeof local));
    API(free)(pointer);
    return pointer;
}

static void *free_variable(void) {
    void *pointer = hide(variable + rng_below(&rng, sizeof variable));
    API(free)(pointer);
    return pointer;
}

static void *free_inside(void) {
    const struct slot *slot = any_slot();
    while (slot->size < 2) slot = any_slot();
    void *pointer = hide(slot->block + 1 + rng_below(&rng, slot->size - 1));
    API(free)(pointer);
    return pointer;
}

static void *free_twice(void) {
    void *block = hide(take(any_slot()->size));
    give(block);
    API(free)(block);
    return block;
}

static void *free_late(void) {
    void *block = NULL;
    for (unsigned at = (unsigned)rng_below(&rng, LATE); !block; at++) block = hide(late[at % LATE]);
    API(free)(block);
    return block;
}

static void *resize_late(void) {
    void *block = NULL;
    for (unsigned at = (unsigned)rng_below(&rng, LATE); !block; at++) block = hide(late[at % LATE]);
    CHECK(!API(realloc)(block, 100), "a freed block is resized");
    return block;
}

static void *free_with_wrong_size(void) {
    const struct slot *slot = any_slot();
    API(free_sized)(slot->block, slot->size + 1 + rng_below(&rng, 100));
    return slot->block;
}

static void *overflow(void) {
    size_t size = any_slot()->size;
    unsigned char *block = hide(take(size));
    block[size] = 0;
    give(block);
    return block;
}

static const struct {
    const char *word;
    void *(*call)(void);
} kinds[] = {
    {"foreign pointer", free_on_stack},
    {"foreign pointer", free_variable},
    {"", free_inside},
    {"double free", free_twice},
    {"", free_late}, /* from here on: HARDENED */
    {"realloc", resize_late},
    {"wrong size", free_with_wrong_size},
    {"overflow", overflow},
};
enum { KINDS = sizeof kinds / sizeof *kinds, DEFAULT_KINDS = 4 };

static void try_one(unsigned kind) {
    char text[1000], pointer[40];
    void *wrong = kinds[kind].call();
    ssize_t length = pread(STDERR_FILENO, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    snprintf(pointer, sizeof pointer, "%p ", wrong);
    const char *end = strchr(text, '\n');
    bool told = strncmp(text, "hakmem: ", 8) == 0 && strstr(text, pointer) &&
                strstr(text, kinds[kind].word) && end && end[1] == 0;
    CHECK(told, "%s of %p, kind %u, is not one line", kinds[kind].word, wrong, kind);
    CHECK(ftruncate(STDERR_FILENO, 0) == 0 && lseek(STDERR_FILENO, 0, SEEK_SET) == 0, "no file");
}

static void run(unsigned long count, unsigned kind_count, int file) {
    CHECK(dup2(file, STDERR_FILENO) == STDERR_FILENO, "no stderr");
    rng = rng_make(count);
    for (unsigned i = 0; i < SLOTS; i++) replace(&slots[i]);
    for (unsigned i = 0; i < LATE; i++) replace(any_slot());
    for (unsigned long i = 0; i < count; i++) {
        replace(any_slot());
        try_one((unsigned)rng_below(&rng, kind_count));
    }
    for (unsigned i = 0; i < SLOTS; i++) check_marks(&slots[i]);
}

int main(int argc, char **argv) {
    unsigned long count = argument(argc, argv, 1, 10000);
    bool all = argc > 2 && strcmp(argv[2], "all") == 0;
    int file = memfd_create("stderr", 0), status;
    char text[2000];
    CHECK(file >= 0, "no file in memory");
    require_hakmem();
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        watchdog(20 + (unsigned)(count / 5000), "wrong calls");
        run(count, all ? KINDS : DEFAULT_KINDS, file);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    CHECK(status == 0, "status %#x: %.*s", (unsigned)status, (int)(length > 0 ? length : 0), text);
    printf("%lu wrong calls of %d kinds, each told in one line; no block changed\n", count,
           all ? KINDS : DEFAULT_KINDS);
    return 0;
}
