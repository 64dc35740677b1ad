/* sampled_forks.c - HAKMEM_GUARD_SAMPLE: two children of a process, and their threads, sample different calls. If all
 * workers of a server sampled the same ones, a mistake at any other call would be found in none of them.
 *
 * A sampled block is known by its usable size: it is the requested one, which is no class's. */
#include <stdint.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"

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

/* In a thread, which gets a cache that waits for one. */
static uint64_t sampled_calls_of_thread(void) { return number_in_thread(sampled_calls); }

int main(void) {
    watchdog(100, "sampled forks");
    require_hakmem();
    sampled_calls();
    CHECK(number_in_child(sampled_calls) != number_in_child(sampled_calls),
          "children sample the same calls");
    sampled_calls_of_thread(); /* leaves a cache that waits */
    CHECK(number_in_child(sampled_calls_of_thread) != number_in_child(sampled_calls_of_thread),
          "threads of children sample the same calls");
    return 0;
}
