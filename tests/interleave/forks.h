/* forks.h: steps of scenarios with forks. */
#ifndef TESTS_INTERLEAVE_FORKS_H
#define TESTS_INTERLEAVE_FORKS_H

void use_and_fork(void);
void use_all(void);
void fork_too(void);
void thread_of_child(void);

#endif
