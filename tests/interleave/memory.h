/* memory.h: who may see what: happens-before by vector clocks, and data races.
 *
 * The variables of the checked code lie in lines of 64 bytes that are tracked by name. An atomic
 * operation on a tracked line is a step of the explorer. It works on the present value (the
 * exploration is sequentially consistent but for variables named to it), but only acquire and release order anything else: two
 * plain accesses that nothing orders are reported as a data race. So an order too weak for what it
 * guards is found even on a machine that would never show it, and plain accesses need no steps of
 * their own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tracks the lines that [start, start + size) lies in; once, before the first exploration. */
void memory_track(const volatile void *start, size_t size);

/* Tracks all there is but what is left out; once, before the first exploration. */
void memory_track_all(void);
void memory_leave_out(const volatile void *start, size_t size);

bool memory_is_tracked(const volatile void *address);

/* A new execution: nobody has accessed anything. */
void memory_reset(void);

/* The running thread has seen all that every thread did. */
void memory_join(void);

/* The running thread starts another one; it has waited for the end of another one. */
void memory_start(unsigned thread);
void memory_joined(unsigned thread);

/* Plain accesses of the running thread. */
void memory_read(const volatile void *address, size_t size);
void memory_write(const volatile void *address, size_t size);

/* Memory that nobody may access any more in this execution. */
void memory_forbid(const volatile void *start, size_t size);

/* Unless it is NULL, a thread calls it before each such operation, as a signal would interrupt it there; and before
 * those that change what is not tracked: the second. */
extern void (*memory_signal)(void);
void memory_interrupt(void);

/* An atomic operation on a tracked variable: begin is the step, then the operation is carried out,
 * then end records it. `order` is one of the compiler's __ATOMIC_*. */
void memory_atomic_begin(const volatile void *address, size_t size);
void memory_atomic_end(const volatile void *address, const char *operation, bool reads, bool writes,
                       int order, uint64_t before, uint64_t after);

/* Relaxed stores of 32 bits to [start, start + size) may be delayed, as by the store buffer of a CPU,
 * one a thread: others see them any time before the thread's next store or fence. Once, before the
 * first exploration. */
void memory_delay(const volatile void *start, size_t size);
bool memory_delays(volatile void *address, uint64_t value, int order);

/* A load of the running thread, which sees its own delayed store: true when it is to this address.
 * Before any other load the store may be carried out. */
bool memory_forwards(const volatile void *address);
uint32_t memory_forwarded(void);

/* A load of this variable may return an old value, as on a CPU that orders loads weakly: any that no store is behind which
 * the thread knows of. It knows of what it has read and stored there, of what others knew when they published what it has
 * acquired, and after a sequentially consistent fence of what others knew at theirs. Fences that acquire or release count
 * for these variables alone. Operations that read and write work on the newest value. In this execution: in prepare. */
void memory_keep_old(const volatile void *address);
uint64_t memory_choose_old(const volatile void *address, uint64_t newest, int order);
void memory_order_fence(int order);

/* Delayed stores of the running thread are seen from here on; those of all threads. The third drops them: a
 * new execution begins. */
void memory_fence(void);
void memory_fence_all(void);
void memory_forget_delayed(void);

/* Visits the atomic variables that two threads touched in this execution, and one of them wrote. */
void memory_each_shared(void (*visit)(const volatile void *address));

/* Number of the state that all threads and variables are in. */
uint64_t memory_state(void);

/* Mixes what a thread learned elsewhere into its state. */
void memory_learn(uint64_t value);

uint64_t memory_mix(uint64_t a, uint64_t b);
