/* forks.c: forks among threads, and what parent and child do after them. */
#include "forks.h"

#include "explore.h"
#include "process.h"
#include "program.h"

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
