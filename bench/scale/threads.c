/* threads.c: in front of libc, for instrumented code: threads, mutexes, conditions.
 *
 * A simulated thread never sleeps in the kernel while it holds the baton. A mutex is libc's own, only
 * tried; who does not get it sleeps in the scheduler. A thread that was detached is joined by the
 * next one that makes a thread, so that what libc frees for it is freed by a simulated thread. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "calls.h"
#include "lines.h"
#include "memory.h"
#include "sched.h"
#include "sites.h"

#define PC __builtin_return_address(0)

enum { LEFT_MOST = 1 << 17 };

typedef struct start {
    void *(*run)(void *);
    void *arg;
    thread_t *thread;
    pthread_t real;
    bool detached;
    unsigned rounds; /* of destructors */
    struct start *next;
} start_t;

_Thread_local int scale_next_cpu = -1;
static start_t *started; /* not joined yet */

static pthread_key_t last_key;
static pthread_once_t has_key = PTHREAD_ONCE_INIT;

/* Runs in every round of destructors; the last round is the thread's end. */
static void on_exit_round(void *value) {
    start_t *start = value;
    if (++start->rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
        pthread_setspecific(last_key, start);
    else
        sched_leave();
}

static void make_key(void) {
    if (pthread_key_create(&last_key, on_exit_round) == 0) return;
    fputs("scale: no key for thread exits\n", stderr);
    _Exit(3);
}

static void *enter(void *value) {
    start_t *start = value;
    sched_enter(start->thread);
    pthread_setspecific(last_key, start);
    return start->run(start->arg);
}

static start_t *new_start(void) {
    static start_t *all;
    static unsigned count;
    if (!all) all = scale_map(sizeof *all * LEFT_MOST);
    return &all[count++ % LEFT_MOST];
}

static void unlist(start_t *start) {
    start_t **at = &started;
    while (*at != start) at = &(*at)->next;
    *at = start->next;
}

static void reap(void) {
    for (start_t *start = started, *next; start; start = next) {
        next = start->next;
        if (!start->detached || !sched_is_done(start->thread)) continue;
        unlist(start);
        pthread_join(start->real, NULL);
    }
}

int scale_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                         void *arg) {
    pthread_attr_t own;
    int state = PTHREAD_CREATE_JOINABLE;
    if (!sched_self) return pthread_create(thread, attr, run, arg);
    if (attr) pthread_attr_getdetachstate(attr, &state);
    sched_hold();
    reap();
    pthread_once(&has_key, make_key);
    start_t *start = new_start();
    *start = (start_t){.run = run, .arg = arg, .detached = state == PTHREAD_CREATE_DETACHED};
    start->thread = sched_make(scale_next_cpu < 0 ? sched_cpu() : (unsigned)scale_next_cpu);
    pthread_attr_init(&own);
    pthread_attr_setstacksize(&own, 256 * 1024);
    if (pthread_create(&start->real, &own, enter, start) != 0) {
        fputs("scale: the system gives no more threads\n", stderr);
        _Exit(3);
    }
    pthread_attr_destroy(&own);
    start->next = started;
    started = start;
    *thread = start->real;
    sched_begin(start->thread);
    sched_unhold();
    return 0;
}

static start_t *find(pthread_t thread) {
    for (start_t *start = started; start; start = start->next)
        if (pthread_equal(start->real, thread)) return start;
    return NULL;
}

int scale_pthread_join(pthread_t thread, void **result) {
    start_t *start = sched_self ? find(thread) : NULL;
    if (!start) return pthread_join(thread, result);
    while (!sched_is_done(start->thread)) sched_block(sched_done_key(start->thread), 0, NULL);
    sched_hold();
    unlist(start);
    int status = pthread_join(thread, result);
    sched_unhold();
    return status;
}

int scale_pthread_detach(pthread_t thread) {
    start_t *start = sched_self ? find(thread) : NULL;
    if (!start) return pthread_detach(thread);
    start->detached = true;
    return 0;
}

/* ---- Mutexes ----------------------------------------------------------------------------------- */

static void lock(pthread_mutex_t *mutex, const void *pc) {
    scale_access(mutex, sizeof(int), ACCESS_UPDATE, pc);
    while (pthread_mutex_trylock(mutex) != 0) {
        sites_of(pc)->failed++;
        sched_block(mutex, 0, pc);
        scale_access(mutex, sizeof(int), ACCESS_UPDATE, pc);
    }
    sites_of(pc)->locks++;
}

int scale_pthread_mutex_lock(pthread_mutex_t *mutex) {
    if (!sched_self) return pthread_mutex_lock(mutex);
    lock(mutex, PC);
    return 0;
}

int scale_pthread_mutex_trylock(pthread_mutex_t *mutex) {
    if (!sched_self) return pthread_mutex_trylock(mutex);
    scale_access(mutex, sizeof(int), ACCESS_UPDATE, PC);
    int status = pthread_mutex_trylock(mutex);
    if (status == 0)
        sites_of(PC)->locks++;
    else
        sites_of(PC)->failed++;
    return status;
}

static int unlock(pthread_mutex_t *mutex, const void *pc) {
    scale_access(mutex, sizeof(int), ACCESS_UPDATE, pc);
    int status = pthread_mutex_unlock(mutex);
    sched_wake(mutex, 1, false);
    return status;
}

int scale_pthread_mutex_unlock(pthread_mutex_t *mutex) {
    return sched_self ? unlock(mutex, PC) : pthread_mutex_unlock(mutex);
}

/* ---- Conditions -------------------------------------------------------------------------------- */

static bool wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t ns, const void *pc) {
    scale_access(cond, sizeof(int), ACCESS_UPDATE, pc);
    sched_hold();
    unlock(mutex, pc);
    bool woken = sched_block(cond, ns, NULL);
    sched_unhold();
    lock(mutex, pc);
    return woken;
}

int scale_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    if (!sched_self) return pthread_cond_wait(cond, mutex);
    wait_for(cond, mutex, 0, PC);
    return 0;
}

int scale_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                 const struct timespec *end) {
    struct timespec now;
    if (!sched_self) return pthread_cond_timedwait(cond, mutex, end);
    scale_clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t left = (end->tv_sec - now.tv_sec) * 1000000000 + (end->tv_nsec - now.tv_nsec);
    return wait_for(cond, mutex, left > 0 ? (uint64_t)left : 1, PC) ? 0 : ETIMEDOUT;
}

static int wake(pthread_cond_t *cond, unsigned most, const void *pc) {
    scale_access(cond, sizeof(int), ACCESS_UPDATE, pc);
    sched_wake(cond, most, false);
    return 0;
}

int scale_pthread_cond_signal(pthread_cond_t *cond) {
    return sched_self ? wake(cond, 1, PC) : pthread_cond_signal(cond);
}
int scale_pthread_cond_broadcast(pthread_cond_t *cond) {
    return sched_self ? wake(cond, UINT_MAX, PC) : pthread_cond_broadcast(cond);
}

/* ---- Once: nothing may come between ------------------------------------------------------------ */

int scale_pthread_once(pthread_once_t *once, void (*run)(void)) {
    if (!sched_self) return pthread_once(once, run);
    scale_access(once, sizeof *once, ACCESS_READ, PC);
    sched_hold();
    int status = pthread_once(once, run);
    sched_unhold();
    return status;
}

/* The first byte says that the object is there, as the C++ ABI has it. */
int scale___cxa_guard_acquire(uint64_t *guard) {
    if (*(char *)guard) return 0;
    if (sched_self) sched_hold();
    return 1;
}
void scale___cxa_guard_release(uint64_t *guard) {
    *(char *)guard = 1;
    if (sched_self) sched_unhold();
}
void scale___cxa_guard_abort(uint64_t *guard) {
    (void)guard;
    if (sched_self) sched_unhold();
}
