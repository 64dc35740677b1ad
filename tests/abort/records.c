/* records.c - the line about a block that has a debug record (HAKMEM_HDR_LIGHT).
 *
 * Each function that allocates, with each misuse, at sizes of the mid and the large tier, runs in its own
 * process. Stderr must contain the line alone, with the requested size and, in mode 0, an address in
 * the function here that requested it. In mode 2 the line ends before that, and errors that only
 * records reveal are not reported. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
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
enum { SECONDS = 20, FULL = 0, LIGHT = 1, OFF = 2 };

static const size_t sizes[] = {2100, 3000, 14336, 40000, 65536, 65537, 100000, 777777, MIB};

/* The child tells here what it misuses; the parent reads it afterwards. */
static struct {
    void *block;
    size_t usable;
} volatile *shared;

static int mode;

/* ---- Ways to allocate --------------------------------------------------------------------------
 *
 * All in one section of the program, whose ends the linker knows: call sites lie in it. */

#define ALLOCATING __attribute__((section("allocating"), noinline))
extern const char __start_allocating[], __stop_allocating[];
extern const char __ehdr_start[]; /* where the program was loaded */

/* Keeps the call above a call, not a jump to the callee. */
static inline void *here(void *block) {
    __asm__ volatile("" : "+r"(block));
    return block;
}

ALLOCATING static void *by_malloc(size_t size) {
    void *block = API(malloc)(size);
    return here(block);
}

ALLOCATING static void *by_calloc(size_t size) {
    void *block = API(calloc)(1, size);
    return here(block);
}

ALLOCATING static void *by_realloc_of_null(size_t size) {
    void *block = API(realloc)(NULL, size);
    return here(block);
}

static void *small_block(size_t size) { return API(malloc)(size); }

ALLOCATING static void *by_realloc_that_moves(size_t size) {
    void *block = API(realloc)(small_block(100), size);
    return here(block);
}

ALLOCATING static void *by_realloc_in_place(size_t size) {
    void *old = small_block(size - 30), *block = API(realloc)(old, size);
    CHECK(size % 4096 == 1 || block == old, "the block has moved");
    return here(block);
}

ALLOCATING static void *by_reallocarray(size_t size) {
    void *block = API(reallocarray)(NULL, size, 1);
    return here(block);
}

ALLOCATING static void *by_aligned_alloc(size_t size) {
    void *block = API(aligned_alloc)(256, size);
    return here(block);
}

ALLOCATING static void *by_posix_memalign(size_t size) {
    void *block = NULL;
    CHECK(API(posix_memalign)(&block, 4096, size) == 0, "no memory");
    return here(block);
}

typedef void *new_t(size_t size);
typedef void delete_t(void *block, size_t size);

ALLOCATING static void *by_new(size_t size) {
    static new_t *operator_new;
    if (!operator_new) *(void **)&operator_new = dlsym(RTLD_DEFAULT, "_Znwm");
    void *block = operator_new(size);
    return here(block);
}

static const struct way {
    const char *name;
    void *(*allocate)(size_t size);
} ways[] = {
    {"malloc", by_malloc},
    {"calloc", by_calloc},
    {"realloc of NULL", by_realloc_of_null},
    {"realloc that moves", by_realloc_that_moves},
    {"realloc in place", by_realloc_in_place},
    {"reallocarray", by_reallocarray},
    {"aligned_alloc", by_aligned_alloc},
    {"posix_memalign", by_posix_memalign},
    {"operator new", by_new},
};

/* ---- Misuses ----------------------------------------------------------------------------------- */

enum { WRONG_BY = 8, INSIDE_BY = 16 };

static void free_twice(void *block, size_t size) {
    (void)size;
    API(free)(block);
    API(free)(block);
}

static void free_twice_with_others_between(void *block, size_t size) {
    void *others[50];
    for (int i = 0; i < 50; i++) others[i] = API(malloc)(size);
    API(free)(block);
    for (int i = 0; i < 50; i++) API(free)(others[i]);
    API(free)(block);
}

static void *free_it(void *block) {
    API(free)(block);
    return NULL;
}

static void free_twice_by_two_threads(void *block, size_t size) {
    pthread_t thread;
    (void)size;
    CHECK(pthread_create(&thread, NULL, free_it, block) == 0, "no thread");
    pthread_join(thread, NULL);
    API(free)(block);
}

/* What was allocated before a fork is known in the child. */
static void free_twice_in_a_child(void *block, size_t size) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        free_twice(block, size);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) raise(WTERMSIG(status));
}

static void free_inside(void *block, size_t size) {
    (void)size;
    API(free)((char *)block + INSIDE_BY);
}

static void *volatile sink;

static void realloc_of_a_freed_block(void *block, size_t size) {
    API(free)(block);
    sink = API(realloc)(block, size);
}

static void free_with_wrong_size(void *block, size_t size) {
    API(free_sized)(block, size - WRONG_BY);
}

static void delete_with_wrong_size(void *block, size_t size) {
    delete_t *operator_delete;
    *(void **)&operator_delete = dlsym(RTLD_DEFAULT, "_ZdlPvm");
    operator_delete(block, size - WRONG_BY);
}

static const struct misuse {
    const char *name;
    void (*commit)(void *block, size_t size);
    const char *function;
    enum { TWICE, INSIDE, WRONG_SIZE } kind;
    bool without; /* found without a record, too */
} misuses[] = {
    {"double free", free_twice, "free", TWICE, true},
    {"double free, others between", free_twice_with_others_between, "free", TWICE, false},
    {"double free by two threads", free_twice_by_two_threads, "free", TWICE, false},
    {"double free in a child", free_twice_in_a_child, "free", TWICE, true},
    {"interior pointer", free_inside, "free", INSIDE, true},
    {"realloc of a freed block", realloc_of_a_freed_block, "realloc", TWICE, false},
    {"free_sized with another size", free_with_wrong_size, "free_sized", WRONG_SIZE, false},
    {"operator delete with another size", delete_with_wrong_size, "operator delete", WRONG_SIZE,
     false},
};

/* ---- The right line ---------------------------------------------------------------------------- */

typedef struct {
    const struct way *way;
    const struct misuse *misuse;
    size_t size;
} trial_t;

static unsigned failure_count;

/* Says what went wrong; the other rows still run. */
static void fail(const trial_t *trial, const struct child_end *end, const char *why) {
    failure_count++;
    fprintf(stderr, "FAIL: mode %d, %s, %s, %zu bytes: %s (status %#x, stderr \"%.*s\")\n", mode,
            trial->way->name, trial->misuse ? trial->misuse->name : "no misuse", trial->size, why,
            (unsigned)end->status, (int)strcspn(end->err, "\n"), end->err);
}

/* Moves *line on behind `text`, when it begins with it. */
static bool skip(const char **line, const char *text) {
    size_t length = strlen(text);
    if (strncmp(*line, text, length) != 0) return false;
    *line += length;
    return true;
}

/* What was wrong, up to what the record says. */
static bool names_the_fault(const char **line, const trial_t *trial) {
    char text[200], other[200] = "";
    const struct misuse *misuse = trial->misuse;
    snprintf(text, sizeof text, "hakmem: %s(): ", misuse->function);
    if (!skip(line, text)) return false;
    if (misuse->kind == TWICE) {
        snprintf(text, sizeof text, "double free: %p is a block of %zu bytes that is already free",
                 shared->block, shared->usable);
        snprintf(other, sizeof other, "double free: %p lies in memory that is already free",
                 shared->block);
    } else if (misuse->kind == INSIDE) {
        snprintf(text, sizeof text,
                 "interior pointer: %p lies %d bytes inside a block of %zu bytes at %p",
                 (void *)((char *)shared->block + INSIDE_BY), INSIDE_BY, shared->usable,
                 shared->block);
    } else {
        snprintf(text, sizeof text, "wrong size: %p is freed as a block of %zu bytes",
                 shared->block, trial->size - WRONG_BY);
    }
    return skip(line, text) || (*other && skip(line, other));
}

static bool names_the_call(const char **line) {
    char text[100];
    snprintf(text, sizeof text, ", allocated at %s+0x", program_invocation_short_name);
    if (!skip(line, text)) return false;
    char *end;
    const char *site = __ehdr_start + strtoul(*line, &end, 16);
    *line = end;
    return site >= __start_allocating && site < __stop_allocating;
}

static bool names_the_record(const char **line, const trial_t *trial) {
    char text[50];
    snprintf(text, sizeof text, " (%zu bytes", trial->size);
    return mode == OFF ||
           (skip(line, text) && (mode == LIGHT || names_the_call(line)) && skip(line, ")"));
}

static void check(const trial_t *trial, const struct child_end *end) {
    const char *line = end->err;
    if (!WIFSIGNALED(end->status) || WTERMSIG(end->status) != SIGABRT)
        fail(trial, end, "no abort");
    else if (!names_the_fault(&line, trial))
        fail(trial, end, "the line does not name the fault");
    else if (!names_the_record(&line, trial))
        fail(trial, end, "the line does not say what the record has");
    else if (strcmp(line, "\n") != 0)
        fail(trial, end, "not exactly one line on stderr");
}

static void commit(const void *context) {
    const trial_t *trial = context;
    proc_no_core_files();
    void *block = trial->way->allocate(trial->size);
    CHECK(block != NULL, "no memory");
    shared->block = block;
    shared->usable = API(malloc_usable_size)(block);
    trial->misuse->commit(block, trial->size);
}

static void try_misuse(const trial_t *trial) {
    struct child_end end;
    child_run(commit, trial, SECONDS, &end);
    bool told = mode != OFF || trial->misuse->without;
    if (!end.in_time)
        fail(trial, &end, "it hangs");
    else if (told)
        check(trial, &end);
    else if (trial->misuse->kind == WRONG_SIZE && (end.status != 0 || end.err_length != 0))
        fail(trial, &end, "a size is compared with no record");
}

/* What is right must pass in silence: sizes that change, blocks that come again, right sizes. */
static void use_rightly(const void *context) {
    const trial_t *trial = context;
    size_t size = trial->size;
    void *blocks[20];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++) blocks[i] = trial->way->allocate(size);
        for (int i = 0; i < 20; i++) {
            size_t other = size + (size_t)(i - 10) * 100;
            CHECK(blocks[i] = API(realloc)(blocks[i], other), "no memory");
            if (i % 3 == 0)
                API(free_sized)(blocks[i], other);
            else
                API(free)(blocks[i]);
        }
    }
    void *aligned = API(aligned_alloc)(4096, size);
    API(free_aligned_sized)(aligned, 4096, size);
    API(free_sized)(NULL, size);
}

static void try_right_use(const trial_t *trial) {
    struct child_end end;
    child_run(use_rightly, trial, SECONDS, &end);
    if (!end.in_time || end.status != 0 || end.err_length != 0)
        fail(trial, &end, "a right program was stopped");
}

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* records MODE: that of HAKMEM_HDR_LIGHT, which is set to it */
int main(int argc, char **argv) {
    mode = (int)argument(argc, argv, 1, OFF);
    watchdog(240, "debug records");
    require_hakmem();
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK((void *)shared != MAP_FAILED, "no shared page");
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (size_t k = 0; k < COUNT_OF(ways); k++) {
            trial_t trial = {&ways[k], NULL, sizes[i]};
            try_right_use(&trial);
            for (size_t m = 0; m < COUNT_OF(misuses); m++) {
                trial.misuse = &misuses[m];
                try_misuse(&trial);
            }
        }
    }
    CHECK(failure_count == 0, "%u trials went wrong, see the lines above", failure_count);
    printf("mode %d: %zu misuses of blocks from %zu ways at %zu sizes\n", mode, COUNT_OF(misuses),
           COUNT_OF(ways), COUNT_OF(sizes));
    return 0;
}
