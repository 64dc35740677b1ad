/* known.c - a program whose sites, bytes and live blocks are known exactly; profile.py compares.
 *
 *     test_profile_known sites    each site in its own way; prints "site NAME ADDRESS OBJECTS BYTES
 *                                 LIVE_OBJECTS LIVE_BYTES" for each
 *     test_profile_known resized  the same for blocks that realloc leaves in their size class
 *     test_profile_known thread   blocks that other threads free, from threads that end
 *     test_profile_known peak     has most in use in the middle and frees all; prints "site NAME ADDRESS OBJECTS
 *                                 SIZE" as at the peak
 *     test_profile_known leak     one block of 1,000 bytes that nobody frees, among others
 *     test_profile_known leader   the same, after the main thread has left
 *     test_profile_known stacks   a block of 100 bytes by each of 131,072 call stacks: of four one is freed, one can
 *                                 be reached, two are lost
 *     test_profile_known wrong    blocks of 3,000 and 200,000 bytes that are freed wrongly: by another size and, from
 *                                 operator new, by free; each wrong free is to be refused and told
 *     test_profile_known full     all blocks of 100 bytes that there is memory for, and frees them
 *     test_profile_known culprit  keeps one of 32 blocks, and others, and waits for a line on stdin
 *     test_profile_known wait     allocates and waits for a line on stdin
 *     test_profile_known refused  blocks keep their samples when a realloc of them is refused
 *     test_profile_known dumps N  N forks while a thread writes profiles: each child can write one
 *     test_profile_known loops N LIBRARY
 *                                 N rounds of dlopen (unless LIBRARY is "-"), fork and thread exit, at once
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "figures.h"

enum { SITES_MOST = 16, KEPT = 1 << 20 };

struct tally {
    const char *name;
    uintptr_t address;
    uint64_t objects, bytes, live_objects, live_bytes;
};

static struct tally tallies[SITES_MOST];
static unsigned tally_count;
static struct {
    void *block;
    struct tally *tally;
    size_t size;
} kept[KEPT];
static unsigned kept_count;

static void count(struct tally *tally, size_t size) {
    tally->objects++;
    tally->bytes += size;
    tally->live_objects++;
    tally->live_bytes += size;
}

static void uncount(struct tally *tally, size_t size) {
    tally->live_objects--;
    tally->live_bytes -= size;
}

static void keep(void *block, struct tally *tally, size_t size) {
    CHECK(kept_count < KEPT, "too many blocks");
    kept[kept_count].block = block;
    kept[kept_count].tally = tally;
    kept[kept_count++].size = size;
}

/* A function that allocates in one way, and its tally. The empty statement keeps the call from being the
 * last thing that the function does. */
#define SITE(function, call)                                                             \
    __attribute__((noinline)) static void *function(size_t size, struct tally **tally) { \
        static struct tally *own;                                                        \
        if (!own) {                                                                      \
            own = &tallies[tally_count++];                                               \
            own->name = #function;                                                       \
            own->address = (uintptr_t)&function;                                         \
        }                                                                                \
        void *block = (call);                                                            \
        __asm__ volatile("" : : "r"(block) : "memory");                                  \
        CHECK(block != NULL, "no memory");                                               \
        count(own, size);                                                                \
        *tally = own;                                                                    \
        return block;                                                                    \
    }

SITE(grows, API(malloc)(size))
SITE(in_turn, API(malloc)(size))
SITE(in_bursts, API(malloc)(size))
SITE(of_mid_size, API(malloc)(size))
SITE(of_large_size, API(malloc)(size))
SITE(of_huge_size, API(malloc)(size))
SITE(zeroed, API(calloc)(1, size))
SITE(aligned, API(aligned_alloc)(64, size))
SITE(tiny, API(malloc)(size))

/* Both steps leave a block in its size class. */
__attribute__((always_inline)) static inline void *less_and_more(unsigned char *block,
                                                                 size_t size) {
    block[0] = block[size / 2] = 0xa5;
    block = API(realloc)(block, size * 5 / 8);
    CHECK(block && block[0] == 0xa5 && block[size / 2] == 0xa5, "the contents are lost");
    block = API(realloc)(block, size);
    CHECK(block && block[0] == 0xa5 && block[size / 2] == 0xa5, "the contents are lost");
    return block;
}
SITE(resized, less_and_more(API(malloc)(size), size))
SITE(resized_mid, less_and_more(API(malloc)(size), size))

enum { MORE = 30 }; /* bytes, within the class of 530 bytes, and beyond a sampled block's own */
SITE(stretched, API(realloc)(API(malloc)(size), size + MORE))

typedef void *site_t(size_t size, struct tally **tally);

/* Keeps one of `part` blocks. */
static void some(site_t *site, size_t size, unsigned blocks, unsigned part) {
    struct tally *tally;
    for (unsigned i = 0; i < blocks; i++) {
        unsigned char *block = site(size, &tally);
        if (site == zeroed)
            for (size_t at = 0; at < size; at++)
                CHECK(block[at] == 0, "calloc's block is not zero");
        memset(block, 0xa5, size);
        if (i % part == 0) {
            keep(block, tally, size);
        } else {
            uncount(tally, size);
            API(free)(block);
        }
    }
}

/* Takes `depth` blocks and frees them, again and again. */
static void burst(size_t size, unsigned rounds, unsigned depth) {
    void *blocks[256];
    struct tally *tally;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < depth; i++) blocks[i] = in_bursts(size, &tally);
        for (unsigned i = 0; i < depth; i++) API(free)(blocks[i]);
        for (unsigned i = 0; i < depth; i++) uncount(tally, size);
    }
}

static void print_sites(void) {
    for (unsigned i = 0; i < tally_count; i++) {
        const struct tally *tally = &tallies[i];
        printf("site %s %#zx %llu %llu %llu %llu\n", tally->name, (size_t)tally->address,
               (unsigned long long)tally->objects, (unsigned long long)tally->bytes,
               (unsigned long long)tally->live_objects, (unsigned long long)tally->live_bytes);
    }
}

/* Each step counts as a free and an allocation. */
static void resized_sites(void) {
    static const size_t sizes[] = {800, 5000};
    static site_t *const functions[] = {resized, resized_mid};
    for (unsigned i = 0; i < 2; i++) {
        some(functions[i], sizes[i], 60000, 2);
        tallies[i].bytes += tallies[i].objects * (sizes[i] * 5 / 8 + sizes[i]);
        tallies[i].objects *= 3;
    }
    some(stretched, 530, 60000, 2);
    tallies[2].bytes += tallies[2].objects * (530 + MORE);
    tallies[2].live_bytes += tallies[2].live_objects * MORE;
    tallies[2].objects *= 2;
    print_sites();
}

static void sites(void) {
    some(grows, 48, 600000, 1);
    some(in_turn, 100, 1000000, 1000000);
    burst(200, 4000, 150);
    some(of_mid_size, 5000, 20000, 2);
    some(of_large_size, 200000, 1000, 2);
    some(of_huge_size, 3000000, 60, 2);
    some(zeroed, 700, 150000, 4);
    some(aligned, 640, 100000, 8);
    some(tiny, 8, 2000000, 8);
    for (unsigned i = 0; i < kept_count; i += 2) {
        uncount(kept[i].tally, kept[i].size);
        API(free)(kept[i].block);
    }
    print_sites();
}

/* ---- the peak ---- */

static void free_from(unsigned first) {
    while (kept_count > first) API(free)(kept[--kept_count].block);
}

/* `grows` has most before the peak and `tiny` after it; `zeroed` begins after it. */
static void peak(void) {
    struct tally *tally;
    const struct {
        const char *name;
        site_t *site;
        unsigned at_peak;
        size_t size;
    } parts[] = {{"grows", grows, 5000, 200},
                 {"tiny", tiny, 10000, 64},
                 {"of_mid_size", of_mid_size, 1000, 5000},
                 {"of_large_size", of_large_size, 5, 200000},
                 {"zeroed", zeroed, 0, 700}};
    some(grows, 200, 12000, 1);
    free_from(5000);
    some(tiny, 64, 10000, 1);
    some(of_large_size, 200000, 5, 1);
    some(of_mid_size, 5000, 1000, 1);
    free_from(5000);
    some(tiny, 64, 30000, 1);
    some(zeroed, 700, 2000, 1);
    free_from(0);
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        API(free)(parts[i].site(parts[i].size, &tally));
        printf("site %s %#zx %u %zu\n", parts[i].name, (size_t)tally->address, parts[i].at_peak,
               parts[i].size);
    }
}

/* ---- threads ---- */

enum { THREADS = 40, EACH = 2000 };
static void *handed[THREADS][EACH];

static void *allocate_there(void *row) {
    for (int i = 0; i < EACH; i++) ((void **)row)[i] = API(malloc)(340);
    return NULL;
}

static void threads(void) {
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, allocate_there, handed[i]) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < EACH; k++) API(free)(handed[i][k]);
}

/* ---- loops ---- */

static _Atomic int running = 3;
static long rounds;

static void *exiting(void *unused) {
    API(free)(API(malloc)(20000));
    return unused;
}

static void *start_threads(void *unused) {
    for (long i = 0; i < rounds; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, exiting, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    atomic_fetch_sub(&running, 1);
    return unused;
}

static void *open_and_close(void *library) {
    for (long i = 0; i < rounds && strcmp(library, "-") != 0; i++) {
        void *handle = dlopen(library, RTLD_NOW);
        CHECK(handle != NULL, "%s", dlerror());
        dlclose(handle);
    }
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *make_children(void *unused) {
    for (long i = 0; i < rounds; i++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0, "no child");
        if (pid == 0) {
            for (int k = 0; k < 20; k++) API(free)(API(malloc)(3000));
            _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ends with %#x",
              (unsigned)status);
    }
    atomic_fetch_sub(&running, 1);
    return unused;
}

static void loops(char *library) {
    pthread_t threads_of[3];
    CHECK(pthread_create(&threads_of[0], NULL, start_threads, NULL) == 0, "no thread");
    CHECK(pthread_create(&threads_of[1], NULL, open_and_close, library) == 0, "no thread");
    CHECK(pthread_create(&threads_of[2], NULL, make_children, NULL) == 0, "no thread");
    while (running > 0)
        for (int i = 0; i < 1000; i++) API(free)(API(malloc)(1000));
    for (int i = 0; i < 3; i++) pthread_join(threads_of[i], NULL);
}

/* ---- the rest ---- */

__attribute__((noinline)) static void *lose(void) {
    void *block = API(malloc)(1000);
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static void leak(void) {
    for (int i = 0; i < 1000; i++) API(free)(API(malloc)(500));
    printf("lost %#zx\n", (size_t)(uintptr_t)&lose);
    memset(lose(), 1, 1000);
}

static void *leak_alone(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    leak();
    exit(0);
    return NULL;
}

static void leave_it_to_another(void) {
    static pthread_t main_thread;
    pthread_t thread;
    main_thread = pthread_self();
    CHECK(pthread_create(&thread, NULL, leak_alone, &main_thread) == 0, "no thread");
    pthread_exit(NULL);
}

static void wrong(void) {
    static const size_t sizes[] = {3000, 200000};
    void *(*by_new)(size_t) = LIBRARY(_Znwm);
    void (*by_size)(void *, size_t) = LIBRARY(free_sized);
    CHECK(by_new != NULL && by_size != NULL, "functions are missing");
    for (int i = 0; i < 2; i++) {
        by_size(API(malloc)(sizes[i]), sizes[i] + 1);
        API(free)(by_new(sizes[i] + 10));
    }
}

/* Each leaf has another path from the root. */
enum { TREE_DEPTH = 17 };
static void *volatile leaves[1 << TREE_DEPTH];
static unsigned leaf_count;

static void grow_tree(unsigned depth);
static __attribute__((noinline)) void grow_left(unsigned depth) {
    grow_tree(depth - 1);
    __asm__ volatile("");
}
static __attribute__((noinline)) void grow_right(unsigned depth) {
    grow_tree(depth - 1);
    __asm__ volatile("");
}
static __attribute__((noinline)) void grow_tree(unsigned depth) {
    if (depth > 0) {
        grow_left(depth);
        grow_right(depth);
    } else {
        leaves[leaf_count] = API(malloc)(100);
        CHECK(leaves[leaf_count] != NULL, "no memory");
        leaf_count++;
    }
    __asm__ volatile("");
}

static void stacks(void) {
    grow_tree(TREE_DEPTH);
    for (unsigned i = 0; i < leaf_count; i++) {
        if (i % 4 == 0) API(free)(leaves[i]);
        if (i % 4 != 1) leaves[i] = NULL;
    }
}

static void full(void) {
    void **chain = NULL;
    for (void **block; (block = API(malloc)(100)) != NULL; chain = block) *block = chain;
    while (chain != NULL) {
        void **block = chain;
        chain = *block;
        API(free)(block);
    }
}

static void wait_for_a_line(void) {
    struct tally *tally;
    for (int i = 0; i < 10000; i++) keep(grows(1000, &tally), tally, 1000);
    printf("ready\n");
    fflush(stdout);
    for (int c = 0; c != '\n' && c != EOF;) c = getchar();
}

SITE(remembers, API(malloc)(size))
SITE(parses, API(malloc)(size))
SITE(caches, API(malloc)(size))

static void culprit(void) {
    struct tally *tally;
    unsigned passing = kept_count;
    for (int i = 0; i < 600000; i++)
        if (i % 32 != 0)
            keep(memset(parses(120, &tally), 1, 120), tally, 120);
        else
            memset(remembers(120, &tally), 1, 120);
    for (unsigned i = passing; i < kept_count; i++) API(free)(kept[i].block);
    for (int i = 0; i < 30; i++) memset(caches(1 << 20, &tally), 1, 1 << 20);
    printf("ready\n");
    fflush(stdout);
    for (int c = 0; c != '\n' && c != EOF;) c = getchar();
}

static void refused(void) {
    static const size_t sizes[] = {100, 3000, 300000, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = API(malloc)(sizes[i]), *volatile larger;
        CHECK(block != NULL, "no memory");
        uint64_t before = figure("profile.live");
        larger = API(realloc)(block, (size_t)PTRDIFF_MAX / 2);
        CHECK(larger == NULL && before > 0, "%zu bytes can become half of all addresses", sizes[i]);
        CHECK(figure("profile.live") == before, "a block of %zu bytes has lost its sample",
              sizes[i]);
        larger = API(realloc)(block, sizes[i] * 3);
        CHECK(larger != NULL, "no memory");
        CHECK(figure("profile.live") == before, "%d samples more for a block of %zu bytes",
              (int)(figure("profile.live") - before), 3 * sizes[i]);
        API(free)(larger);
        CHECK(figure("profile.live") == before - 1, "a freed block has a sample");
    }
}

static int dump(const char *path) {
    int (*to)(const char *) = LIBRARY(hakmem_prof_dump);
    CHECK(to != NULL, "there is no hakmem_prof_dump");
    return to(path);
}

/* A name that no system call takes is not cut to one that it does. */
static void dump_to_long_names(void) {
    static char name[5000];
    memset(name, '/', sizeof name - 1);
    CHECK(dump(name) == ENAMETOOLONG, "a name of %zu bytes", sizeof name - 1);
    memset(name, '/', 3000);
    strcpy(name + 3000, "dev/null"); /* more than a cut at 2,048 bytes would leave: a directory */
    CHECK(dump(name) == 0, "a name of %zu bytes says %d", strlen(name), dump(name));
}

static void *dump_always(void *unused) {
    while (atomic_load(&running) > 0) dump("/dev/null");
    return unused;
}

static void dump_in_children(void) {
    pthread_t thread;
    atomic_store(&running, 1);
    CHECK(pthread_create(&thread, NULL, dump_always, NULL) == 0, "no thread");
    for (long i = 0; i < rounds; i++) {
        int status;
        pid_t pid = fork();
        CHECK(pid >= 0, "no child");
        if (pid == 0) _exit(dump("/dev/null"));
        CHECK(waitpid(pid, &status, 0) == pid && status == 0,
              "hakmem_prof_dump in child %ld says %d", i, status >> 8);
    }
    atomic_store(&running, 0);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "sites") == 0) sites();
    if (strcmp(what, "resized") == 0) resized_sites();
    if (strcmp(what, "peak") == 0) peak();
    if (strcmp(what, "thread") == 0) threads();
    if (strcmp(what, "leak") == 0) leak();
    if (strcmp(what, "leader") == 0) leave_it_to_another();
    if (strcmp(what, "stacks") == 0) stacks();
    if (strcmp(what, "wrong") == 0) wrong();
    if (strcmp(what, "full") == 0) full();
    if (strcmp(what, "culprit") == 0) culprit();
    if (strcmp(what, "wait") == 0) wait_for_a_line();
    if (strcmp(what, "refused") == 0) refused();
    if (strcmp(what, "dumps") == 0) {
        CHECK(argc == 3, "usage: dumps N");
        rounds = atol(argv[2]);
        dump_to_long_names();
        dump_in_children();
    }
    if (strcmp(what, "loops") == 0) {
        CHECK(argc == 4, "usage: loops N LIBRARY");
        rounds = atol(argv[2]);
        loops(argv[3]);
    }
    return 0;
}
