/* misuse.c - every misuse of blocks that HAKMEM_PROFILE=HARDENED promises to find, by sizes.
 *
 *   misuse                      all kinds
 *   misuse overflows            those that a canary finds: for processes without guards
 *   misuse overflows refused    the same, where the system refuses each guard
 *
 * Each row of the table is one kind of misuse; each runs for every size, in a process of its own.
 * It must end with one line
 *     hakmem: FUNCTION(): KIND: POINTER ...
 * and SIGABRT, or, where a guard is met, with SIGSEGV and no line. Kinds that abort/must_abort.c
 * has are tried there, under the same profile. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "filter.h"
#include "proc.h"

#define MIB ((size_t)1 << 20)
enum { CHILD_LIMIT = 20, PAGE = 4096, FRESH = 3000, BIG = 65536 };

static const size_t sizes[] = {
    1,     8,     15,    16,     24,     40,     48,     64,     100,   128,     200,     256,
    512,   777,   1000,  1024,   2048,   2049,   4096,   8192,   14336, 16384,   30000,   32768,
    65535, 65536, 65537, 100000, 131072, 262144, 524288, 777777, MIB,   MIB + 1, 2 * MIB, 16 * MIB,
};

/* The child stores here what it is about to misuse; the parent reads it afterwards. */
static void *volatile *offender;
static volatile char sink;

static char *victim(size_t size) {
    char *block = API(malloc)(size);
    CHECK(block != NULL, "no block of %zu bytes", size);
    *offender = block;
    return block;
}

/* Blocks of the size come and go until what was freed before is used again. */
static void use_again(size_t size) {
    for (int i = 0; i < FRESH; i++) API(free)(API(malloc)(size));
}

/* ---- writes behind a block -------------------------------------------------------------------- */

static void overflow_zero(size_t size) {
    char *block = victim(size);
    *(volatile char *)(block + size) = 0;
    API(free)(block);
}
static void overflow_some(size_t size) {
    char *block = victim(size);
    memset(block + size, 0, 8);
    API(free)(block);
}
static void overflow_realloc(size_t size) {
    char *block = victim(size);
    *(volatile char *)(block + size) = 0;
    block = API(realloc)(block, size + 1);
    sink = *block;
}
static void overflow_calloc(size_t size) {
    char *block = API(calloc)(1, size);
    *offender = block;
    *(volatile char *)(block + size) = 0;
    API(free)(block);
}
static void overflow_aligned(size_t size) {
    char *block = API(memalign)(256, size);
    *offender = block;
    *(volatile char *)(block + size) = 0;
    API(free)(block);
}
static void overflow_resized(size_t size) {
    char *block = API(realloc)(API(malloc)(size + size / 4), size);
    *offender = block;
    *(volatile char *)(block + size) = 0;
    API(free)(block);
}
static void overflow_grown(size_t size) {
    char *block = API(realloc)(API(malloc)(size - size / 4), size);
    *offender = block;
    block[size] = 0;
    API(free)(block);
}

/* ---- uses after free -------------------------------------------------------------------------- */

static void write_after_free(size_t size) {
    char *block = victim(size);
    API(free)(block);
    *(volatile char *)(block + size / 2) = 1;
    use_again(size);
}
static void write_after_free_and_exit_of_thread(size_t size);
static void *free_and_write(void *block) {
    API(free)(block);
    *(volatile char *)block = 1;
    return NULL;
}
static void write_after_free_and_exit_of_thread(size_t size) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_and_write, victim(size)) == 0, "no thread");
    pthread_join(thread, NULL);
}
/* As the thread ends, the block goes back to its slab, which has others in use or in this thread's free list. */
static void *free_it(void *block) {
    API(free)(block);
    return NULL;
}
static void write_after_exit_of_thread(size_t size) {
    pthread_t thread;
    char *block = victim(size);
    CHECK(pthread_create(&thread, NULL, free_it, block) == 0, "no thread");
    pthread_join(thread, NULL);
    *(volatile char *)(block + size / 2) = 1;
    for (int i = 0; i < FRESH; i++) sink = *(char *)API(malloc)(size);
}
static void double_free_among_many(size_t size) {
    void *others[50];
    char *block = victim(size);
    for (int i = 0; i < 50; i++) others[i] = API(malloc)(size > MIB ? 100 : size);
    API(free)(block);
    for (int i = 0; i < 50; i++) API(free)(others[i]);
    API(free)(block);
    *(volatile int *)NULL = 1; /* the call above must not return */
}
static void usable_size_after_free(size_t size) {
    char *block = victim(size);
    API(free)(block);
    sink = (char)API(malloc_usable_size)(block);
}
static void realloc_after_free(size_t size) {
    char *block = victim(size);
    API(free)(block);
    sink = *(char *)API(realloc)(block, size + 1);
}

/* A block that no call has returned yet: the next one in the slab, or behind it. */
static void free_never_given(size_t size) {
    char *block = victim(size), *at = block;
    size_t step = size < 128 ? 16 : 128;
    for (int i = 0; i < 512; i++) {
        *offender = at += step;
        API(free)(at);
    }
}

/* Such a block again, which the thread takes later: one of the last in the slab. */
static void write_never_given(size_t size) {
    enum { WHOLE_UNIT = 5000 };
    char *block = victim(size);
    memset((char *)((uintptr_t)block | 0xffff) - 2 * (size + 8), 1, 8);
    for (int i = 0; i < WHOLE_UNIT; i++) sink = *(char *)API(malloc)(size);
}

/* The first byte alone of such a block: the last but one of the slab. */
static void write_start_of_never_given(size_t size) {
    enum { FEW = 12, WHOLE_UNIT = 5000 };
    char *first = victim(size);
    size_t step = 0;
    for (int i = 1; i < FEW;
         i++) { /* all distances are multiples of the size of a block of the class */
        char *other = victim(size);
        size_t rest = (size_t)(first < other ? other - first : first - other);
        while (rest) {
            const size_t left = step % rest;
            step = rest;
            rest = left;
        }
    }
    const size_t behind = BIG - (uintptr_t)first % BIG;
    *(volatile char *)(first + (behind / step - 2) * step) = 1;
    for (int i = 0; i < WHOLE_UNIT; i++) sink = *(char *)API(malloc)(size);
}

/* Two blocks in use side by side. */
static void make_neighbours(size_t size, char **low, char **high) {
    enum { MANY = 64 };
    char *blocks[MANY];
    *low = *high = NULL;
    for (int i = 0; i < MANY; i++) blocks[i] = victim(size);
    for (int i = 0; i < MANY * MANY; i++) {
        char *one = blocks[i / MANY], *other = blocks[i % MANY];
        if (one < other && (!*low || other - one < *high - *low)) *low = one, *high = other;
    }
}

/* The byte before a block, which is the last one of a free block: of two neighbours the lower one is
 * freed. */
static void underflow(size_t size) {
    char *low, *high;
    make_neighbours(size, &low, &high);
    API(free)(low);
    *(volatile char *)((uintptr_t)high - 1) = 1;
    use_again(size);
}

/* The same with both in use: the mark of the lower one is gone. */
static void underflow_beside_a_used_block(size_t size) {
    char *low, *high;
    make_neighbours(size, &low, &high);
    *offender = low;
    *(volatile char *)((uintptr_t)high - 1) = 0;
    API(free)(low);
}

/* ---- calls that do not match ------------------------------------------------------------------ */

static void *call(const char *name, size_t size) {
    void *(*function)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL, "no %s", name);
    return *offender = function(size);
}
static void call_free(const char *name, void *block) {
    void (*function)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL, "no %s", name);
    function(block);
}
static void call_free_sized(const char *name, void *block, size_t size) {
    void (*function)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL, "no %s", name);
    function(block, size);
}

static void malloc_delete(size_t size) { call_free("_ZdlPv", victim(size)); }
static void malloc_delete_array(size_t size) { call_free("_ZdaPv", victim(size)); }
static void new_free(size_t size) { API(free)(call("_Znwm", size)); }
static void new_delete_array(size_t size) { call_free("_ZdaPv", call("_Znwm", size)); }
static void new_array_delete(size_t size) { call_free("_ZdlPv", call("_Znam", size)); }
static void new_array_free(size_t size) { API(free)(call("_Znam", size)); }
static void new_realloc(size_t size) { sink = (API(realloc)(call("_Znwm", size), 9) == NULL); }
static void wrong_size_delete(size_t size) {
    call_free_sized("_ZdlPvm", call("_Znwm", size), size + 1);
}
static void wrong_size_delete_array(size_t size) {
    call_free_sized("_ZdaPvm", call("_Znam", size), size - 1);
}
static void wrong_size_free(size_t size) { API(free_sized)(victim(size), size + 8); }

/* ---- guards ------------------------------------------------------------------------------------ */

static char *behind(size_t size) {
    char *block = victim(size);
    return (char *)(((uintptr_t)block + size + PAGE - 1) / PAGE * PAGE);
}
static void read_guard(size_t size) { sink = *(volatile char *)behind(size); }
static void write_guard(size_t size) { *(volatile char *)behind(size) = 1; }
static void write_guard_of_grown(size_t size) {
    char *block = API(realloc)(API(malloc)(size - size / 4), size);
    *offender = block;
    *(volatile char *)(((uintptr_t)block + size + PAGE - 1) & -(uintptr_t)PAGE) = 1;
}
static void read_after_free(size_t size) {
    char *block = victim(size);
    memset(block, 1, size);
    API(free)(block);
    sink = *(volatile char *)(block + size / 2);
}
static void read_empty(size_t size) { sink = *(volatile char *)victim(size); }
static void write_empty(size_t size) { *(volatile char *)victim(size) = 1; }

/* A write that runs through the heap: 32 MiB of small blocks have about 60 guards. */
static void run_through_the_heap(size_t size) {
    enum { HEAP = 32 * 1024 * 1024 };
    char *low = (char *)UINTPTR_MAX, *high = NULL;
    for (size_t i = 0; i < HEAP / (size + 16); i++) {
        char *block = API(malloc)(size);
        if (block < low) low = block;
        if (block > high) high = block;
    }
    *offender = low;
    for (char *at = low; at < high; at += PAGE / 2) sink = *(volatile char *)at;
}

/* ---- the table --------------------------------------------------------------------------------- */

static const struct misuse {
    const char *name;
    void (*commit)(size_t size);
    const char *line;   /* "FUNCTION(): KIND", NULL: a signal alone */
    size_t least, most; /* sizes */
    bool may_fault;     /* a guard may be met instead */
    bool elsewhere;     /* the pointer of the line need not be the offender */
} misuses[] = {
    {"one 0 behind the block", overflow_zero, "free(): overflow", 1, 16 * MIB, true, false},
    {"eight bytes behind the block", overflow_some, "free(): overflow", 1, 16 * MIB, true, false},
    {"overflow, realloc", overflow_realloc, "realloc(): overflow", 1, 16 * MIB, true, false},
    {"overflow of calloc", overflow_calloc, "free(): overflow", 1, 16 * MIB, true, false},
    {"overflow of memalign", overflow_aligned, "free(): overflow", 1, 16 * MIB, true, false},
    {"overflow of a shrunk block", overflow_resized, "free(): overflow", 1, 16 * MIB, true, false},
    {"overflow of a grown block", overflow_grown, "free(): overflow", 2, 16 * MIB, true, false},
    {"write after free", write_after_free, "malloc(): write after free", 1, BIG - 1, false, false},
    {"write after free, thread exits", write_after_free_and_exit_of_thread,
     "malloc(): write after free", 1, BIG - 1, false, false},
    {"write to a block that has left its thread", write_after_exit_of_thread,
     "malloc(): write after free", 1, 1000, false, false},
    {"write after free of a big block", write_after_free, NULL, BIG, 16 * MIB, true, false},
    {"double free among many", double_free_among_many, "free(): double free", 1, 16 * MIB, false,
     false},
    {"one byte before the block", underflow, "malloc(): write after free", 24, 1000, false, true},
    {"one byte before the block, beside one in use", underflow_beside_a_used_block,
     "free(): overflow", 1, 2000, false, false},
    {"malloc_usable_size after free", usable_size_after_free, "malloc_usable_size(): double free",
     1, 16 * MIB, false, false},
    {"realloc after free", realloc_after_free, "realloc(): double free", 1, 16 * MIB, false, false},
    {"free of a block never given out", free_never_given, "free(): ", 1, 16 * MIB, false, true},
    {"write to a block never given out", write_never_given, "malloc(): write after free", 24, 1000,
     false, true},
    {"one byte to a block never given out", write_start_of_never_given,
     "malloc(): write after free", 24, 1000, false, true},
    {"malloc, delete", malloc_delete, "operator delete(): wrong function", 0, 16 * MIB, false,
     false},
    {"malloc, delete[]", malloc_delete_array, "operator delete[](): wrong function", 0, 16 * MIB,
     false, false},
    {"new, free", new_free, "free(): wrong function", 0, 16 * MIB, false, false},
    {"new, delete[]", new_delete_array, "operator delete[](): wrong function", 0, 16 * MIB, false,
     false},
    {"new[], delete", new_array_delete, "operator delete(): wrong function", 0, 16 * MIB, false,
     false},
    {"new[], free", new_array_free, "free(): wrong function", 0, 16 * MIB, false, false},
    {"new, realloc", new_realloc, "realloc(): wrong function", 0, 16 * MIB, false, false},
    {"delete of another size", wrong_size_delete, "operator delete(): wrong size", 0, 16 * MIB,
     false, false},
    {"delete[] of another size", wrong_size_delete_array, "operator delete[](): wrong size", 1,
     16 * MIB, false, false},
    {"free_sized of another size", wrong_size_free, "free_sized(): wrong size", 1, 16 * MIB, false,
     false},
    {"read of the page behind", read_guard, NULL, BIG, 16 * MIB, true, false},
    {"write to the page behind", write_guard, NULL, BIG, 16 * MIB, true, false},
    {"the same of a grown block", write_guard_of_grown, NULL, BIG, 16 * MIB, true, false},
    {"read after free of a big block", read_after_free, NULL, BIG, 16 * MIB, true, false},
    {"read of no bytes", read_empty, NULL, 0, 0, true, false},
    {"write to no bytes", write_empty, NULL, 0, 0, true, false},
    {"double free of no bytes", double_free_among_many, "free(): double free", 0, 0, false, false},
    {"run through the heap", run_through_the_heap, NULL, 100, 1024, true, false},
};

enum { MISUSES = sizeof misuses / sizeof *misuses, SIZES = sizeof sizes / sizeof *sizes };

struct trial {
    const struct misuse *misuse;
    size_t size;
};

static unsigned failures, trials;

static void commit(const void *context) {
    const struct trial *trial = context;
    proc_no_core_files();
    trial->misuse->commit(trial->size);
}

static bool line_is_right(const char *line, const struct misuse *misuse) {
    char wanted[200];
    if (!misuse->line) return false;
    int length = misuse->elsewhere
                     ? snprintf(wanted, sizeof wanted, "hakmem: %s", misuse->line)
                     : snprintf(wanted, sizeof wanted, "hakmem: %s: %p", misuse->line, *offender);
    const char *end = strchr(line, '\n');
    return strncmp(line, wanted, (size_t)length) == 0 && end && end[1] == 0;
}

static void check(const struct misuse *misuse, size_t size) {
    struct trial trial = {misuse, size};
    struct child_end end;
    *offender = NULL;
    trials++;
    child_run(commit, &trial, CHILD_LIMIT, &end);
    int number = WIFSIGNALED(end.status) ? WTERMSIG(end.status) : 0;
    bool faulted = misuse->may_fault && number == SIGSEGV && end.err_length == 0;
    if (end.in_time && (faulted || (number == SIGABRT && line_is_right(end.err, misuse)))) return;
    failures++;
    fprintf(stderr, "FAIL: %s, %zu bytes: status %#x, pointer %p, stderr \"%.*s\"\n", misuse->name,
            size, end.status, *offender, (int)strcspn(end.err, "\n"), end.err);
}

/* From now on the system refuses guards, by advice and by protection. */
static void refuse_guards(void) {
    enum { INSTALL = 102 };
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FILTER_FIELD(nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FILTER_FIELD(args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, INSTALL, 3, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FILTER_FIELD(args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_NONE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    filter_install(filter, sizeof filter / sizeof *filter);
}

int main(int argc, char **argv) {
    const bool overflows = argc > 1 && strcmp(argv[1], "overflows") == 0;
    watchdog(240, "misuse of blocks");
    require_hakmem();
    if (argc > 2 && strcmp(argv[2], "refused") == 0) refuse_guards();
    offender = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(offender != MAP_FAILED, "no shared page");
    for (int k = 0; k < MISUSES; k++) {
        if (overflows && !(misuses[k].line && strstr(misuses[k].line, "overflow"))) continue;
        if (misuses[k].least == 0) check(&misuses[k], 0);
        for (int i = 0; i < SIZES; i++)
            if (sizes[i] >= misuses[k].least && sizes[i] <= misuses[k].most)
                check(&misuses[k], sizes[i]);
    }
    CHECK(failures == 0, "%u of %u trials went wrong, see the lines above", failures, trials);
    printf("%u trials of misuse: all found\n", trials);
    return 0;
}
