/* must_abort.c - every misuse of free ends in one line that names it, and in SIGABRT.
 *
 * Each row of the table is one kind of misuse. It runs for every size, each time in its own process.
 * The line must be
 *     hakmem: FUNCTION(): KIND: POINTER ...
 * with the misused pointer. Nothing else may be on stderr. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

#define MIB ((size_t)1 << 20)
#define CHILD_LIMIT 20 /* seconds */

static const size_t sizes[] = {
    16,     24,     32,    48,      64,      80,      100,     128,       200,
    256,    512,    777,   1000,    1024,    2048,    2049,    4096,      8192,
    14336,  16384,  30000, 32768,   65536,   65537,   100000,  131072,    262144,
    524288, 777777, MIB,   MIB + 1, 2 * MIB, 8 * MIB, 9 * MIB, 100 * MIB,
};

/* The child stores here what it is about to misuse; the parent reads it afterwards. */
static void *volatile *offender;

/* Answers that nobody needs go here. */
static void *volatile sink;

/* ---- double frees ----------------------------------------------------------------------------- */

/* Enough blocks of a size to make any cache of it flush, within 256 MiB of address space. */
static size_t flushing_count(size_t size) {
    size_t count = 256 * MIB / size;
    return count > 20000 ? 20000 : count;
}

static void double_free_at_once(size_t size) {
    void *block = API(malloc)(size);
    *offender = block;
    API(free)(block);
    API(free)(block);
}

/* Frees a block twice with many frees of its class around, so that the cache it stands in flushes at
 * the latest when this thread ends. */
static void *free_among_many(void *argument) {
    size_t size = *(size_t *)argument;
    size_t count = flushing_count(size);
    void **blocks = mmap(NULL, (count + 1) * sizeof *blocks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i <= count; i++) blocks[i] = API(malloc)(size);
    /* The block in the middle: its slab keeps live neighbours until the very end. */
    size_t victim = count / 2;
    *offender = blocks[victim];
    API(free)(blocks[victim]);
    for (size_t i = 0; i < count; i += 2)
        if (i != victim) API(free)(blocks[i]);
    API(free)(blocks[victim]);
    for (size_t i = 1; i < count; i += 2)
        if (i != victim) API(free)(blocks[i]);
    return NULL;
}

static void run_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* malloc_trim gives back what caches hold, and so flushes them. */
static void double_free_after_one_other(size_t size) {
    void *block = API(malloc)(size);
    void *other = API(malloc)(size);
    *offender = block;
    API(free)(block);
    API(free)(other);
    API(free)(block);
    API(malloc_trim)(0);
}

/* Nothing flushes the caches: the second call itself must find it. */
static void double_free_around_one_other(size_t size) {
    void *others[3], *block = API(malloc)(size);
    for (int i = 0; i < 3; i++) others[i] = API(malloc)(size);
    *offender = block;
    API(free)(others[0]); /* grows the stack of a class that begins with room for one */
    API(free)(others[1]);
    API(free)(block);
    API(free)(others[2]);
    API(free)(block);
    _exit(0);
}

static void double_free_after_many_others(size_t size) { run_thread(free_among_many, &size); }

static void *free_block(void *block) {
    API(free)(block);
    return NULL;
}

static void double_free_by_two_threads(size_t size) {
    void *block = API(malloc)(size);
    *offender = block;
    run_thread(free_block, block);
    run_thread(free_block, block);
}

/* All that was freed has gone back to the system. */
static void double_free_after_trim(size_t size) {
    void *block = API(malloc)(size);
    *offender = block;
    memset(block, 1, size);
    API(free)(block);
    API(malloc_trim)(0);
    API(free)(block);
    API(malloc_trim)(0);
}

/* Blocks of 64 bytes come to lie where the block was, if it was large; one that has its very address is
 * freed as well. */
static void double_free_below_small_blocks(size_t size) {
    enum { SMALL = 64, MOST = 300000, UNIT_SHIFT = 16 };
    char *block = API(malloc)(size), *small = NULL;
    *offender = block;
    API(free)(block);
    for (int i = 0; i < MOST && (uintptr_t)small >> UNIT_SHIFT != (uintptr_t)block >> UNIT_SHIFT;
         i++)
        small = API(malloc)(SMALL);
    if (small == block) API(free)(small);
    API(free)(block);
    API(malloc_trim)(0);
}

/* realloc has freed the block under its old address. */
static void double_free_after_realloc(size_t size) {
    void *block = API(malloc)(size), *moved;
    *offender = block;
    while ((moved = API(realloc)(block, size *= 2)) == block) continue;
    API(free)(block);
    API(malloc_trim)(0);
}

static void realloc_after_free(size_t size) {
    void *block = API(malloc)(size);
    *offender = block;
    API(free)(block);
    sink = API(realloc)(block, size + 100);
}

/* ---- pointers into live blocks ---------------------------------------------------------------- */

/* A live block between others, and an offset into it. */
static char *inside(size_t size, size_t offset) {
    API(malloc)(size);
    char *block = API(malloc)(size);
    API(malloc)(size);
    *offender = block + offset;
    return block + offset;
}

static void free_interior_start(size_t size) { API(free)(inside(size, size >= 32 ? 16 : 8)); }

static void free_interior_middle(size_t size) { API(free)(inside(size, (size / 2 + 7) / 8 * 8)); }

static void free_interior_end(size_t size) { API(free)(inside(size, (size - 1) / 8 * 8)); }

static void free_interior_in_next_unit(size_t size) {
    /* Blocks that span several 64 KiB units must be known in each of them. */
    API(free)(inside(size, size > 70000 ? 65536 : 8));
}

static void free_misaligned_by_one(size_t size) { API(free)(inside(size, 1)); }

static void free_misaligned_by_four(size_t size) { API(free)(inside(size, 4)); }

static void free_misaligned_last_byte(size_t size) {
    API(free)(inside(size, size - (size % 8 == 1 ? 2 : 1)));
}

static void realloc_interior(size_t size) { sink = API(realloc)(inside(size, 8), size * 2); }

static void realloc_misaligned(size_t size) { sink = API(realloc)(inside(size, 1), size * 2); }

static void usable_size_interior(size_t size) {
    sink = (void *)API(malloc_usable_size)(inside(size, 8));
}

static void free_sized_interior(size_t size) { API(free_sized)(inside(size, 8), size); }

/* ---- pointers that were never ours ------------------------------------------------------------- */

/* The size plays no part but for a heap that is in use at that size. */
static void *foreign(size_t size, void *ptr) {
    API(free)(API(malloc)(size));
    *offender = ptr;
    return ptr;
}

static _Alignas(64) char static_data[256];

static void free_stack(size_t size) {
    _Alignas(64) char local[256];
    API(free)(foreign(size, local + 64));
}

static void free_static_data(size_t size) { API(free)(foreign(size, static_data + 64)); }

static void free_code(size_t size) {
    API(free)(foreign(size, (void *)(((uintptr_t)&free_code + 15) / 16 * 16)));
}

static void free_mapped_page(size_t size) {
    API(free)
    (foreign(size,
             mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
}

static void free_wild_low(size_t size) { API(free)(foreign(size, (void *)0x10)); }

static void free_wild_high(size_t size) { API(free)(foreign(size, (void *)0x7ffffffff000)); }

static void free_non_canonical(size_t size) {
    API(free)(foreign(size, (void *)0x4141414141414140));
}

static void free_all_ones(size_t size) { API(free)(foreign(size, (void *)(UINTPTR_MAX - 15))); }

static void free_tagged(size_t size) {
    uintptr_t tag = (uintptr_t)0x2a << 56;
    API(free)(foreign(size, (void *)((uintptr_t)API(malloc)(size) | tag)));
}

/* Most slabs of 3072-byte blocks have room before the first one; none of it is a block. With a canary,
 * too, what is asked for is such a block. */
static void free_before_the_first_block(size_t size) {
    enum { UNIT = 65536, BLOCK = 3072, CANARY_MOST = 64 };
    char *block;
    do {
        block = API(malloc)(BLOCK - CANARY_MOST);
    } while ((uintptr_t)block % UNIT % BLOCK == 0);
    API(free)(foreign(size, block - (uintptr_t)block % UNIT));
}

static void realloc_foreign(size_t size) {
    sink = API(realloc)(foreign(size, static_data + 64), size);
}

static void usable_size_foreign(size_t size) {
    sink = (void *)API(malloc_usable_size)(foreign(size, static_data + 64));
}

static void free_sized_foreign(size_t size) {
    API(free_sized)(foreign(size, static_data + 64), size);
}

static void free_aligned_sized_foreign(size_t size) {
    API(free_aligned_sized)(foreign(size, static_data + 64), 64, size);
}

/* ---- the table --------------------------------------------------------------------------------- */

static const struct misuse {
    const char *name;
    void (*commit)(size_t size);
    const char *function; /* NULL: whichever call or flush found it */
    const char *kind;
    const char *other_kind; /* as good, or NULL */
} misuses[] = {
    {"double free at once", double_free_at_once, "free", "double free", NULL},
    {"double free after one other", double_free_after_one_other, NULL, "double free", NULL},
    {"double free around one other", double_free_around_one_other, "free", "double free", NULL},
    {"double free after many others", double_free_after_many_others, NULL, "double free", NULL},
    {"double free by two threads", double_free_by_two_threads, NULL, "double free", NULL},
    {"double free after malloc_trim", double_free_after_trim, NULL, "double free", NULL},
    {"double free below small blocks", double_free_below_small_blocks, NULL, "double free", NULL},
    {"double free after realloc", double_free_after_realloc, NULL, "double free", NULL},
    {"interior pointer, start", free_interior_start, "free", "interior pointer", NULL},
    {"interior pointer, middle", free_interior_middle, "free", "interior pointer", NULL},
    {"interior pointer, end", free_interior_end, "free", "interior pointer", NULL},
    {"interior pointer, next unit", free_interior_in_next_unit, "free", "interior pointer", NULL},
    {"misaligned pointer, by 1", free_misaligned_by_one, "free", "misaligned pointer", NULL},
    {"misaligned pointer, by 4", free_misaligned_by_four, "free", "misaligned pointer", NULL},
    {"misaligned pointer, last byte", free_misaligned_last_byte, "free", "misaligned pointer",
     NULL},
    {"realloc of an interior pointer", realloc_interior, "realloc", "interior pointer", NULL},
    {"realloc of a misaligned pointer", realloc_misaligned, "realloc", "misaligned pointer", NULL},
    {"malloc_usable_size of an interior pointer", usable_size_interior, "malloc_usable_size",
     "interior pointer", NULL},
    {"free_sized of an interior pointer", free_sized_interior, NULL, "interior pointer", NULL},
    {"foreign: stack", free_stack, "free", "foreign pointer", NULL},
    {"foreign: static data", free_static_data, "free", "foreign pointer", NULL},
    {"foreign: code", free_code, "free", "foreign pointer", NULL},
    {"foreign: mapped page", free_mapped_page, "free", "foreign pointer", NULL},
    {"foreign: wild, low", free_wild_low, "free", "foreign pointer", NULL},
    {"foreign: wild, high", free_wild_high, "free", "foreign pointer", NULL},
    {"foreign: non-canonical", free_non_canonical, "free", "foreign pointer", NULL},
    {"foreign: all ones", free_all_ones, "free", "foreign pointer", NULL},
    {"foreign: tagged", free_tagged, "free", "foreign pointer", NULL},
    {"foreign: before a slab's first block", free_before_the_first_block, "free", "foreign pointer",
     NULL},
    {"foreign: realloc", realloc_foreign, "realloc", "foreign pointer", NULL},
    {"foreign: malloc_usable_size", usable_size_foreign, "malloc_usable_size", "foreign pointer",
     NULL},
    {"foreign: free_sized", free_sized_foreign, NULL, "foreign pointer", NULL},
    {"foreign: free_aligned_sized", free_aligned_sized_foreign, NULL, "foreign pointer", NULL},
};

/* Of blocks that have no record, only those that no cache keeps are known to be free. */
static const struct misuse realloc_of_freed = {"realloc of a freed block", realloc_after_free,
                                               "realloc", "double free", NULL};

#define MISUSE_COUNT (sizeof misuses / sizeof misuses[0])
#define SIZE_COUNT (sizeof sizes / sizeof sizes[0])

struct trial {
    const struct misuse *misuse;
    size_t size;
};

static void commit(const void *context) {
    const struct trial *trial = context;
    proc_no_core_files();
    trial->misuse->commit(trial->size);
}

static unsigned failure_count;

/* Says what went wrong; the other rows still run. */
static void fail(const struct trial *trial, const struct child_end *end, const char *why) {
    char what[100] = "";
    failure_count++;
    if (WIFSIGNALED(end->status))
        snprintf(what, sizeof what, "signal %d", WTERMSIG(end->status));
    else
        snprintf(what, sizeof what, "exit %d", WEXITSTATUS(end->status));
    fprintf(stderr, "FAIL: %s, %zu bytes: %s (%s, pointer %p, stderr \"%.*s\")\n",
            trial->misuse->name, trial->size, why, what, *offender, (int)strcspn(end->err, "\n"),
            end->err);
}

/* No "a 80-byte block", no "1 bytes". */
static bool is_english(const char *line) {
    return strstr(line, " a 8") == NULL && strstr(line, " 1 bytes") == NULL;
}

/* Does the line say "hakmem: FUNCTION(): KIND: POINTER"? */
static bool line_is(const char *line, const struct misuse *misuse, const char *kind) {
    char wanted[100];
    const char *after = strstr(line, "(): ");
    if (kind == NULL || after == NULL || strncmp(line, "hakmem: ", 8) != 0) return false;
    size_t name_length = (size_t)(after - line) - 8;
    if (misuse->function != NULL && (name_length != strlen(misuse->function) ||
                                     strncmp(line + 8, misuse->function, name_length) != 0))
        return false;
    size_t length = (size_t)snprintf(wanted, sizeof wanted, "%s: %p", kind, *offender);
    return strncmp(after + 4, wanted, length) == 0 && strchr(" \n,;", after[4 + length]) != NULL;
}

static void check(const struct misuse *misuse, size_t size, bool reported) {
    struct trial trial = {misuse, size};
    struct child_end end;
    *offender = NULL;
    child_run(commit, &trial, CHILD_LIMIT, &end);
    const char *line_end = strchr(end.err, '\n');
    if (!end.in_time)
        fail(&trial, &end, "it hangs");
    else if (reported ? end.status != 0
                      : !WIFSIGNALED(end.status) || WTERMSIG(end.status) != SIGABRT)
        fail(&trial, &end, reported ? "the process did not go on" : "no abort");
    else if (line_end == NULL || line_end[1] != 0)
        fail(&trial, &end, "not exactly one line on stderr");
    else if (!line_is(end.err, misuse, misuse->kind) &&
             !line_is(end.err, misuse, misuse->other_kind))
        fail(&trial, &end, "the line does not name it");
    else if (!is_english(end.err))
        fail(&trial, &end, "the line is no English");
}

/* What is right must pass in silence, or the rest proves little. */
static void commit_nothing(size_t size) {
    void *blocks[50];
    for (size_t i = 0; i < 50; i++) blocks[i] = API(malloc)(size);
    for (size_t i = 0; i < 50; i++) API(free)(blocks[i * 7 % 50]);
    API(free)(NULL);
}

static void check_control(size_t size) {
    static const struct misuse none = {"no misuse", commit_nothing, NULL, NULL, NULL};
    struct trial trial = {&none, size};
    struct child_end end;
    child_run(commit, &trial, CHILD_LIMIT, &end);
    if (!end.in_time || end.status != 0 || end.err_length != 0)
        fail(&trial, &end, "a right program was stopped");
}

static void check_all(size_t size, bool reported) {
    check_control(size);
    for (size_t k = 0; k < MISUSE_COUNT; k++) check(&misuses[k], size, reported);
    if (size > 65536) check(&realloc_of_freed, size, reported);
}

/* must_abort [report|abort [SIZE]]: with "report", HAKMEM_ON_ERROR=report is set, and the line
 * is all; with SIZE, that size alone, which must be the usable size of its blocks. */
int main(int argc, char **argv) {
    bool reported = argc > 1 && strcmp(argv[1], "report") == 0;
    size_t only = argument(argc, argv, 2, 0);
    watchdog(240, "must-abort programs");
    require_hakmem();
    offender = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(offender != MAP_FAILED, "no shared page");
    if (only) {
        CHECK(API(malloc_usable_size)(API(malloc)(only)) == only, "%zu is no size of a class",
              only);
        check_all(only, reported);
    }
    for (size_t i = 0; i < SIZE_COUNT && !only; i++) check_all(sizes[i], reported);
    CHECK(failure_count == 0, "%u trials went wrong, see the lines above", failure_count);
    printf("%zu kinds of misuse at %zu sizes: all diagnosed\n", MISUSE_COUNT,
           only ? 1 : SIZE_COUNT);
    return 0;
}
