/* gate.h: a fork finds every other thread outside the engine.
 *
 * A thread is inside from before it takes its first lock until it has released the last one, and
 * in sections that it marks itself, where it changes what others see without a lock or has
 * something in its hands that no table knows: half a remote free, a slab on its way between pool
 * and bin, pages that it purges. A fork closes the gate and waits until nobody is inside. So no
 * lock is held, no list half changed and no unit lost in the child, nothing there has to be
 * repaired, and neither process writes to anything but the gate itself.
 *
 * Who: every thread notes that it is inside in a post of its own, which its cache has; a thread
 * without one is counted among the crowd. A post belongs to a thread of one process: in a fork's
 * child the posts of the threads that were left behind are lost, whatever they say.
 *
 *   enter   the first time: post.inside = 1; look at CLOSED. If it is set: take it back, sleep
 *           while it is, begin again. Inside: count only
 *   leave   the last time: post.inside = 0
 *   close   set CLOSED; a barrier in all threads; then wait until each post of this process, and
 *           the crowd, is 0
 *   open    clear CLOSED, wake the sleepers. In the child: a new process number, nobody inside
 *
 * Of a thread that enters and a fork that closes one sees the other. The fork pays for that: the
 * system puts a full fence into every running thread between its store and its loads. A thread
 * whose load of CLOSED was before that fence has stored before it, too, so the fork sees it; any
 * other sees CLOSED. So enter is plain stores and loads, which the compiler keeps in order. Where
 * the system has no such barrier, FENCED is set, and each enter is an exchange and a load that
 * are sequentially consistent; the crowd's always are. FENCED is only cleared when the process
 * is registered for the barrier, with its first cache; a fork that finds it gone (a filter of
 * system calls that came later) sets it for good, and gives the stores before it a while.
 *
 * A store of leave pairs with the load of close: what was done inside is done for the fork.
 *
 * A thread that is inside never waits at the gate, so it may hold locks and take more. The thread
 * that forks passes its own closed gate: other libraries' fork handlers may allocate.
 *
 * A fork in a signal handler that interrupted this thread inside waits for the others as well,
 * but a second at most, since they may wait for a lock that it interrupted. Its own half-done
 * step does no harm: the child has this thread, which returns there and ends it.
 *
 * Rejected:
 *  - a fork that takes all locks: with many shards that dirties a page for each in both processes,
 *    and what is done without a lock has to be found again in the child, over the whole heap.
 *  - one count of all threads inside: every slow call of every thread would write to its line.
 *  - to let the child rely on the order of others' stores: pages are copied one after the other
 *    while they run, so it may have a later store and not the earlier one. */
#ifndef HAK_GATE_H
#define HAK_GATE_H

#include "base/base.h"

typedef struct hak_gate_post {
    _Atomic uint32_t inside;    /* its thread writes; of the crowd: how many */
    _Atomic uint32_t process;   /* number of the process that its thread is of, or NOBODY */
    struct hak_gate_post *next; /* constant once listed */
} hak_gate_post_t;

enum { HAK_GATE_NOBODY = 0 };

/* A signal handler may come between any two of these steps, and enter and leave. */
typedef struct {
    uint32_t depth;
    hak_gate_post_t *post;               /* NULL: one of the crowd */
    _Atomic(hak_gate_post_t *) noted_at; /* where it is noted that the thread is inside, or NULL */
} hak_gate_thread_t;

extern __thread hak_gate_thread_t hak_gate_thread;

void hak_gate_note(void);   /* the first enter */
void hak_gate_unnote(void); /* the last leave */

HAK_FAST_PATH void hak_gate_enter(void) {
    hak_gate_thread.depth++;
    if (!hak_load_relaxed(&hak_gate_thread.noted_at)) hak_gate_note();
}

HAK_FAST_PATH void hak_gate_leave(void) {
    if (--hak_gate_thread.depth == 0) hak_gate_unnote();
}

/* The same for who must not wait: false, and not inside, when the gate is closed. */
bool hak_gate_try_enter(void);

/* True while a fork waits, or is under way, that the caller lets in when it leaves. */
bool hak_gate_is_awaited(void);

/* ---- Posts ----------------------------------------------------------------------------------- */

/* A new post joins the list, which it never leaves. */
void hak_gate_list(hak_gate_post_t *post);

/* The post is for a thread of this process; for nobody now. */
void hak_gate_take(hak_gate_post_t *post);
void hak_gate_release(hak_gate_post_t *post);

/* The caller's post from now on; NULL: it joins the crowd. */
void hak_gate_use(hak_gate_post_t *post);

/* True when it was of a thread that a fork left behind. */
bool hak_gate_is_lost(const hak_gate_post_t *post);

/* ---- Forks ----------------------------------------------------------------------------------- */

/* Once, as early as possible: it takes milliseconds where other threads run already. */
void hak_gate_prepare(void);

void hak_gate_close(void);
void hak_gate_open(void);
void hak_gate_reset(void); /* in the child */

/* True between close and open, for the thread that closed. */
bool hak_gate_is_mine(void);

#endif
