/* forks.h: steps of scenarios with forks. */
#pragma once

void use_and_fork(void);
void use_all(void);
void fork_too(void);
void thread_of_child(void);
