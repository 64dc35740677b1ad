/* late.c - second frees of blocks at random places among what a thread has freed, mostly not the two newest of their
 * class: each is told once, at the call or at the latest when the thread's cache is flushed, and changes nothing.
 *
 *     late COUNT
 *
 * HAKMEM_ON_ERROR is report. In a round a thread allocates blocks, or gets some of the first thread's, frees all in
 * random order and many of them twice, and ends. A malloc_trim then flushes what its cache holds. In between
 * nothing is allocated: a block that malloc has given out again cannot be known as freed. Stderr is a file in memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "rng.h"

enum {
    SLOTS = 1000,
    MARK = 16,
    BLOCKS = 400,
    LINE = 200,
    SMALL = 1024,
    MOST = 65536,
    LARGE = 200000,
    WAITS = 5000
};

struct slot {
    unsigned char *block;
    size_t size;
    unsigned char mark;
};

static struct slot slots[SLOTS]; /* a heap in use beside the rounds */
static struct rng rng;
static size_t (*verify)(void); /* hakmem_verify of the preloaded library */

/* One round. */
static struct {
    void *blocks[BLOCKS]; /* the first `freed` of them are free, of these the first `again` twice */
    unsigned count, freed, again;
    size_t size;     /* of all blocks; 0: any */
    bool is_foreign; /* the first thread has allocated them */
} plan;
static void *volatile escaped; /* the compiler knows nothing of a pointer that was here */

static void *hide(const void *pointer) {
    escaped = (void *)(uintptr_t)pointer;
    return escaped;
}

static void check_marks(const struct slot *slot) {
    for (size_t i = 0; i < MARK && i < slot->size; i++)
        CHECK(slot->block[i] == slot->mark && slot->block[slot->size - 1 - i] == slot->mark,
              "a block of %zu bytes has changed", slot->size);
}

static size_t any_size(void) {
    switch (rng_below(&rng, 8)) {
    case 0:
        return rng_size(&rng, SMALL, MOST);
    case 1:
        return rng_size(&rng, MOST, LARGE);
    default:
        return rng_size(&rng, 1, SMALL);
    }
}

static void replace(struct slot *slot) {
    if (slot->block) check_marks(slot);
    API(free)(slot->block);
    slot->size = any_size();
    slot->mark = (unsigned char)rng_next(&rng);
    slot->block = API(malloc)(slot->size);
    CHECK(slot->block, "no block of %zu bytes", slot->size);
    memset(slot->block, slot->mark, slot->size);
}

static void allocate_blocks(void) {
    for (unsigned i = 0; i < plan.count; i++) {
        plan.blocks[i] = API(malloc)(plan.size ? plan.size : any_size());
        CHECK(plan.blocks[i], "no block");
    }
}

static void swap(unsigned a, unsigned b) {
    void *block = plan.blocks[a];
    plan.blocks[a] = plan.blocks[b];
    plan.blocks[b] = block;
}

static void free_one(void) {
    swap(plan.freed, plan.freed + (unsigned)rng_below(&rng, plan.count - plan.freed));
    API(free)(plan.blocks[plan.freed++]);
}

static void free_again(void) {
    swap(plan.again, plan.again + (unsigned)rng_below(&rng, plan.freed - plan.again));
    API(free)(hide(plan.blocks[plan.again++]));
}

static void *run_round(void *again) {
    const unsigned most = *(const unsigned *)again;
    if (!plan.is_foreign) allocate_blocks();
    while (plan.freed < plan.count || plan.again < most)
        if (plan.freed < plan.count &&
            (plan.again == most || plan.again == plan.freed || rng_below(&rng, 3)))
            free_one();
        else
            free_again();
    return NULL;
}

static int compare(const void *a, const void *b) {
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

/* The helper thread may have the cache in hand, and trims find nothing then. */
static void flush_caches(void) {
    char text[4096];
    for (unsigned tries = 0; tries < WAITS; tries++) {
        unsigned lines = 0;
        ssize_t length;
        API(malloc_trim)(0);
        for (off_t at = 0; (length = pread(STDERR_FILENO, text, sizeof text, at)) > 0; at += length)
            for (ssize_t i = 0; i < length; i++) lines += text[i] == '\n';
        if (lines >= plan.again) return;
        usleep(1000);
    }
}

/* Each second free has one line, and there is no other. */
static void check_lines(unsigned long round) {
    static char text[BLOCKS * LINE];
    uintptr_t told[BLOCKS];
    unsigned lines = 0;
    const ssize_t length = pread(STDERR_FILENO, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        const char *pointer = strstr(line, "double free: 0x");
        CHECK(strncmp(line, "hakmem: ", 8) == 0 && pointer && lines < BLOCKS,
              "round %lu: not expected: %s", round, line);
        told[lines++] = strtoul(pointer + strlen("double free: "), NULL, 16);
    }
    qsort(told, lines, sizeof *told, compare);
    qsort(plan.blocks, plan.again, sizeof *plan.blocks, compare);
    CHECK(lines == plan.again,
          "round %lu, %u blocks of %zu bytes%s: %u of %u second frees are told", round, plan.count,
          plan.size, plan.is_foreign ? " of another thread" : "", lines, plan.again);
    for (unsigned i = 0; i < lines; i++)
        CHECK(told[i] == (uintptr_t)plan.blocks[i], "round %lu: %p is not told, but %#zx", round,
              plan.blocks[i], (size_t)told[i]);
    CHECK(ftruncate(STDERR_FILENO, 0) == 0 && lseek(STDERR_FILENO, 0, SEEK_SET) == 0, "no file");
}

static unsigned try_round(unsigned long round) {
    pthread_t thread;
    memset(&plan, 0, sizeof plan);
    plan.count = 1 + (unsigned)rng_below(&rng, BLOCKS);
    plan.size = rng_below(&rng, 2) ? rng_size(&rng, 1, MOST) : 0;
    plan.is_foreign = rng_below(&rng, 4) == 0;
    unsigned again = 1 + (unsigned)rng_below(&rng, plan.count);
    if (plan.is_foreign) allocate_blocks();
    CHECK(pthread_create(&thread, NULL, run_round, &again) == 0, "no thread");
    pthread_join(thread, NULL);
    flush_caches();
    check_lines(round);
    for (unsigned i = 0; i < 4; i++) replace(&slots[rng_below(&rng, SLOTS)]);
    CHECK(round % 64 || verify() == 0, "round %lu: violations", round);
    return again;
}

static void run(unsigned long count, int file) {
    CHECK(dup2(file, STDERR_FILENO) == STDERR_FILENO, "no stderr");
    *(void **)&verify = dlsym(RTLD_DEFAULT, "hakmem_verify");
    CHECK(verify, "no hakmem_verify");
    rng = rng_make(count);
    for (unsigned i = 0; i < SLOTS; i++) replace(&slots[i]);
    unsigned long done = 0;
    for (unsigned long round = 1; done < count; round++) done += try_round(round);
    for (unsigned i = 0; i < SLOTS; i++) check_marks(&slots[i]);
}

int main(int argc, char **argv) {
    unsigned long count = argument(argc, argv, 1, 5000);
    int file = memfd_create("stderr", 0), status;
    char text[2000];
    struct stat about;
    CHECK(file >= 0, "no file in memory");
    /* Else two threads that write at once would write at one place: the kernel guards no position of such a file. */
    CHECK(fcntl(file, F_SETFL, O_APPEND) == 0, "no appending");
    require_hakmem();
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        watchdog(40 + (unsigned)(count / 1000), "second frees");
        run(count, file);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    CHECK(fstat(file, &about) == 0, "no length");
    const off_t most = sizeof text - 1; /* the last word counts */
    ssize_t length =
        pread(file, text, sizeof text - 1, about.st_size > most ? about.st_size - most : 0);
    text[length > 0 ? length : 0] = 0;
    const char *word = strstr(text, "FAIL"); /* the child's; before it are lines of the engine */
    CHECK(status == 0, "status %#x: %s", (unsigned)status, word ? word : text);
    printf("%lu second frees and more, each told in one line; no block changed\n", count);
    return 0;
}
