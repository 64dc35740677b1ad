/* copies.c - memcpy, memmove and memset under libhakmem_copies.so.
 *
 *   copies exact    HAKMEM_PROFILE=HARDENED: one byte beyond the requested size is reported
 *   copies usable   other profiles: one byte beyond the usable size is
 *
 * Each row of the table is one wrong call; each runs for every size, in a process of its own, and must
 * end at the call, with one line "hakmem: FUNCTION(): KIND: POINTER ..." and SIGABRT. Right calls
 * pass in silence, and with HAKMEM_ON_ERROR=report a wrong one is ignored. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

#define MIB ((size_t)1 << 20)
enum { CHILD_LIMIT = 20, PAGE = 4096 };

/* Up to 1 MiB with the guard page; none above 64 KiB is a multiple of a page, where the guard begins. */
static const size_t sizes[] = {1,    8,     16,    24,    47,    100,    256,    777,        1024,
                               2049, 10000, 30000, 65535, 65537, 100000, 500000, MIB - 10000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void *volatile *offender;
static char other[2 * MIB];
static bool exact;

/* Called by pointers that the compiler does not know. */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile move)(void *, const void *, size_t) = memmove;
static void *(*volatile fill)(void *, int, size_t) = memset;
static void *(*volatile copy_on)(void *, const void *, size_t) = mempcpy;

/* What a program calls that was built with _FORTIFY_SOURCE. */
void *__memcpy_chk(void *to, const void *from, size_t size, size_t room);
void *__mempcpy_chk(void *to, const void *from, size_t size, size_t room);

/* A block, and the first byte that may not be used. */
static char *victim(size_t size, size_t *end) {
    char *block = API(malloc)(size);
    CHECK(block != NULL, "no block of %zu bytes", size);
    *end = exact ? size : API(malloc_usable_size)(block);
    *offender = block;
    return block;
}

static void copy_behind(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    copy(block, other, end + 1);
}
static void copy_on_behind(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    copy_on(block, other, end + 1);
}
static void fortified_copy_behind(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    __memcpy_chk(block, other, end + 1, SIZE_MAX);
}
static void fortified_copy_on_behind(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    __mempcpy_chk(block, other, end + 1, SIZE_MAX);
}
static void move_behind(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    move(block + end / 2, other, end - end / 2 + 1);
}
static void fill_behind(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    fill(block + end - 1, 0, 2);
}
static void copy_from_behind(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    copy(other, block, end + 1);
}
static void fill_with_a_negative_size(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    fill(block, 0, (size_t)-1);
}
static void copy_to_freed(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    API(free)(block);
    copy(block, other, 1);
}
static void copy_from_freed(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    API(free)(block);
    copy(other, block, size);
}

/* One of the last blocks of the slab, which no call has returned yet. */
static void copy_to_never_given(size_t size) {
    size_t end;
    char *block = victim(size, &end);
    *offender = (void *)(((uintptr_t)block | 0xffff) - 2 * (end + 8));
    copy(*offender, other, 1);
}

static const struct wrong {
    const char *name;
    void (*commit)(size_t size);
    const char *line;
    bool is_exact; /* found on the hardened path only */
    size_t most;
} rows[] = {
    {"memcpy behind a block", copy_behind, "memcpy(): overflow", false, MIB},
    {"mempcpy behind a block", copy_on_behind, "mempcpy(): overflow", false, MIB},
    {"fortified memcpy behind a block", fortified_copy_behind, "memcpy(): overflow", false, MIB},
    {"fortified mempcpy behind a block", fortified_copy_on_behind, "mempcpy(): overflow", false,
     MIB},
    {"memmove behind a block", move_behind, "memmove(): overflow", false, MIB},
    {"memset behind a block", fill_behind, "memset(): overflow", false, MIB},
    {"memcpy from behind a block", copy_from_behind, "memcpy(): overflow", false, MIB},
    {"memset of a negative size", fill_with_a_negative_size, "memset(): overflow", false, MIB},
    {"memcpy to a freed block", copy_to_freed, "memcpy(): use after free", true, 65535},
    {"memcpy from a freed block", copy_from_freed, "memcpy(): use after free", true, 65535},
    {"memcpy to a block never given out", copy_to_never_given, "memcpy(): use after free", true,
     1024},
};
enum { ROWS = sizeof rows / sizeof *rows };

struct trial {
    const struct wrong *row;
    size_t size;
};

static void commit(const void *context) {
    const struct trial *trial = context;
    proc_no_core_files();
    trial->row->commit(trial->size);
}

static void check(const struct wrong *row, size_t size) {
    struct trial trial = {row, size};
    struct child_end end;
    char wanted[200];
    *offender = NULL;
    child_run(commit, &trial, CHILD_LIMIT, &end);
    int length = snprintf(wanted, sizeof wanted, "hakmem: %s: %p", row->line, *offender);
    const char *line_end = strchr(end.err, '\n');
    bool right = strncmp(end.err, wanted, (size_t)length) == 0 && line_end && line_end[1] == 0;
    CHECK(end.in_time && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT && right,
          "%s, %zu bytes: status %#x, wanted \"%s\", stderr \"%s\"", row->name, size, end.status,
          wanted, end.err);
}

/* Whole blocks, their middle, nothing behind their end, and memory of others. */
static void use_rightly(const void *unused) {
    char local[200];
    (void)unused;
    for (int i = 0; i < SIZES; i++) {
        size_t end, size = sizes[i];
        char *block = victim(size, &end), *twin = API(calloc)(1, size);
        fill(block, 7, end);
        copy(twin, block, size);
        move(twin + size / 2, twin, size - size / 2);
        copy(block + end, other, 0);
        copy(other, block, end);
        CHECK(copy_on(twin, block, size) == twin + size, "mempcpy of %zu bytes", size);
        CHECK(memcmp(twin, other, size) == 0, "%zu bytes were not copied", size);
        block = API(realloc)(block, size + size / 3);
        copy(block, other, size + size / 3);
        API(free)(block);
        API(free)(twin);
    }
    fill(local, 1, sizeof local);
    copy(other + 5, local, sizeof local);
    char *huge = API(malloc)(5 * MIB);
    fill(huge, 1, 5 * MIB);
    API(free)(huge);
}

/* The option stands in the environment: this is a process of its own kind. */
static void ignore_wrong_calls(void) {
    int (*set)(const char *, const char *) =
        (int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "hakmem_option_set");
    CHECK(set && set("ON_ERROR", "report") == 0, "ON_ERROR cannot be set");
    size_t end;
    char *block = victim(100, &end);
    fill(block, 5, end);
    CHECK(fill(block, 6, end + 1) == block && block[0] == 5, "a wrong memset was carried out");
}
static void ignore(const void *unused) {
    (void)unused;
    ignore_wrong_calls();
}

int main(int argc, char **argv) {
    watchdog(120, "checked copies");
    require_hakmem();
    CHECK(argc == 2, "usage: copies exact|usable");
    exact = strcmp(argv[1], "exact") == 0;
    offender = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(offender != MAP_FAILED, "no shared page");
    for (int k = 0; k < ROWS; k++)
        for (int i = 0; i < SIZES; i++)
            if ((exact || !rows[k].is_exact) && sizes[i] <= rows[k].most) check(&rows[k], sizes[i]);
    child_must_succeed(use_rightly, NULL, CHILD_LIMIT, "right copies");
    struct child_end end;
    child_run(ignore, NULL, CHILD_LIMIT, &end);
    CHECK(end.status == 0 && strncmp(end.err, "hakmem: memset(): overflow", 26) == 0,
          "a wrong copy that is only reported: status %#x, \"%s\"", end.status, end.err);
    printf("%d kinds of wrong copies at %d sizes: found at the call\n", ROWS, SIZES);
    return 0;
}
