/* gate.h: a fork waits until every other thread is outside the engine.
 *
 * A thread is inside from before it takes its first lock until it has released its last one. It is also
 * inside in sections that it marks itself: there it changes shared state without a lock, or holds
 * something that no table lists, such as half a remote free, a slab between pool and bin, or pages that
 * it purges. A fork closes the gate and waits until nobody is inside. So in the child no lock is held,
 * no list is half changed and no unit is lost. The child has nothing to repair, and neither process
 * writes to anything but the gate.
 *
 * Each thread notes that it is inside in its own post, which its cache contains. Threads without a
 * cache count in the post of a crowd: each CPU has one, since threads start and end on all CPUs
 * at once, and novices (thread/thread.h) enter at each call. A post belongs to a thread of one process: a fork's child ignores the posts of the threads
 * that stayed behind. The post of a crowd belongs to nobody, and no fork ignores it.
 *
 *   enter   outermost only: post.inside = 1, then read CLOSED. If it is set, undo the store, sleep
 *           while it is set, and begin again. Nested calls only count. A thread that finds CLOSED set does
 *           not even begin to count in a crowd
 *   leave   outermost only: post.inside = 0
 *   close   set CLOSED; run a barrier in all threads; then wait until each post of this process and
 *           the crowds are 0, in rounds (below)
 *   open    clear CLOSED and wake the sleepers. In the child first take a new process number: nobody is
 *           inside. There a handler of another library, which ran before ours, may have started the sleepers
 *
 * If one thread enters while another one closes, at least one of the two sees the other. The closing
 * thread pays for that: the system runs a full fence in every running thread, between that thread's
 * store and its load. If the thread loaded CLOSED before the fence, its store came before the fence
 * too, and the closing thread sees it; otherwise the thread sees CLOSED. So enter needs only plain
 * stores and loads, in program order. Without such a barrier, FENCED is set, and each enter is a
 * sequentially consistent exchange and load; those of a crowd always are. FENCED is cleared only
 * when the process registers for the barrier, with its first cache. If the barrier fails later (a
 * filter of system calls came), the fork sets FENCED for good and gives earlier stores time to arrive.
 *
 * The first thread of a crowd sets the crowd's bit before it counts there, and close reads the bits after
 * CLOSED is set. Both are sequentially consistent: if close misses the bit, the thread sees CLOSED.
 *
 * The store of leave pairs with the load of close: the fork sees all that was done inside.
 *
 * A thread that is inside never waits at the gate, so it may hold locks and take more of them. The
 * forking thread may pass its own closed gate, since other libraries' fork handlers may allocate.
 *
 * A signal handler may fork while it interrupts a thread that is inside. Such a fork waits for the
 * others for a second at most, since they may wait for a lock that the interrupted thread holds. The
 * interrupted step does no harm: the child has this thread, which returns to the step and ends it.
 *
 * A thread notes where it is inside after it has passed the gate, so a handler that interrupts it before looks at
 * the gate itself. One that goes into a crowd or out of it has two steps: the count goes up before the note is
 * made, and down after it is gone. So a count is never less than the threads inside. Between two steps a handler
 * counts by itself, and its fork waits in vain for its own thread, for that second, but leaves nobody out. A
 * handler that finds the gate closed there waits for a fork that waits for the count, to the end of the fork's
 * round. A thread that finds itself in another process after its two steps sets the count to what its note says:
 * there it is the only thread.
 *
 * Two forks may wait for each other: that of the handler for the gate that another fork has closed, and the
 * other one for the handler's thread to leave. So a fork of a thread outside closes in rounds: if somebody
 * is still inside after 100 ms, it opens the gate, lets go of what it holds besides, makes a pause, and begins
 * again. In the pause the handler's fork comes. Each round is twice as long as the one before, so that threads
 * that are slow to leave, as on a machine with much work, do not keep it from its fork. That is of no use where
 * libc holds a lock of its own while its fork runs these handlers (musl, glibc before 2.36): there the
 * handler's fork waits for that lock, and the two wait for each other for ever, with any handlers that wait.
 *
 * A thread that waits at the gate counts as outside whatever its depth: a handler that interrupts the wait
 * enters and leaves as if there were nothing to return to.
 *
 * A signal handler may also fork while it interrupts a fork of its thread, between close and open. Its
 * close waits for the others as well, for a second at most, since the interrupted one may not have done so
 * yet, and its open leaves the gate closed. In its child the gate is open, and the interrupted fork goes on
 * without it.
 *
 * Rejected:
 *  - A fork takes all locks. With many shards that dirties a page for each lock in both processes, and
 *    the child must search the whole heap for what was done without a lock.
 *  - A thread notes its crowd before it counts there, or before it looks at the gate. A handler that comes then
 *    is inside uncounted, or passes a closed gate, and its own fork takes the count of another thread for that of
 *    its thread.
 *  - One counter for all threads inside. Every slow call of every thread would write to its line.
 *  - One crowd. With 192 CPUs three quarters of the time that threads waited when they start and end was
 *    for its line. One for each eight CPUs: five lines moved at each call of a novice.
 *  - The child relies on the order of the other threads' stores. The system copies pages one after the
 *    other while those threads run, so the child may have a later store without an earlier one. */
#pragma once

#include "base/base.h"

typedef struct hak_gate_post {
    _Atomic uint32_t inside;    /* written by its thread; of a crowd: a count */
    _Atomic uint32_t process;   /* number of its thread's process, or NOBODY: free, or a crowd's */
    struct hak_gate_post *next; /* constant once listed */
} hak_gate_post_t;

enum { HAK_GATE_NOBODY = 0 };

/* A signal handler may interrupt between any two steps, and may itself enter and leave. */
typedef struct {
    uint32_t depth;
    uint32_t nested;                     /* closes of a gate that the thread had closed */
    uint32_t leaving;                    /* steps out of a crowd that are under way */
    hak_gate_post_t *post;               /* NULL: one of a crowd */
    _Atomic(hak_gate_post_t *) noted_at; /* the post that says the thread is inside, or NULL */
} hak_gate_thread_t;

extern __thread hak_gate_thread_t hak_gate_thread;

void hak_gate_note(void);   /* the first enter */
void hak_gate_unnote(void); /* the last leave */

HAK_FAST_PATH void hak_gate_enter(void) {
    hak_gate_thread.depth++;
    if (!hak_load_relaxed(&hak_gate_thread.noted_at)) hak_gate_note();
}

/* The same for a caller that knows the CPU it runs on, so that a thread of a crowd need not ask. */
void hak_gate_enter_on(unsigned cpu);

HAK_FAST_PATH void hak_gate_leave(void) {
    if (--hak_gate_thread.depth == 0) hak_gate_unnote();
}

/* For callers that must not wait: false, and the caller stays outside, when the gate is closed. */
bool hak_gate_try_enter(void);

/* True while another thread's fork waits for the caller to leave, or is under way. */
bool hak_gate_is_awaited(void);

/* ---- Posts ----------------------------------------------------------------------------------- */

/* Adds a new post to the list. Posts never leave it. */
void hak_gate_list(hak_gate_post_t *post);

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

/* Called once, as early as possible: with other threads running it takes milliseconds. */
void hak_gate_prepare(void);

/* `lock` and `unlock`, unless they are NULL, are called around each round. False in the child of a fork that a
 * signal handler made meanwhile: there is nobody to wait for, the gate is open, and the lock is as the child
 * has left it. */
bool hak_gate_close(void (*lock)(void), void (*unlock)(void));
void hak_gate_open(void);

/* Closes the gate for a report at exit, which may have interrupted any code. False, and the gate is
 * open, when the caller itself is inside, or another thread still is after `ms` milliseconds. */
bool hak_gate_close_within(unsigned ms);

/* In the child, where the gate stays closed until all else is right there, and hak_gate_open. */
void hak_gate_reset(void);

/* True between close and open, for the thread that closed. */
bool hak_gate_is_mine(void);
