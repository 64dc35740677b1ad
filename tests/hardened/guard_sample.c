/* guard_sample.c - HAKMEM_GUARD_SAMPLE: sampled blocks are found misused, and are blocks like others.
 *
 *   sampled misuse          each kind of misuse of a sampled block, by sizes, in a process of its own:
 *                           the right line, and the stacks of the calls
 *   sampled right [OPS]     all calls on sampled blocks: contents, alignment, size, no page is lost
 *   sampled chance          each call is sampled with the same chance, whatever the calls around it
 *   sampled threads [OPS]   blocks that pass between threads, beside forks
 *   sampled handlers        programs with handlers of SIGSEGV
 *   sampled old CASE...     CASE on a kernel without guards by advice, by a filter
 *
 * A sampled block is known by its usable size: it is the requested one, which is no class's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "filter.h"
#include "proc.h"

enum { PAGE = 4096, PAGES = 128, SECONDS = 30, EACH = 10, TRIALS = 2000, THREADS = 4 };

static const size_t sizes[] = {1, 7, 20, 50, 99, 130, 500, 1001, 2000, 3000, 4000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static volatile char sink;

static uint64_t figure(const char *name) {
    uint64_t value = 0;
    int (*get)(const char *, uint64_t *) = dlsym(RTLD_DEFAULT, "hakmem_stats_get");
    CHECK(get && get(name, &value) == 0, "no figure %s", name);
    return value;
}

static bool is_sampled(void *block, size_t size) { return API(malloc_usable_size)(block) == size; }

/* ---- misuse ------------------------------------------------------------------------------------ */

/* A sampled block at the beginning of its page, or at its end. */
static char *sampled_block(size_t size, bool at_end) {
    for (int i = 0; i < TRIALS; i++) {
        char *block = API(malloc)(size);
        if (is_sampled(block, size) && ((uintptr_t)block % PAGE != 0) == at_end) return block;
        API(free)(block);
    }
    CHECK(false, "none of %d blocks is sampled", TRIALS);
    return NULL;
}

static void write_behind(size_t size) { sampled_block(size, true)[size + 15] = 1; }
static void read_behind(size_t size) { sink = sampled_block(size, true)[size + 15]; }
static void write_before(size_t size) { sampled_block(size, false)[-1] = 1; }
static void read_before(size_t size) { sink = sampled_block(size, false)[-1]; }
static void write_one_behind(size_t size) {
    char *volatile block = sampled_block(size, false);
    block[size] = 0;
    API(free)(block);
}
static void write_one_before(size_t size) {
    char *volatile block = sampled_block(size, true);
    block[-1] = 0;
    API(free)(block);
}
static void read_after_free(size_t size) {
    char *volatile block = sampled_block(size, size % 2);
    API(free)(block);
    sink = block[size / 2];
}
static void write_after_free(size_t size) {
    char *volatile block = sampled_block(size, size % 2);
    API(free)(block);
    block[size - 1] = 1;
}
static void free_twice(size_t size) {
    char *volatile block = sampled_block(size, size % 2);
    API(free)(block);
    API(free)(block);
}
static void free_twice_late(size_t size) {
    char *volatile block = sampled_block(size, size % 2);
    API(free)(block);
    for (int i = 0; i < 20 * EACH; i++) API(free)(API(malloc)(size));
    API(free)(block);
}
static void free_inside(size_t size) { API(free)(sampled_block(size, true) + (size + 1) / 2); }
static void realloc_freed(size_t size) {
    char *volatile block = sampled_block(size, size % 2);
    API(free)(block);
    sink = *(char *)API(realloc)(block, 2 * size);
}
static void size_of_freed(size_t size) {
    char *volatile block = sampled_block(size, size % 2);
    API(free)(block);
    sink = (char)API(malloc_usable_size)(block);
}

static const struct misuse {
    void (*commit)(size_t size);
    const char *line;
    int number;   /* of the signal */
    bool is_free; /* the stack of free is shown, too */
} misuses[] = {
    {write_behind, "overflow: ", SIGSEGV, false},
    {read_behind, "overflow: ", SIGSEGV, false},
    {write_before, "underflow: ", SIGSEGV, false},
    {read_before, "underflow: ", SIGSEGV, false},
    {write_one_behind, "free(): overflow: ", SIGABRT, true},
    {write_one_before, "free(): underflow: ", SIGABRT, true},
    {read_after_free, "use after free: ", SIGSEGV, true},
    {write_after_free, "use after free: ", SIGSEGV, true},
    {free_twice, "free(): double free: ", SIGABRT, true},
    {free_twice_late, "free(): double free: ", SIGABRT, true},
    {free_inside, "free(): interior pointer: ", SIGABRT, false},
    {realloc_freed, "realloc(): double free: ", SIGABRT, true},
    {size_of_freed, "malloc_usable_size(): double free: ", SIGABRT, true},
};
enum { MISUSES = sizeof misuses / sizeof *misuses };

struct trial {
    const struct misuse *misuse;
    size_t size;
};

static void commit(const void *context) {
    const struct trial *trial = context;
    proc_no_core_files();
    trial->misuse->commit(trial->size);
}

/* One stack: the call in this program first, then main and what called it. In the debug build, in
 * which no call is the last instruction of a function, the library's own functions come before. */
static bool has_stack(const char *text, const char *what) {
    static const char *const modules[] = {" libhakmem.so", " test_hardened_guard_sample+0x"};
    unsigned frames = 0, known = 0;
    const char *at = strstr(text, what);
    for (; at && (at = strchr(at, '\n')) && strncmp(at, "\nhakmem:     #", 14) == 0; at++) {
        const char *module = strchr(at + 14, ' ');
        known += known == 0 && strncmp(module, modules[1], strlen(modules[1])) == 0;
        if (!known && strncmp(module, modules[0], strlen(modules[0])) != 0) return false;
        frames++;
    }
    return known && frames > 2;
}

static bool is_right(const struct child_end *end, const struct misuse *misuse) {
    if (!end->in_time || !WIFSIGNALED(end->status)) return false;
    if (WTERMSIG(end->status) != misuse->number) return false;
    if (strncmp(end->err, "hakmem: ", 8) != 0) return false;
    if (strncmp(end->err + 8, misuse->line, strlen(misuse->line)) != 0) return false;
    return has_stack(end->err, "  allocated by thread ") &&
           misuse->is_free == has_stack(end->err, "  freed by thread ");
}

static void test_misuse(void) {
    unsigned failures = 0;
    for (int k = 0; k < MISUSES; k++) {
        for (int i = 0; i < SIZES; i++) {
            struct trial trial = {&misuses[k], sizes[i]};
            struct child_end end;
            if (misuses[k].commit == free_inside && sizes[i] < 2) continue;
            child_run(commit, &trial, SECONDS, &end);
            if (is_right(&end, trial.misuse)) continue;
            failures++;
            fprintf(stderr, "FAIL: kind %d, %zu bytes: status %#x, stderr \"%s\"\n", k, sizes[i],
                    end.status, end.err);
        }
    }
    CHECK(failures == 0, "%u trials went wrong, see the lines above", failures);
}

/* ---- right use --------------------------------------------------------------------------------- */

static void fill(char *block, size_t size, unsigned seed) { memset(block, (int)seed | 1, size); }
static void check_filled(const char *block, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++)
        CHECK(block[i] == (char)(seed | 1), "byte %zu of %zu is %d", i, size, block[i]);
}

static void check_bounds(char *block, size_t size) {
    int (*bounds)(const void *, void **, void **) = dlsym(RTLD_DEFAULT, "hakmem_bounds");
    void *start, *end;
    CHECK(bounds(block + size - 1, &start, &end) == 1, "a block has no bounds");
    CHECK(start == block && (char *)end == block + size, "bounds of %zu bytes", size);
}

static void check_freed_bounds(void) {
    int (*bounds)(const void *, void **, void **) = dlsym(RTLD_DEFAULT, "hakmem_bounds");
    void *start, *end;
    char *block = sampled_block(100, true);
    API(free)(block);
    for (unsigned at = 0; at < 100; at += 99)
        CHECK(bounds(block + at, &start, &end) == -1, "byte %u of a free block has bounds", at);
}

static void *block_of_kind(unsigned kind, size_t size, size_t align) {
    void *block = NULL;
    switch (kind % 5) {
    case 0:
        return API(malloc)(size);
    case 1:
        block = API(calloc)(1, size);
        for (size_t i = 0; i < size; i++) CHECK(((char *)block)[i] == 0, "calloc: byte %zu", i);
        return block;
    case 2:
        return API(aligned_alloc)(align, size);
    case 3:
        CHECK(API(posix_memalign)(&block, align < 8 ? 8 : align, size) == 0, "posix_memalign");
        return block;
    default:
        return API(realloc)(API(malloc)(size / 2), size);
    }
}

static void test_right(unsigned long operations) {
    uint64_t live = figure("sampled.live"), blocks = figure("sampled.blocks");
    for (unsigned i = 0; i < operations; i++) {
        size_t size = sizes[i % SIZES], align = (size_t)1 << i / SIZES % 13, more = sizes[i % 7];
        char *block = block_of_kind(i, size, align);
        CHECK((uintptr_t)block % (size > 8 ? 16 : 8) == 0, "%p of %zu bytes", block, size);
        CHECK(i % 5 - 2 > 1 || (uintptr_t)block % align == 0, "%p at %zu", block, align);
        if (is_sampled(block, size)) check_bounds(block, size);
        fill(block, size, i);
        if (i % 3 == 0) {
            block = API(realloc)(block, more);
            check_filled(block, more < size ? more : size, i);
            fill(block, size = more, i);
        }
        check_filled(block, size, i);
        API(free)(block);
        if (i % 1000 == 0) API(malloc_trim)(0);
    }
    CHECK(figure("sampled.live") == live, "%d pages are lost",
          (int)(figure("sampled.live") - live));
    blocks = figure("sampled.blocks") - blocks;
    CHECK(blocks > operations / EACH, "only %u blocks were sampled", (unsigned)blocks);
    CHECK(figure("sampled.full") == 0, "no page was left");
}

/* ---- chance ------------------------------------------------------------------------------------ */

enum { CALLS = 100000, SITES = 4 };

/* `count` of `calls` is within 5 standard deviations of one in EACH. */
static void check_chance(const char *what, unsigned count, unsigned calls) {
    double expected = (double)calls / EACH, off = count - expected;
    CHECK(off * off < 25 * expected, "%s: %u of %u calls are sampled", what, count, calls);
}

/* A few blocks that come and go: each of the calls in a round must have its share. */
static void test_same_chance_of_sites(size_t size) {
    unsigned counts[SITES] = {0};
    for (unsigned i = 0; i < CALLS / SITES; i++) {
        void *blocks[SITES];
        for (unsigned k = 0; k < SITES; k++) {
            blocks[k] = API(malloc)(size);
            counts[k] += is_sampled(blocks[k], size);
        }
        for (unsigned k = 0; k < SITES; k++) API(free)(blocks[k]);
    }
    for (unsigned k = 0; k < SITES; k++) check_chance("calls of a site", counts[k], CALLS / SITES);
}

/* Blocks of which each call makes one more; sampled ones go back, so that pages are left. */
static void test_chance_of_growth(size_t size) {
    static void *blocks[CALLS / 4];
    unsigned count = 0;
    for (unsigned i = 0; i < CALLS / 4; i++) {
        blocks[i] = API(malloc)(size);
        if (!is_sampled(blocks[i], size)) continue;
        API(free)(blocks[i]);
        blocks[i] = NULL;
        count++;
    }
    for (unsigned i = 0; i < CALLS / 4; i++) API(free)(blocks[i]);
    check_chance("calls that make the heap larger", count, CALLS / 4);
}

/* Distances between sampled calls: a part (1 - 1/EACH)^(n - 1) of them is n calls or longer. */
static void test_distances(void) {
    enum { LONG = 2 * EACH };
    unsigned distance = 0, count = 0, longer = 0;
    for (unsigned i = 0; i < CALLS; i++, distance++) {
        void *block = API(malloc)(50);
        if (is_sampled(block, 50)) {
            count++;
            longer += distance >= LONG;
            distance = 0;
        }
        API(free)(block);
    }
    double part = (double)longer / count; /* 0.9^19 = 0.135, the deviation of 10,000: 0.0034 */
    CHECK(part > 0.118 && part < 0.152, "%u of %u distances are long", longer, count);
}

static void test_chance(void) {
    for (int i = 2; i < SIZES; i++) test_same_chance_of_sites(sizes[i]);
    for (int i = 2; i < 8; i++) test_chance_of_growth(sizes[i]);
    test_distances();
}

/* ---- threads ----------------------------------------------------------------------------------- */

static _Atomic(char *) shared[64];
static volatile bool stopped;

static void *trade(void *context) {
    unsigned long operations = *(unsigned long *)context;
    uint64_t state = (uintptr_t)&operations | 1;
    for (unsigned long i = 0; i < operations; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned place = (unsigned)(state >> 33) % 64;
        size_t size = sizes[place % SIZES];
        char *block = API(malloc)(size);
        fill(block, size, place);
        char *other = __atomic_exchange_n((char **)&shared[place], block, __ATOMIC_ACQ_REL);
        if (other) check_filled(other, size, place);
        API(free)(other);
    }
    return NULL;
}

static void use_in_child(const void *unused) {
    (void)unused;
    for (unsigned i = 0; i < 64; i++) {
        char *block = shared[i];
        if (block && shared[i] == block) check_filled(block, 1, i);
    }
    unsigned long operations = 2000;
    trade(&operations);
}

static void *fork_often(void *unused) {
    while (!stopped) child_must_succeed(use_in_child, unused, SECONDS, "a fork's child");
    return NULL;
}

static void test_threads(unsigned long operations) {
    pthread_t threads[THREADS], forker;
    uint64_t live = figure("sampled.live");
    CHECK(pthread_create(&forker, NULL, fork_often, NULL) == 0, "no thread");
    for (int round = 0; round < 5; round++) {
        unsigned long each = operations / THREADS / 5;
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, trade, &each) == 0, "no thread");
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    }
    stopped = true;
    pthread_join(forker, NULL);
    for (int i = 0; i < 64; i++) API(free)(shared[i]);
    uint64_t left = figure("sampled.live") - live;
    CHECK(left < 4, "%u pages are lost", (unsigned)left); /* libc's and the threads' own blocks */
    CHECK(figure("sampled.blocks") > operations / EACH / 2, "few blocks were sampled");
}

/* ---- handlers ---------------------------------------------------------------------------------- */

static sigjmp_buf back;
static struct sigaction replaced;

static void jump_back(int number) {
    (void)number;
    siglongjmp(back, 1);
}
static void call_replaced(int number, siginfo_t *info, void *context) {
    replaced.sa_sigaction(number, info, context);
}

/* A handler that the program installs later gets the fault, and nobody explains it. */
static void fault_in_own_handler(const void *unused) {
    (void)unused;
    struct sigaction action = {.sa_handler = jump_back};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0, "no handler");
    for (int i = 0; i < 20; i++)
        if (sigsetjmp(back, 1) == 0) {
            sampled_block(99, true)[99 + 15] = 1;
            CHECK(false, "the write went through");
        }
}

/* One that calls the handler it has replaced has the line first, and then its own end. */
static void fault_in_handler_that_calls(const void *unused) {
    (void)unused;
    struct sigaction action = {.sa_sigaction = call_replaced, .sa_flags = SA_SIGINFO};
    proc_no_core_files();
    CHECK(sigaction(SIGSEGV, &action, &replaced) == 0, "no handler");
    sampled_block(99, true)[99 + 15] = 1;
}

/* The handler of SIGABRT jumps out of each report of a damaged block: no page is lost by that. */
static void jump_out_of_reports(const void *unused) {
    enum { REPORTS = PAGES + PAGES / 2 };
    static unsigned reports;
    (void)unused;
    signal(SIGABRT, jump_back);
    for (reports = 0; reports < REPORTS; reports++)
        if (sigsetjmp(back, 1) == 0) {
            write_one_behind(99);
            CHECK(false, "the free of a damaged block is not reported");
        }
    CHECK(figure("sampled.full") == 0, "no page was left");
    CHECK(figure("sampled.live") < 4, "%d pages are lost", (int)figure("sampled.live"));
}

/* A fault that is none of a sampled block, and a signal that was sent. */
static void fault_elsewhere(const void *unused) {
    (void)unused;
    proc_no_core_files();
    char *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(volatile char *)page = 1;
}
static void send_the_signal(const void *unused) {
    (void)unused;
    proc_no_core_files();
    kill(getpid(), SIGSEGV);
}

static void test_handlers(void) {
    static const struct {
        void (*body)(const void *);
        int number; /* of the signal that ends it */
        const char *line;
    } rows[] = {
        {fault_in_own_handler, 0, ""},
        {fault_in_handler_that_calls, SIGSEGV, "hakmem: overflow: "},
        {jump_out_of_reports, 0, "hakmem: free(): overflow: "},
        {fault_elsewhere, SIGSEGV, ""},
        {send_the_signal, SIGSEGV, ""},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct child_end end;
        child_run(rows[i].body, NULL, SECONDS, &end);
        int number = WIFSIGNALED(end.status) ? WTERMSIG(end.status) : 0;
        CHECK(end.in_time && number == rows[i].number && (number || end.status == 0),
              "row %u: %#x %s", i, end.status, end.err);
        CHECK(strncmp(end.err, rows[i].line, strlen(rows[i].line)) == 0 &&
                  (*rows[i].line || end.err_length == 0),
              "row %u prints %s", i, end.err);
    }
}

/* ---- a kernel without guards by advice ---------------------------------------------------------- */

static void refuse_guards(void) {
    enum { INSTALL = 102, REMOVE = 103 };
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FILTER_FIELD(nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FILTER_FIELD(args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, INSTALL, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, REMOVE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    filter_install(filter, sizeof filter / sizeof *filter);
}

static unsigned mappings(void) {
    unsigned count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    for (int c; (c = getc(file)) != EOF;) count += c == '\n';
    fclose(file);
    return count;
}

/* All pages in use at once: the mappings that they cost are those that the statistics tell. */
static void test_mappings(void) {
    static char *blocks[PAGES * EACH * 4];
    unsigned before = mappings();
    for (unsigned i = 0; i < PAGES * EACH * 4; i++) blocks[i] = API(malloc)(50);
    CHECK(figure("sampled.live") >= PAGES - 2, "pages are left");
    CHECK(figure("sampled.full") > 0, "no call found all pages in use");
    unsigned more = mappings() - before;
    CHECK(more <= 2 * PAGES + 20, "%u mappings more", more);
    CHECK(figure("memory.mappings") < 1000, "too many mappings");
    for (unsigned i = 0; i < PAGES * EACH * 4; i++) API(free)(blocks[i]);
    CHECK(figure("sampled.live") < 4, "pages are lost");
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    watchdog(280, "sampled blocks");
    require_hakmem();
    if (strcmp(name, "old") == 0) {
        refuse_guards();
        execv("/proc/self/exe", argv + 1);
        CHECK(false, "cannot execute itself");
    }
    unsigned long operations = argument(argc, argv, 2, 20000);
    if (strcmp(name, "misuse") == 0) test_misuse();
    if (strcmp(name, "right") == 0) check_freed_bounds(), test_right(operations);
    if (strcmp(name, "chance") == 0) test_chance();
    if (strcmp(name, "threads") == 0) test_threads(operations);
    if (strcmp(name, "handlers") == 0) test_handlers();
    if (strcmp(name, "mappings") == 0) test_mappings();
    return 0;
}
