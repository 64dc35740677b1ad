/* load.c: allocates in a known way, and says what was live and resident at its peak.
 *
 *   load THREADS BLOCKS   each thread allocates BLOCKS blocks, writes them, and frees some that any
 *                         thread allocated; then everything is freed
 *   load fork             allocates, forks, and both processes go on
 *   load storm FORKS      threads allocate and others begin and end while the process forks
 *   load reuse            threads allocate and free blocks of one size
 *   load realloc          blocks that grow, shrink, fail to grow and end by realloc
 *   load names            each function that allocates, and each that frees
 *   load cancel           a thread that is to be cancelled allocates, then another one
 *   load late THREADS     threads, one after the other, of which libc frees a block when they have ended
 *
 * It prints "peak BYTES resident KB": the bytes requested and live at the peak, and the anonymous
 * memory that came to be resident until then. Before that it calls nothing that allocates. */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 200000, THREADS_MOST = 16 };

#ifdef OWN_MALLOC /* a wrapper of libc's, as some programs have */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);
void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
#endif

static struct slot {
    char *block;
    size_t size;
} slots[SLOTS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t used, live, peak, blocks;
static long resident_at_peak;

/* RssAnon of this process; it does not allocate. */
static long resident_kb(void) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return -1;
    text[length] = 0;
    char *line = strstr(text, "RssAnon:");
    return line ? atol(line + 8) : -1;
}

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* All under the mutex: so its order is that of the trace. */
static void put(size_t size) {
    char *block = malloc(size);
    if (!block) abort();
    memset(block, 1, size);
    slots[used++] = (struct slot){block, size};
    live += size;
    if (live > peak) peak = live;
}

static void drop(size_t place) {
    free(slots[place].block);
    live -= slots[place].size;
    slots[place] = slots[--used];
}

static void *work(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    for (size_t i = 0; i < blocks; i++) {
        pthread_mutex_lock(&mutex);
        put(16 + next_random(&state) % (next_random(&state) % 16 ? 500 : 9000));
        if (i % 4 == 0) drop(next_random(&state) % used);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void say(long before) { printf("peak %zu resident %ld\n", peak, resident_at_peak - before); }

static int threads(unsigned count) {
    pthread_t thread[THREADS_MOST];
    long before = resident_kb();
    /* One thread: this one, so that nothing else allocates. */
    if (count == 1) work((void *)(uintptr_t)1);
    for (unsigned i = 0; i < count && count > 1; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1)) != 0) abort();
    for (unsigned i = 0; i < count && count > 1; i++) pthread_join(thread[i], NULL);
    resident_at_peak = resident_kb();
    while (used) drop(used - 1);
    say(before);
    return 0;
}

static int forks(void) {
    for (int i = 0; i < 1000; i++) put(100);
    pid_t child = fork();
    if (child == 0) {
        while (used) drop(used - 1);
        for (int i = 0; i < 500; i++) put(1000);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    for (int i = 0; i < 1000; i++) put(100);
    return status != 0;
}

static atomic_bool is_over;

static void *churn(void *argument) {
    unsigned state = (unsigned)(uintptr_t)argument;
    while (!atomic_load(&is_over)) {
        void *some[32];
        for (int i = 0; i < 32; i++) some[i] = malloc(1 + next_random(&state) % 5000);
        for (int i = 0; i < 32; i++) free(some[i]);
        usleep(50); /* a bound for the trace */
    }
    return NULL;
}

static void *brief(void *argument) {
    free(malloc(100));
    return argument;
}

/* Forks while other threads are anywhere in malloc; children have threads of their own, and end in
 * three ways. */
static int storm(int forks_count) {
    pthread_t busy[3], one;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&busy[i], NULL, churn, (void *)(uintptr_t)(i + 1)) != 0) abort();
    int failed = 0;
    for (int i = 0; i < forks_count && !failed; i++) {
        pid_t child = i % 3 == 2 ? vfork() : fork();
        if (child == 0 && i % 3 == 2) _exit(0);
        if (child == 0) {
            if (pthread_create(&one, NULL, brief, NULL) != 0) _exit(1);
            pthread_join(one, NULL);
            if (i % 3) _exit(0);
            exit(0);
        }
        waitpid(child, &failed, 0);
        if (pthread_create(&one, NULL, brief, NULL) != 0) abort();
        pthread_join(one, NULL);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 3; i++) pthread_join(busy[i], NULL);
    return failed != 0;
}

static void *pairs_to_the_end(void *argument) {
    pthread_cancel(pthread_self());
    for (int i = 0; i < 100000; i++) {
        char *volatile block = malloc(2000);
        free(block);
    }
    atomic_store(&is_over, true);
    pthread_testcancel();
    return argument;
}

/* malloc and free are no cancellation points. */
static int cancelled(void) {
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, pairs_to_the_end, NULL) != 0) abort();
    pthread_join(thread, &result);
    for (int i = 0; i < 100000; i++) put(16), drop(0);
    return result != PTHREAD_CANCELED || !atomic_load(&is_over);
}

/* libc frees the text when the thread has ended, and all of its destructors have run. */
static void *say_error(void *argument) {
    enum { UNKNOWN = 12345 };
    if (!strerror(UNKNOWN)) abort();
    return argument;
}

static int late_frees(int count) {
    pthread_t thread;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&thread, NULL, say_error, NULL) != 0) abort();
        pthread_join(thread, NULL);
    }
    return 0;
}

static void *pairs(void *argument) {
    for (int i = 0; i < 100000; i++) {
        char *volatile block = malloc(2000);
        free(block);
    }
    return argument;
}

/* Threads that are given each other's addresses all the time. */
static int reuse(void) {
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&thread[i], NULL, pairs, NULL) != 0) abort();
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    return 0;
}

static int reallocs(void) {
    char *block = NULL;
    for (size_t size = 100; size <= 100000; size *= 10) block = realloc(block, size);
    peak = 100000;
    void *volatile none = realloc(block, PTRDIFF_MAX); /* it fails: the block stays */
    if (none) abort();
    block = realloc(block, 50000);
    char *other = aligned_alloc(4096, 8192);
    void *third = NULL;
    if (!other || posix_memalign(&third, 64, 1000) != 0) abort();
    free(other);
    free(third);
    free(block);
    say(0);
    return 0;
}

/* ---- Every name ------------------------------------------------------------------------------ */

enum {
    NAME_ROUNDS = 20,
    TAKES = 11,
    NAME_SIZE = 100000,
    NAME_ALIGN = 64,
    NEWS = 8,
    DELETES = 12,
    FREES = 4
};

/* The recorder defines all of them; this program is linked with no C++ runtime. */
static void *function(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (found) return found;
    fprintf(stderr, "no %s\n", name);
    _exit(1);
}

/* Parameters after the first are sizes, alignments and the tag nothrow: the ABI has them all in
 * registers, and who needs fewer ignores the rest. */
static void *by_new(unsigned which) {
    static const char *const names[NEWS] = {"_Znwm",
                                            "_Znam",
                                            "_ZnwmRKSt9nothrow_t",
                                            "_ZnamRKSt9nothrow_t",
                                            "_ZnwmSt11align_val_t",
                                            "_ZnamSt11align_val_t",
                                            "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                            "_ZnamSt11align_val_tRKSt9nothrow_t"};
    union {
        void *symbol;
        void *(*call)(size_t size, size_t align, const void *tag);
    } one = {function(names[which])};
    return one.call(NAME_SIZE, NAME_ALIGN, "");
}

static const volatile size_t alignments[] = {0, 48}; /* memalign takes any number */

static void *take_by(unsigned which) {
    void *block = NULL;
    switch (which) {
    case 0:
        return malloc(NAME_SIZE);
    case 1:
        return calloc(100, NAME_SIZE / 100);
    case 2:
        return realloc(NULL, NAME_SIZE);
    case 3:
        return reallocarray(NULL, 100, NAME_SIZE / 100);
    case 4:
        return posix_memalign(&block, NAME_ALIGN, NAME_SIZE) == 0 ? block : NULL;
    case 5:
        return aligned_alloc(NAME_ALIGN, NAME_SIZE);
    case 6:
        return memalign(NAME_ALIGN, NAME_SIZE);
    case 7:
        return valloc(NAME_SIZE);
    case 8:
        return pvalloc(NAME_SIZE);
    case 9:
        return memalign(alignments[0], NAME_SIZE);
    case 10:
        return memalign(alignments[1], NAME_SIZE);
    default:
        return which < TAKES + NEWS ? by_new(which - TAKES) : NULL;
    }
}

static void free_by(unsigned which, void *block) {
    static const char *const names[FREES + DELETES] = {"free",
                                                       "cfree",
                                                       "free_sized",
                                                       "free_aligned_sized",
                                                       "_ZdlPv",
                                                       "_ZdaPv",
                                                       "_ZdlPvRKSt9nothrow_t",
                                                       "_ZdaPvRKSt9nothrow_t",
                                                       "_ZdlPvm",
                                                       "_ZdaPvm",
                                                       "_ZdlPvSt11align_val_t",
                                                       "_ZdaPvSt11align_val_t",
                                                       "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                                                       "_ZdaPvSt11align_val_tRKSt9nothrow_t",
                                                       "_ZdlPvmSt11align_val_t",
                                                       "_ZdaPvmSt11align_val_t"};
    union {
        void *symbol;
        void (*call)(void *block, size_t first, size_t second);
    } one = {function(names[which])};
    one.call(block, NAME_ALIGN, NAME_SIZE);
}

/* One block is live at a time, so one that the trace misses is in its peak or among its frees. */
static int every_name(void) {
    peak = NAME_SIZE;
    for (unsigned round = 0; round < NAME_ROUNDS; round++) {
        void *block;
        for (unsigned i = 0; (block = take_by(i)) != NULL; i++, blocks++) {
            memset(block, 1, NAME_SIZE);
            free_by((i + round) % (FREES + DELETES), block);
        }
    }
    say(0);
    return blocks != NAME_ROUNDS * (TAKES + NEWS);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "names") == 0) return every_name();
    if (argc == 2 && strcmp(argv[1], "fork") == 0) return forks();
    if (argc == 2 && strcmp(argv[1], "realloc") == 0) return reallocs();
    if (argc == 2 && strcmp(argv[1], "reuse") == 0) return reuse();
    if (argc == 2 && strcmp(argv[1], "cancel") == 0) return cancelled();
    if (argc != 3) return 2;
    if (strcmp(argv[1], "storm") == 0) return storm(atoi(argv[2]));
    if (strcmp(argv[1], "late") == 0) return late_frees(atoi(argv[2]));
    blocks = strtoul(argv[2], NULL, 10);
    return threads((unsigned)atoi(argv[1]));
}
