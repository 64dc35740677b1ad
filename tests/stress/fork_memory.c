/* fork_memory.c - what a fork costs the child of a process with threads, over the size of its heap.
 *
 *     fork_memory [threads [most GiB [system]]]
 *
 * The blocks of the heap are never touched, so the heap itself needs little memory. The child must not
 * write to the records of the heap: neither its private memory nor its page faults before its first
 * line of code may grow with the heap. Nor may the child have 256 KiB more than on the system's
 * allocator, whatever the number of threads (libc itself writes to a page of each). Then the child starts
 * many threads, one after the other and at once, and each must get one of the caches that the parent's
 * threads left. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "proc.h"

enum {
    BLOCK = 8192,
    THREADS_MOST = 512,
    CHILD_SECONDS = 60,
    DIRTY_KIB_MOST =
        256,         /* more than the child of a small heap has, or one on the system's allocator */
    FAULTS_MOST = 8, /* the same; the kernel's own work varies a little */
    TRIES = 3,
    REST_MS = 300, /* more than the longest sleep of a helper thread that has something to do */
};

static const size_t gib[] = {0, 1, 4, 16};

static sem_t started, go_on;

/* Blocks of many classes, some of which another thread frees: caches, stacks, and remote blocks. */
static void *have_a_cache(void *argument) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)argument), .most = 200000};
    load_run(&load, 2000);
    sem_post(&started);
    while (sem_wait(&go_on) != 0) continue;
    load_end(&load);
    return NULL;
}

static void start_threads(pthread_t *threads, unsigned long count) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (unsigned long i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], &small, have_a_cache, (void *)(i + 1)) == 0, "no thread");
    for (unsigned long i = 0; i < count; i++)
        while (sem_wait(&started) != 0) continue;
}

struct cost {
    size_t dirty_kib;
    long faults;
    double ms; /* of the child's own time; for the reader of the output only */
};

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* The parent rests meanwhile: each page that it writes to, or gives back, is the child's own from then on. */
static struct cost fork_once(void) {
    int ends[2], status;
    struct cost cost;
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t pid = fork();
    CHECK(pid >= 0, "fork failed");
    if (pid == 0) {
        cost = (struct cost){.ms = cpu_ms(), .faults = proc_minor_faults()};
        cost.dirty_kib = proc_private_dirty_kib();
        _exit(write(ends[1], &cost, sizeof cost) != sizeof cost);
    }
    CHECK(read(ends[0], &cost, sizeof cost) == sizeof cost, "no word of the child");
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ended with status %#x",
          (unsigned)status);
    close(ends[0]);
    close(ends[1]);
    return cost;
}

/* What the system adds now and then does not count. The helper thread has given back what the threads left. */
static struct cost fork_best(void) {
    CHECK(proc_others_rest(REST_MS, 60), "the parent's threads do not rest");
    struct cost best = fork_once();
    for (int i = 1; i < TRIES; i++) {
        struct cost cost = fork_once();
        if (cost.dirty_kib < best.dirty_kib) best.dirty_kib = cost.dirty_kib;
        if (cost.faults < best.faults) best.faults = cost.faults;
        if (cost.ms < best.ms) best.ms = cost.ms;
    }
    return best;
}

static void grow_to(size_t bytes) {
    static size_t held;
    for (; held < bytes; held += BLOCK) CHECK(API(malloc)(BLOCK) != NULL, "no memory");
}

static void *work(void *argument) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)argument), .most = 200000};
    load_run(&load, 500);
    load_end(&load);
    return NULL;
}

/* In the child: one thread after the other, then many at a time, and then a child again. */
static void go_on_alone(unsigned long count) {
    pthread_t threads[THREADS_MOST];
    int status;
    alarm(CHILD_SECONDS * PATIENCE);
    for (unsigned long i = 0; i < 20; i++) {
        CHECK(pthread_create(threads, NULL, work, (void *)i) == 0, "no thread in the child");
        pthread_join(threads[0], NULL);
    }
    for (unsigned long i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread in the child");
    pid_t pid = fork();
    if (pid == 0) {
        alarm(CHILD_SECONDS * PATIENCE);
        work((void *)1);
        _exit(0);
    }
    for (unsigned long i = 0; i < count; i++) pthread_join(threads[i], NULL);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a grandchild ended with status %#x",
          (unsigned)status);
    _exit(0);
}

/* The same program on the system's allocator, without blocks. */
static struct cost fork_on_system(unsigned long count) {
    char threads[24];
    int ends[2], status;
    struct cost cost = {0, 0, 0};
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(threads, sizeof threads, "%lu", count);
        dup2(ends[1], STDOUT_FILENO);
        unsetenv("LD_PRELOAD");
        execl("/proc/self/exe", "fork_memory", threads, "0", "system", NULL);
        _exit(1);
    }
    close(ends[1]);
    FILE *answer = fdopen(ends[0], "r");
    CHECK(fscanf(answer, "%zu %ld", &cost.dirty_kib, &cost.faults) == 2, "no answer");
    fclose(answer);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "on the system's allocator: status %#x",
          (unsigned)status);
    return cost;
}

static void compare_with_system(const struct cost *cost, unsigned long count) {
    struct cost theirs = fork_on_system(count);
    printf(" system %5zu KiB %8ld\n", theirs.dirty_kib, theirs.faults);
    CHECK(cost->dirty_kib <= theirs.dirty_kib + DIRTY_KIB_MOST,
          "the child has %zu KiB to itself, and %zu KiB on the system's allocator", cost->dirty_kib,
          theirs.dirty_kib);
}

static void compare_heaps(unsigned long most, unsigned long count) {
    struct cost base = {0, 0, 0};
    printf("   heap   private   faults   the child's own ms\n");
    for (size_t i = 0; i < sizeof gib / sizeof *gib && gib[i] <= most; i++) {
        grow_to(gib[i] << 30);
        struct cost cost = fork_best();
        if (i == 0) {
            base = cost;
            compare_with_system(&base, count);
        }
        printf("%3zu GiB %5zu KiB %8ld %10.2f\n", gib[i], cost.dirty_kib, cost.faults, cost.ms);
        CHECK(cost.dirty_kib <= base.dirty_kib + DIRTY_KIB_MOST,
              "the child has %zu KiB to itself, and %zu KiB where the heap is small",
              cost.dirty_kib, base.dirty_kib);
        CHECK(cost.faults <= base.faults + FAULTS_MOST,
              "the child had %ld page faults, and %ld where the heap is small", cost.faults,
              base.faults);
    }
}

int main(int argc, char **argv) {
    static pthread_t threads[THREADS_MOST];
    unsigned long count = argument(argc, argv, 1, 64), most = argument(argc, argv, 2, 16);
    int status;
    CHECK(count <= THREADS_MOST, "at most %d threads", THREADS_MOST);
    setvbuf(stdout, NULL, _IOLBF, 0);
    watchdog(110, "forks of large heaps");
    proc_no_core_files();
    if (argc == 4) {
        start_threads(threads, count);
        struct cost cost = fork_best();
        printf("%zu %ld\n", cost.dirty_kib, cost.faults);
        _exit(0);
    }
    require_hakmem();
    start_threads(threads, count);
    compare_heaps(most, count);
    pid_t pid = fork();
    if (pid == 0) go_on_alone(count);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the last child ended with status %#x",
          (unsigned)status);
    for (unsigned long i = 0; i < count; i++) sem_post(&go_on);
    for (unsigned long i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 0;
}
