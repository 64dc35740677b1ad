/* forks.h: steps of scenarios with forks. */
#pragma once

void use_and_fork(void);
void use_all(void);
void fork_too(void);
void thread_of_child(void);

/* Of threads without a cache, and one that forks beside them: no child loses blocks on their way. */
void fill_depot(void);
void take_from_depot(void);
void give_to_depot(void);
void fork_beside(void);
void check_depots_of_child(void);

/* Of a thread whose start a fork interrupts, in a handler that starts a second thread in the child. */
void start_interrupted(void);
void start_beside_interrupted(void);
void check_that_no_thread_is_left(void);
