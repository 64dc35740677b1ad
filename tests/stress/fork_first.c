/* fork_first.c - a program registers handlers of forks before it allocates for the first time.
 *
 *     fork_first mutex [forks]   One that waits for a lock, which another thread holds while it allocates: the fork
 *                                ends only if the allocator's handlers run later, so were registered earlier.
 *     fork_first many            More than libc's list holds: libc allocates with the lock of the list held, and
 *                                the allocator must not register anything then.
 *
 * No library beside libc may be there: then the allocator is not asked to be early. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

enum { SECONDS = 60, MANY = 60, BLOCKS = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool stop;
static atomic_uint rounds;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }
static void nothing(void) {}

static void *allocate_on(void *unused) {
    void *held[BLOCKS];
    while (!atomic_load(&stop)) {
        pthread_mutex_lock(&mutex);
        for (size_t i = 0; i < BLOCKS; i++) held[i] = API(malloc)(70000 + i * 3000);
        for (size_t i = 0; i < BLOCKS; i++) API(free)(held[i]);
        pthread_mutex_unlock(&mutex);
        atomic_fetch_add(&rounds, 1);
    }
    return unused;
}

static void fork_once(void) {
    int status;
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a fork: %#x",
          (unsigned)status);
}

int main(int argc, char **argv) {
    const bool is_many = argc > 1 && strcmp(argv[1], "many") == 0;
    alarm(SECONDS); /* watchdog allocates */
    for (unsigned i = 0; is_many && i < MANY; i++) pthread_atfork(nothing, nothing, nothing);
    if (!is_many) pthread_atfork(lock, unlock, unlock);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate_on, NULL) == 0, "no thread");
    while (atomic_load(&rounds) == 0) usleep(1000);
    const unsigned long forks = argument(argc, argv, 2, 100);
    for (unsigned long i = 0; i < forks; i++) fork_once();
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    require_hakmem();
    printf("fork_first: %lu forks\n", forks);
    return 0;
}
