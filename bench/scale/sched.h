/* sched.h: the deterministic scheduler: the process's threads as threads of the simulated machine.
 *
 * One thread at a time holds the baton and runs; all others sleep in the kernel. Each CPU has a clock.
 * The thread on the CPU whose clock is least runs until that clock has passed the next one's by the
 * quantum, which varies by the seed between a half and one and a half. A CPU with several threads
 * changes them when a slice is used up or a thread sleeps. Sleep is in simulated time.
 *
 * A thread that sched does not know (before sched_start, and after its last destructor) runs as it
 * would without a simulation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct thread thread_t;

typedef struct {
    unsigned quantum_ns, slice_ns;
    uint64_t seed;
} sched_options_t;

extern sched_options_t sched_options;
extern _Thread_local thread_t *sched_self; /* NULL: not simulated */

void sched_start(void); /* the caller becomes the first thread, on CPU 0 */

/* A new thread on a CPU. It runs from sched_begin on, which comes when its real thread exists; that
 * calls sched_enter first and sched_leave last. */
thread_t *sched_make(unsigned cpu);
void sched_begin(thread_t *thread);
void sched_enter(thread_t *thread);
void sched_leave(void);
bool sched_is_done(const thread_t *thread);
void *sched_done_key(thread_t *thread); /* sleepers on it are woken by sched_leave */

unsigned sched_cpu(void);
unsigned sched_id(void);
uint64_t sched_now(void); /* of the caller's CPU */

/* After an access: passes the baton on when it is time. */
void sched_tick(void);

/* Sleeps until woken; false when `limit_ns` of simulated time were over first (0: no limit). `pc` is
 * the code that waits, NULL for what is no allocator's. */
bool sched_block(const void *key, uint64_t limit_ns, const void *pc);

/* Wakes up to `most` sleepers, the longest asleep first; returns how many. `stay`: on their CPUs. */
unsigned sched_wake(const void *key, unsigned most, bool stay);
void sched_yield_cpu(void);
void sched_pass(uint64_t ns); /* time that the caller's CPU spends otherwise */

/* Between them only sleep takes the baton away. */
void sched_hold(void);
void sched_unhold(void);

/* Sets all clocks to the latest one. */
void sched_align(void);
