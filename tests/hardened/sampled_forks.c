/* sampled_forks.c - HAKMEM_GUARD_SAMPLE: two children of a process, and their threads, sample different calls. If all
 * workers of a server sampled the same ones, a mistake at any other call would be found in none of them.
 *
 * A sampled block is known by its usable size: it is the requested one, which is no class's. */
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

enum { SIZE = 50, CALLS = 2000 };

/* Which of the calls are sampled. */
static uint64_t sampled_calls(void) {
    uint64_t sum = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        void *block = API(malloc)(SIZE);
        if (API(malloc_usable_size)(block) == SIZE) {
            sum = (sum + i) * 0x9E3779B97F4A7C15u;
            count++;
        }
        API(free)(block);
    }
    CHECK(count > 1, "%u of %u calls are sampled", count, (unsigned)CALLS);
    return sum;
}

static void *sample_in_thread(void *sum) {
    *(uint64_t *)sum = sampled_calls();
    return NULL;
}

/* In a thread, which gets a cache that waits for one. */
static uint64_t sampled_calls_of_thread(void) {
    pthread_t thread;
    uint64_t sum = 0;
    CHECK(pthread_create(&thread, NULL, sample_in_thread, &sum) == 0, "no thread");
    pthread_join(thread, NULL);
    return sum;
}

static uint64_t in_a_child(uint64_t (*find)(void)) {
    int ends[2];
    uint64_t sum = 0;
    CHECK(pipe(ends) == 0, "no pipe");
    const pid_t child = fork();
    if (!child) {
        sum = find();
        _exit(write(ends[1], &sum, sizeof sum) != sizeof sum);
    }
    CHECK(child > 0 && read(ends[0], &sum, sizeof sum) == sizeof sum, "no child");
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    return sum;
}

int main(void) {
    watchdog(100, "sampled forks");
    require_hakmem();
    sampled_calls();
    CHECK(in_a_child(sampled_calls) != in_a_child(sampled_calls), "children sample the same calls");
    sampled_calls_of_thread(); /* leaves a cache that waits */
    CHECK(in_a_child(sampled_calls_of_thread) != in_a_child(sampled_calls_of_thread),
          "threads of children sample the same calls");
    return 0;
}
