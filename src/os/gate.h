/* gate.h: a fork waits until every other thread is outside the engine.
 *
 * A thread is inside from before it takes its first lock until it has released its last one. It is
 * also inside in sections that it marks itself: there it changes shared state without a lock, or
 * holds something that no table lists, such as half a remote free, a slab between pool and bin, or
 * pages that it purges. A fork closes the gate and waits until nobody is inside. So in the child no
 * lock is held, no list is half changed and no unit is lost. The child has nothing to repair, and
 * neither process writes to anything but the gate.
 *
 * A thread notes in its own post, a part of its cache, that it is inside. Threads without a cache
 * count themselves in the post of a crowd. Each CPU has a crowd, because threads start and end on
 * all CPUs at once, and because novices (thread/thread.h) enter at each call. A post belongs to a
 * thread of one process: the child of a fork ignores the posts of the threads that stayed behind.
 * The post of a crowd belongs to no thread, and every fork reads it.
 *
 *   enter   outermost only: post.inside = 1, then read CLOSED. If it is set, undo the store, sleep
 *           while it is set, and begin again. Nested calls only count. A thread that finds CLOSED
 *           set does not even begin to count in a crowd
 *   leave   outermost only: post.inside = 0
 *   close   set CLOSED; run a barrier in all threads; then wait until the crowds and each post of
 *           this process are 0, in rounds (below)
 *   open    clear CLOSED and wake the sleepers. The child first takes a new process number: nobody
 *           is inside. It, too, may have sleepers: a handler of another library, which ran before
 *           ours, may have started threads
 *
 * If one thread enters while another one closes, at least one of the two sees the other. The
 * closing thread pays for that: the system runs a full fence in every running thread, between that
 * thread's store and its load. If the thread loaded CLOSED before the fence, its store came before
 * the fence too, and the closing thread sees it; otherwise the thread sees CLOSED. So enter needs
 * only plain stores and loads, in program order. Where there is no such barrier, FENCED is set, and
 * each enter is a sequentially consistent exchange and load. Those of a crowd always are. FENCED is
 * cleared only when the process registers for the barrier, with its first cache. If the barrier
 * fails later, because of a new filter of system calls, the fork sets FENCED for good and gives
 * earlier stores time to arrive.
 *
 * The first thread of a crowd sets the crowd's bit before it counts there, and close reads the bits
 * after CLOSED is set. Both are sequentially consistent: if close misses the bit, the thread sees
 * CLOSED.
 *
 * The store of leave pairs with the load of close: the fork sees all that was done inside.
 *
 * A thread that is inside never waits at the gate, so it may hold locks and take more of them. The
 * forking thread may pass its own closed gate, since other libraries' fork handlers may allocate.
 *
 * A signal handler may fork while it interrupts a thread that is inside. Such a fork waits for the
 * other threads for a second at most, since they may wait for a lock that the interrupted thread
 * holds. The interrupted step does no harm: the child has this thread, which returns to the step
 * and ends it. But a thread that is still inside after the second, since it waits for such a lock or got
 * no CPU, stays behind with what it holds: locks, and units on their way. Such a child may wait for ever when it
 * allocates; it may do what POSIX allows it, and end or execute another program.
 *
 * A thread notes where it is inside after it has passed the gate, so a handler that interrupts it
 * before that looks at the gate itself. To enter or leave a crowd takes two steps: the count goes
 * up before the note is made, and down after the note is gone. So a count is never less than the
 * number of threads inside. A handler that interrupts between the two steps counts by itself. If it
 * forks, its fork takes its own thread for another one and waits the full second, but misses no
 * thread. If it finds the gate closed, it waits for a fork that waits for this count, until the
 * round of that fork ends.
 *
 * In the child of such a fork the count begins anew, and the child ends the step: a thread on its
 * way in is noted and counted, one on its way out is neither. Then the interrupted code goes on.
 * What it has added to the count was the parent's, so it must not take that back in the child,
 * which may have other threads in the crowd by then. The word of a crowd says which it is: beside
 * the count it has the number of forks so far, and the thread takes back only from the word of the
 * process in which it counted.
 *
 * Two forks may wait for each other: the fork of a handler waits for the gate that another fork has
 * closed, and the other fork waits for the handler's thread to leave. So a fork of a thread outside
 * closes in rounds: if a thread is still inside after 100 ms, the fork opens the gate, releases its
 * other locks, pauses, and begins again. In the pause the handler's fork can run. Each round is
 * twice as long as the one before, so that threads that leave slowly, as on a busy machine, cannot
 * hold up the fork for ever. Rounds do not help where libc holds a lock of its own while its fork
 * runs these handlers (musl, glibc before 2.36): the handler's fork waits for that lock, and the
 * two forks wait for each other for ever. For the same reason no fork waits at a closed gate with such a
 * lock: the thread that has closed the gate, for a verification or a report, may fork in a handler.
 *
 * A thread that waits at the gate counts as outside whatever its depth: a handler that interrupts
 * the wait enters and leaves as if it had interrupted a thread outside.
 *
 * A signal handler may also fork while it interrupts a fork of its own thread, between close and
 * open. Its close waits for the others as well, for a second at most, since the interrupted one may
 * not have done so yet. Its open leaves the gate closed. In its child the gate is open, and the
 * interrupted fork goes on without the gate.
 *
 * Rejected:
 *  - A fork takes all locks. With many shards that dirties a page for each lock in both processes,
 *    and the child must search the whole heap for what was done without a lock.
 *  - A thread notes its crowd before it counts there, or before it looks at the gate. A handler
 *    that comes between is inside uncounted, or passes a closed gate, and its own fork takes the
 *    count of another thread for that of its thread.
 *  - A thread that finds itself in another process after the two steps sets the count to what its
 *    note says. The handler may have started threads in the child, which count there.
 *  - One counter for all threads inside. Every slow call of every thread would write to its line.
 *  - One crowd. With 192 CPUs, three quarters of the time that starting and ending threads waited
 *    was for its line. With one crowd for eight CPUs, each call of a novice moved five lines.
 *  - The child relies on the order of the other threads' stores. The system copies pages one after
 *    the other while those threads run, so the child may have a later store without an earlier
 *    one. */
#pragma once

#include "base/base.h"

typedef struct hak_gate_post {
    _Atomic uint32_t inside;    /* written by its thread; of a crowd: a count, and above it forks */
    _Atomic uint32_t process;   /* number of its thread's process, or NOBODY: free, or a crowd's */
    struct hak_gate_post *next; /* constant once listed */
} hak_gate_post_t;

enum { HAK_GATE_NOBODY = 0 };

/* A signal handler may interrupt between any two steps, and may itself enter and leave. */
typedef struct {
    uint32_t depth;
    uint8_t nested;        /* closes of a gate that the thread had closed */
    uint8_t leaving;       /* steps out of a crowd that are under way */
    uint8_t forks;         /* that closed the gate and are under way; see thread/fork.c */
    bool asks;             /* see hak_gate_begin_question */
    hak_gate_post_t *post; /* NULL: one of a crowd */
    _Atomic(hak_gate_post_t *) noted_at; /* the post that says the thread is inside, or NULL */
} hak_gate_thread_t;

extern __thread hak_gate_thread_t hak_gate_thread;

void hak_gate_note(void);   /* the first enter */
void hak_gate_unnote(void); /* the last leave */

HAK_FAST_PATH void hak_gate_enter(void) {
    hak_gate_thread.depth++;
    if (!hak_load_relaxed(&hak_gate_thread.noted_at)) hak_gate_note();
}

/* The same for a caller that knows the CPU it runs on: a thread of a crowd need not look it up. */
void hak_gate_enter_on(unsigned cpu);

HAK_FAST_PATH void hak_gate_leave(void) {
    if (--hak_gate_thread.depth == 0) hak_gate_unnote();
}

/* For callers that must not wait: false, and the caller stays outside, when the gate is closed. */
bool hak_gate_try_enter(void);

/* True inside, so also in a signal handler that has interrupted the engine, and on the way in or out of a crowd. */
bool hak_gate_is_inside(void);

/* Around a call that looks at the whole engine: it takes one lock after the other, and locks apart from the gate. False
 * where that could wait for the caller's own thread for ever: in a signal handler that has interrupted the engine, or
 * such a call; also in the child of a fork in that handler, until the interrupted call has ended. Nothing is begun then. */
bool hak_gate_begin_question(void);
void hak_gate_end_question(void);

/* True while another thread's fork waits for the caller to leave, or is under way. */
bool hak_gate_is_awaited(void);

/* ---- Posts ----------------------------------------------------------------------------------- */

/* Adds a new post to the list. Posts never leave it. */
void hak_gate_list(hak_gate_post_t *post);
bool hak_gate_is_listed(const hak_gate_post_t *post); /* looks at all */

/* Give the post to a thread of this process; take it from its thread. */
void hak_gate_take(hak_gate_post_t *post);
void hak_gate_release(hak_gate_post_t *post);

/* Makes this the caller's post; NULL: the caller is one of a crowd. */
void hak_gate_use(hak_gate_post_t *post);

/* True when the post's thread stayed behind in a fork. */
bool hak_gate_is_lost(const hak_gate_post_t *post);

/* The number of this process; another one in the child of a fork that closed the gate. */
uint32_t hak_gate_process(void);

/* ---- Forks ----------------------------------------------------------------------------------- */

/* Registers for the barrier. Called once, as early as possible: when other threads run it takes
 * milliseconds. */
void hak_gate_prepare(void);

/* Calls `lock` and `unlock`, unless they are NULL, around each round. False in the child of a fork
 * that a signal handler made meanwhile: there is nobody to wait for, the gate is open, and the lock
 * is in the state that the fork left it in. */
bool hak_gate_close(void (*lock)(void), void (*unlock)(void));
void hak_gate_open(void);

/* The same if the caller still has it closed: not in the child of a fork that a signal handler made
 * meanwhile, where another thread may have closed it since. */
void hak_gate_open_mine(void);

/* Closes the gate for a report at exit, which may have interrupted any code. False, and the gate is
 * open, when the caller itself is inside, or another thread still is after `ms` milliseconds. */
bool hak_gate_close_within(unsigned ms);

/* Called first in the child. The gate stays closed until the child is ready and calls
 * hak_gate_open. */
void hak_gate_reset(void);

/* True between close and open, for the thread that closed. */
bool hak_gate_is_mine(void);
