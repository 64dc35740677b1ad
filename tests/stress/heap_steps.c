/* heap_steps.c - what does a call cost in a large heap? Counts the instructions of each call, exactly: the
 * kernel steps the process through it (PTRACE_SINGLESTEP). The blocks are hardly touched, so a heap of 1 TiB
 * needs little memory.
 *
 *   test_stress_heap_steps KIND GIB...      KIND: small, mid, large, huge or mixed
 *
 * One table: a row for each call, a column for each size of the heap. Fails where a call takes more than
 * twice the instructions that it takes in the first heap. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { COLUMNS = 8, SPREAD = 64, RUN_BYTES = 16 << 20, RUN_MOST = RUN_BYTES / 1024, CALLS = 8 };
enum { KIB = 1024, MIB = 1024 * KIB };
enum { WINDOW = 2 * MIB, WINDOWS = 800, HOLES_MOST = WINDOWS / 2 * (WINDOW / KIB) };
/* Slack: a pass of purge work, or a look at the limits of the container, may be due in one heap only. */
enum { FACTOR = 2, SLACK = 80000 };

static const size_t sizes[] = {1 * KIB, 32 * KIB, 512 * KIB, 16 * MIB};
static const char *const kinds[] = {"small", "mid", "large", "huge", "mixed"};
enum { SIZES = sizeof sizes / sizeof *sizes, KINDS = sizeof kinds / sizeof *kinds };

/* ---- What the stepped process and its tracer share ---- */

typedef enum { REST, STEPPED, DONE } state_t;

static struct {
    volatile state_t state, of_child;
    unsigned row, figure_of_child;
    unsigned long kib[2]; /* resident, page tables */
} *shared;

/* ---- The heap ---- */

static size_t kind;
static void *spread[SPREAD]; /* blocks at even distances */
static void *run[RUN_MOST];  /* neighbours, in the middle of the heap */
static void **holes;         /* all blocks of each second superslab at the beginning */
static size_t spread_count, run_count, hole_count;

static void *take(size_t size) {
    void *block = API(malloc)(size);
    CHECK(block != NULL, "no block of %zu bytes", size);
    return block;
}

static bool is_in_a_hole(const char *block, const char *first) {
    size_t window = (uintptr_t)block / WINDOW - (uintptr_t)first / WINDOW;
    return window < WINDOWS && window % 2 && hole_count < HOLES_MOST;
}

/* Fills part `part` of `parts` of the heap with blocks of one size. */
static void fill(size_t bytes, size_t size, size_t part, size_t parts) {
    size_t count = bytes / parts / size, first = SPREAD * part / parts;
    size_t wanted = SPREAD * (part + 1) / parts - first, taken = 0;
    size_t run_blocks = RUN_BYTES / parts / size;
    bool has_holes = size < WINDOW && part == parts / 2;
    char *start = NULL;
    for (size_t i = 0; i < count; i++) {
        void *block = take(size);
        if (i >= count / 2 && i < count / 2 + run_blocks)
            run[run_count++] = block;
        else if (has_holes && is_in_a_hole(block, start ? start : (start = block)))
            holes[hole_count++] = block;
        else if (taken < wanted && i >= taken * (count / wanted))
            taken++, spread[spread_count++] = block;
    }
}

static void make_heap(size_t gib) {
    size_t bytes = gib << 30;
    if (kind < SIZES) {
        fill(bytes, sizes[kind], 0, 1);
        return;
    }
    for (size_t i = 0; i < SIZES; i++) fill(bytes, sizes[i], i, SIZES);
}

/* ---- The calls ---- */

typedef struct {
    const char *name;
    void (*before)(void); /* not counted; may be NULL */
    void (*call)(void);
} row_t;

static int (*stats_get)(const char *name, uint64_t *value);
static void *some[CALLS];
static pid_t forked;

static void nothing(void) {}

static void fork_once(void) {
    forked = fork();
    if (forked) return;
    API(free)(API(malloc)(100));
    shared->of_child = DONE;
    raise(SIGSTOP);
    _exit(0);
}

static void usable_sizes(void) {
    for (size_t i = 0; i < CALLS; i++)
        CHECK(API(malloc_usable_size)(spread[i * spread_count / CALLS]), "no size");
}

static void free_far_blocks(void) {
    for (size_t i = 0; i < CALLS; i++) {
        void **block = &spread[i * spread_count / CALLS];
        API(free)(*block);
        *block = NULL;
    }
}

static void statistics(void) {
    uint64_t value;
    CHECK(stats_get("memory.mappings", &value) == 0, "no statistics");
}

static void information(void) { CHECK(API(mallinfo2)().hblks + 1 > 0, "no information"); }

static void report(void) { API(malloc_stats)(); }

static void trim(void) { API(malloc_trim)(0); }

/* Some pages far apart, and whole superslabs in the middle of the heap, all with pages. */
static void free_much(void) {
    for (size_t i = 0; i < run_count; i++) {
        *(volatile char *)run[i] = 1;
        API(free)(run[i]);
    }
    run_count = 0;
    for (size_t i = 1; i < spread_count; i += 2) {
        if (!spread[i]) continue;
        *(volatile char *)spread[i] = 1;
        API(free)(spread[i]);
        spread[i] = NULL;
    }
}

/* As many holes as the region may have, and free superslabs that cannot become holes. */
static void make_holes(void) {
    for (size_t i = 0; i < hole_count; i++) API(free)(holes[i]);
    hole_count = 0;
    trim();
    trim();
}

static void take_some(size_t size, size_t count) {
    for (size_t i = 0; i < count; i++) some[i] = take(size);
}

static void free_some(void) {
    for (size_t i = 0; i < CALLS; i++) API(free)(some[i]), some[i] = NULL;
}

static void take_slabs(void) { take_some(40 * KIB, CALLS); }
static void take_large(void) { take_some(900 * KIB, CALLS); }
static void take_huge(void) { take_some(3 * MIB, CALLS); }

static void let_a_pass_be_due(void) {
    free_some();
    proc_sleep_ms(600);
}

/* Slow calls, each with a piece of the pass. */
static void work(void) {
    for (size_t i = 0; i < 2 * CALLS; i++) API(free)(take(100 * KIB));
}

static const row_t rows[] = {
    {"empty", NULL, nothing},
    {"malloc_usable_size, 8 calls", NULL, usable_sizes},
    {"free of 8 blocks far apart", NULL, free_far_blocks},
    {"8 slabs", NULL, take_slabs},
    {"16 slow calls, a pass due", let_a_pass_be_due, work},
    {"8 blocks of 900 KiB", free_some, take_large},
    {"8 blocks of 3 MiB", free_some, take_huge},
    {"fork", free_some, fork_once},
    {"hakmem_stats_get", NULL, statistics},
    {"mallinfo2", NULL, information},
    {"report", NULL, report},
    {"malloc_trim, nothing to give", trim, trim},
    {"malloc_trim after many frees", free_much, trim},
    {"malloc_trim again", NULL, trim},
    {"malloc_trim among holes", make_holes, trim},
    {"8 slabs after the trim", NULL, take_slabs},
    {"8 blocks of 900 KiB after it", free_some, take_large},
};
enum { ROWS = sizeof rows / sizeof *rows, OF_CHILD = ROWS, FIGURES };

static unsigned long counts[COLUMNS][FIGURES];
static unsigned long kib[COLUMNS][2];

/* ---- The stepped process ---- */

static void find(void *function, const char *name) {
    *(void **)function = dlsym(RTLD_DEFAULT, name);
    CHECK(*(void **)function, "there is no %s", name);
}

static _Noreturn void be_stepped(size_t gib) {
    CHECK(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0, "not to be traced: %s", strerror(errno));
    find(&stats_get, "hakmem_stats_get");
    size_t table = HOLES_MOST * sizeof *holes;
    holes = mmap(NULL, table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(holes != MAP_FAILED, "no table");
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), err = dup(2);
    make_heap(gib);
    raise(SIGSTOP); /* the tracer sets its options */
    for (unsigned i = 0; i < ROWS; i++) {
        if (rows[i].before) rows[i].before();
        if (rows[i].call == report) dup2(null, 2);
        shared->row = i;
        shared->state = STEPPED;
        raise(SIGSTOP);
        rows[i].call();
        shared->state = DONE;
        raise(SIGSTOP);
        dup2(err, 2);
        if (forked) waitpid(forked, NULL, 0);
        forked = 0;
    }
    shared->kib[0] = proc_rss_kib();
    shared->kib[1] = proc_status_kib("VmPTE");
    _exit(0);
}

/* ---- The tracer ---- */

/* Waits for a stop; the signal, or 0 at the end of the process. *event: what the kernel says besides. */
static int wait_for(pid_t process, int *event) {
    int status;
    CHECK(waitpid(process, &status, __WALL) == process, "no process: %s", strerror(errno));
    CHECK(!WIFSIGNALED(status), "ended by signal %d", WTERMSIG(status));
    if (WIFEXITED(status)) {
        CHECK(WEXITSTATUS(status) == 0, "ended with %d", WEXITSTATUS(status));
        return 0;
    }
    *event = status >> 16;
    return WSTOPSIG(status);
}

/* Steps a stopped process until *state says that it is done; *child becomes what it forks. */
static unsigned long step(pid_t process, const volatile state_t *state, pid_t *child) {
    unsigned long count = 0, made;
    int event;
    for (; *state != DONE; count++) {
        CHECK(ptrace(PTRACE_SINGLESTEP, process, NULL, NULL) == 0, "no step: %s", strerror(errno));
        int signal = wait_for(process, &event);
        CHECK(signal == SIGTRAP, "signal %d while it is stepped", signal);
        if (event != PTRACE_EVENT_FORK) continue;
        ptrace(PTRACE_GETEVENTMSG, process, NULL, &made);
        *child = (pid_t)made;
    }
    return count;
}

static int go_on(pid_t process) {
    int event;
    ptrace(PTRACE_CONT, process, NULL, NULL);
    return wait_for(process, &event);
}

static void step_child(pid_t child, unsigned long *count) {
    int event;
    pid_t none;
    CHECK(wait_for(child, &event) == SIGSTOP, "the child did not stop");
    *count = step(child, &shared->of_child, &none);
    CHECK(go_on(child) == SIGSTOP, "the child did not stop again");
    while (go_on(child)) continue;
}

static void measure(size_t gib, unsigned column) {
    pid_t child = 0, process = fork();
    int event;
    shared->state = shared->of_child = REST;
    if (!process) be_stepped(gib);
    CHECK(wait_for(process, &event) == SIGSTOP, "it did not stop");
    ptrace(PTRACE_SETOPTIONS, process, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACEFORK);
    while (go_on(process)) {
        if (shared->state != STEPPED) continue;
        unsigned row = shared->row;
        counts[column][row] = step(process, &shared->state, &child);
        if (row) counts[column][row] -= counts[column][0];
        CHECK(go_on(process) == SIGSTOP, "it did not stop after a call");
        if (child) step_child(child, &counts[column][OF_CHILD]);
        child = 0;
    }
    memcpy(kib[column], shared->kib, sizeof kib[column]);
}

static void print_row(const char *name, unsigned columns, unsigned row) {
    printf("%-32s", name);
    for (unsigned i = 0; i < columns; i++) printf(" %12lu", counts[i][row]);
    putchar('\n');
}

static void print_all(unsigned columns, char **gib) {
    printf("%-32s", kinds[kind]);
    for (unsigned i = 0; i < columns; i++) printf(" %8s GiB", gib[i]);
    putchar('\n');
    for (unsigned row = 1; row < ROWS; row++) print_row(rows[row].name, columns, row);
    print_row("the child's fork, malloc, free", columns, OF_CHILD);
    for (unsigned what = 0; what < 2; what++) {
        printf("%-32s", what ? "page tables, KiB" : "resident, KiB");
        for (unsigned i = 0; i < columns; i++) printf(" %12lu", kib[i][what]);
        putchar('\n');
    }
    fflush(stdout);
}

static void judge(unsigned columns) {
    for (unsigned column = 1; column < columns; column++)
        for (unsigned row = 1; row < FIGURES; row++) {
            bool is_child = row == OF_CHILD;
            const char *name = is_child ? "the child of a fork" : rows[row].name;
            CHECK(counts[column][row] <= FACTOR * counts[0][row] + SLACK,
                  "%s: %lu instructions, %lu in the first heap", name, counts[column][row],
                  counts[0][row]);
        }
}

int main(int argc, char **argv) {
    require_hakmem();
    CHECK(argc > 2 && argc - 2 <= COLUMNS, "usage: heap_steps KIND GIB...");
    while (kind < KINDS && strcmp(kinds[kind], argv[1]) != 0) kind++;
    CHECK(kind < KINDS, "no kind '%s'", argv[1]);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "no shared page");
    unsigned columns = (unsigned)argc - 2;
    for (unsigned i = 0; i < columns; i++) measure(strtoul(argv[i + 2], NULL, 10), i);
    print_all(columns, argv + 2);
    judge(columns);
    return 0;
}
