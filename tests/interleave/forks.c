/* forks.c: forks among threads, and what parent and child do after them. */
#include "forks.h"

#include "cache/cpu_depot.h"
#include "classes/classes.h"
#include "explore.h"
#include "memory.h"
#include "process.h"
#include "program.h"
#include "shard/shard.h"
#include "thread/thread.h"

void use_and_fork(void) {
    program_malloc_all(0, 2, PAGES);
    if (process_fork()) {
        explore_start(3);
        program_malloc_all(2, 2, PAGES);
        explore_join(3);
    }
    program_free(0);
}
void use_all(void) {
    program_malloc_all(8, 2, PAGES);
    program_malloc(10, LARGE);
    program_malloc(11, HUGE);
    program_free_all(8, 4);
}
void fork_too(void) {
    program_malloc(8, PAGES);
    process_fork();
    program_free(8);
}
void thread_of_child(void) {
    program_malloc_all(16, 2, PAGES);
    program_malloc(18, LARGE);
    program_free_all(16, 3);
    process_end_thread();
}

static const size_t sizes[] = {SMALL, PAGES};
static size_t unknown[2]; /* blocks in the cache of the thread that prepares */

static size_t count_unknown(unsigned i) {
    const unsigned class_index = hak_class_of(sizes[i]);
    return hak_shard_in_use(class_index) - hak_depot_count(class_index) - program_live(sizes[i]);
}

/* The depot of pages is full. */
void fill_depot(void) {
    enum { FULL = 8 };
    void *one[2];
    const unsigned class_index = hak_class_of(PAGES);
    program_malloc(0, PAGES);
    for (unsigned i = 0; i < FULL; i++) {
        EXPLORE_CHECK(hak_shard_take(0, class_index, 1, one, NULL) == 1, "no memory");
        EXPLORE_CHECK(hak_depot_put(hak_shard_here(), class_index, &one[1], 1) == 1,
                      "%u blocks fill a depot", i);
    }
    for (unsigned i = 0; i < 2; i++) unknown[i] = count_unknown(i);
}
void take_from_depot(void) { program_malloc_all(1, 2, SMALL); }
void give_to_depot(void) { program_free(0); }
void fork_beside(void) { process_fork(); }

/* One more was on its way to or from the program. */
void check_depots_of_child(void) {
    for (unsigned i = 0; i < 2; i++) {
        const size_t found = count_unknown(i);
        EXPLORE_CHECK(found <= unknown[i] + 1, "%zu blocks of %zu bytes are lost", found, sizes[i]);
    }
    program_check();
}

/* ---- A signal handler forks while its thread starts, and starts a thread in the child ---------------- */

static unsigned accesses_left; /* before the handler comes; 0: it has been */

static void fork_and_start(void) {
    if (process_fork()) explore_start(2);
}

__attribute__((no_sanitize_thread)) static void count_down(void) {
    if (explore_thread() == 1 && accesses_left && --accesses_left == 0) fork_and_start();
}

/* Besides the one that has prepared all, which a child does not have. */
static void check_count(unsigned threads) {
    hak_thread_look_at_limits();
    const unsigned count = hak_thread_count() - !process.is_child;
    EXPLORE_CHECK(count == threads, "%u threads, not %u", count, threads);
}

void start_interrupted(void) {
    enum { ACCESSES = 120 }; /* of a start and the first blocks */
    accesses_left = explore_choose(ACCESSES) + 1;
    memory_signal = count_down;
    program_malloc(0, SMALL);
    memory_signal = NULL;
    accesses_left = 0;
    program_free(0);
    if (process.is_child) explore_join(2);
    check_count(1);
    process_end_thread();
}
void start_beside_interrupted(void) {
    program_malloc_all(8, 2, SMALL);
    program_free_all(8, 2);
    process_end_thread();
}

void check_that_no_thread_is_left(void) {
    check_count(0);
    program_check();
}
