/* sched.c: the baton, the CPUs' queues and the sleepers. */
#include "sched.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lines.h"
#include "machine.h"
#include "sites.h"

enum { BUCKETS = 4096, THREADS_MOST = 1 << 17 };

typedef enum { READY, RUNNING, ASLEEP, DONE } state_t;

struct thread {
    uint32_t has_baton; /* the word that its real thread sleeps on */
    unsigned id, cpu;
    state_t state;
    bool timed_out;
    unsigned holds;
    const void *key;
    uint64_t wake_at;          /* 0: no limit */
    uint64_t slice_end;        /* of its CPU's clock */
    struct thread *next;       /* in its CPU's queue, or among the sleepers of a bucket */
    struct thread *timed_next; /* among the sleepers with a limit */
    char done_key;
};

typedef struct {
    thread_t *running, *first, *last;
} cpu_t;

sched_options_t sched_options;
_Thread_local thread_t *sched_self;

static cpu_t cpus[CPUS_MOST];
static struct {
    thread_t *first, *last;
} buckets[BUCKETS];
static thread_t *timed;
static thread_t *threads;
static unsigned thread_count;
static uint64_t limit; /* the runner's clock, when the baton goes on */
static uint64_t random_state;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t *clock_of(const thread_t *thread) { return &machine_clock[thread->cpu]; }

/* ---- Queues ------------------------------------------------------------------------------------ */

static void enqueue(thread_t *thread) {
    cpu_t *cpu = &cpus[thread->cpu];
    thread->state = READY;
    thread->next = NULL;
    if (cpu->last)
        cpu->last->next = thread;
    else
        cpu->first = thread;
    cpu->last = thread;
}

static bool is_idle(unsigned cpu) { return !cpus[cpu].running && !cpus[cpu].first; }

static void dispatch(cpu_t *cpu) {
    thread_t *thread = cpu->first;
    if (!thread) return;
    cpu->first = thread->next;
    if (!cpu->first) cpu->last = NULL;
    cpu->running = thread;
    thread->state = RUNNING;
    thread->slice_end = *clock_of(thread) + sched_options.slice_ns;
}

/* A thread goes on where it ran, or on the next idle CPU if that one is busy. */
static void place(thread_t *thread, uint64_t at, bool stay) {
    const unsigned home = thread->cpu;
    for (unsigned i = 0; !stay && !is_idle(thread->cpu) && i < machine_options.cpus; i++)
        if (is_idle((home + i) % machine_options.cpus))
            thread->cpu = (home + i) % machine_options.cpus;
    if (is_idle(thread->cpu) && *clock_of(thread) < at) *clock_of(thread) = at;
    enqueue(thread);
}

static unsigned bucket_of(const void *key) {
    return (unsigned)(((uintptr_t)key * 0x9E3779B97F4A7C15u) >> 52);
}

static void unlist_timed(thread_t *thread) {
    for (thread_t **at = &timed; *at; at = &(*at)->timed_next) {
        if (*at != thread) continue;
        *at = thread->timed_next;
        return;
    }
}

/* Takes the thread behind `before` (NULL: the first one) off the sleepers of its bucket. */
static void unlist(unsigned bucket, thread_t *thread, thread_t *before) {
    if (before)
        before->next = thread->next;
    else
        buckets[bucket].first = thread->next;
    if (buckets[bucket].last == thread) buckets[bucket].last = before;
    if (thread->wake_at) unlist_timed(thread);
}

unsigned sched_wake(const void *key, unsigned most, bool stay) {
    const unsigned bucket = bucket_of(key);
    unsigned count = 0;
    thread_t *before = NULL, *next;
    for (thread_t *thread = buckets[bucket].first; thread && count < most; thread = next) {
        next = thread->next;
        if (thread->key != key) {
            before = thread;
            continue;
        }
        unlist(bucket, thread, before);
        place(thread, sched_self ? sched_now() : 0, stay);
        count++;
    }
    if (count) limit = 0; /* another CPU may be the earliest now */
    return count;
}

static void time_out(thread_t *thread) {
    const unsigned bucket = bucket_of(thread->key);
    thread_t *before = NULL;
    for (thread_t *at = buckets[bucket].first; at != thread; at = at->next) before = at;
    uint64_t at = thread->wake_at;
    unlist(bucket, thread, before);
    thread->timed_out = true;
    place(thread, at, false);
}

/* ---- The choice of the next thread ------------------------------------------------------------- */

static thread_t *earliest_sleeper(void) {
    thread_t *found = NULL;
    for (thread_t *thread = timed; thread; thread = thread->timed_next)
        if (!found || thread->wake_at < found->wake_at) found = thread;
    return found;
}

/* The busy CPU with the least clock, and the next one's clock; CPUS_MOST when all are idle. */
static unsigned earliest(uint64_t *second) {
    unsigned best = CPUS_MOST;
    uint64_t least = UINT64_MAX;
    *second = UINT64_MAX;
    for (unsigned i = 0; i < machine_options.cpus; i++) {
        if (is_idle(i)) continue;
        uint64_t at = machine_clock[i];
        if (at < least) {
            *second = least;
            least = at;
            best = i;
        } else if (at < *second) {
            *second = at;
        }
    }
    return best;
}

static thread_t *choose(void) {
    uint64_t second;
    for (;;) {
        unsigned best = earliest(&second);
        thread_t *sleeper = earliest_sleeper();
        if (sleeper && (best == CPUS_MOST || sleeper->wake_at <= machine_clock[best])) {
            time_out(sleeper);
            continue;
        }
        if (best == CPUS_MOST) {
            fputs("scale: deadlock: every thread waits\n", stderr);
            _Exit(4);
        }
        if (sleeper && sleeper->wake_at < second) second = sleeper->wake_at;
        if (!cpus[best].running) dispatch(&cpus[best]);
        uint64_t quantum = sched_options.quantum_ns;
        quantum = quantum / 2 + next_random() % (quantum + 1);
        limit = second > UINT64_MAX - quantum ? UINT64_MAX : second + quantum;
        if (cpus[best].first && cpus[best].running->slice_end < limit)
            limit = cpus[best].running->slice_end;
        return cpus[best].running;
    }
}

/* ---- The baton --------------------------------------------------------------------------------- */

static void give(thread_t *thread) {
    __atomic_store_n(&thread->has_baton, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &thread->has_baton, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void await(thread_t *thread) {
    while (!__atomic_load_n(&thread->has_baton, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &thread->has_baton, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    thread->has_baton = 0;
}

static void switch_threads(void) {
    thread_t *self = sched_self, *next = choose();
    if (next == self) return;
    give(next);
    if (self->state != DONE) await(self);
}

static void leave_cpu(void) {
    cpus[sched_self->cpu].running = NULL;
    dispatch(&cpus[sched_self->cpu]);
}

void sched_tick(void) {
    thread_t *self = sched_self;
    if (*clock_of(self) < limit || self->holds) return;
    if (*clock_of(self) >= self->slice_end && cpus[self->cpu].first) {
        enqueue(self);
        leave_cpu();
    }
    switch_threads();
}

void sched_yield_cpu(void) {
    enum { CALL_NS = 200 };
    sched_pass(CALL_NS);
    if (cpus[sched_self->cpu].first && !sched_self->holds) {
        enqueue(sched_self);
        leave_cpu();
        switch_threads();
    } else {
        sched_tick();
    }
}

bool sched_block(const void *key, uint64_t limit_ns, const void *pc) {
    thread_t *self = sched_self;
    const uint64_t begun = sched_now();
    const unsigned bucket = bucket_of(key), holds = self->holds;
    self->key = key;
    self->state = ASLEEP;
    self->timed_out = false;
    self->next = NULL;
    self->wake_at = limit_ns ? begun + limit_ns : 0;
    if (buckets[bucket].last)
        buckets[bucket].last->next = self;
    else
        buckets[bucket].first = self;
    buckets[bucket].last = self;
    if (limit_ns) {
        self->timed_next = timed;
        timed = self;
    }
    self->holds = 0;
    leave_cpu();
    switch_threads();
    self->holds = holds;
    if (pc) {
        site_t *site = sites_of(pc);
        site->blocks++;
        if (sched_now() > begun) site->wait_ns += sched_now() - begun;
    }
    return !self->timed_out;
}

void sched_hold(void) { sched_self->holds++; }
void sched_unhold(void) { sched_self->holds--; }
void sched_pass(uint64_t ns) { *clock_of(sched_self) += ns; }
uint64_t sched_now(void) { return *clock_of(sched_self); }
unsigned sched_cpu(void) { return sched_self->cpu; }
unsigned sched_id(void) { return sched_self->id; }

void sched_align(void) {
    uint64_t latest = 0;
    for (unsigned i = 0; i < machine_options.cpus; i++)
        if (machine_clock[i] > latest) latest = machine_clock[i];
    for (unsigned i = 0; i < machine_options.cpus; i++) machine_clock[i] = latest;
}

/* ---- Threads ----------------------------------------------------------------------------------- */

static thread_t *make(unsigned cpu) {
    if (thread_count == THREADS_MOST) {
        fputs("scale: too many threads\n", stderr);
        _Exit(3);
    }
    if (!threads) threads = scale_map(sizeof *threads * THREADS_MOST);
    thread_t *thread = &threads[thread_count];
    thread->id = thread_count++;
    thread->cpu = cpu % machine_options.cpus;
    return thread;
}

void sched_start(void) {
    random_state = sched_options.seed * 0x9E3779B97F4A7C15u | 1;
    thread_t *self = make(0);
    enqueue(self);
    dispatch(&cpus[0]);
    sched_self = self;
}

thread_t *sched_make(unsigned cpu) {
    thread_t *thread = make(cpu);
    thread->state = ASLEEP;
    return thread;
}

void sched_begin(thread_t *thread) {
    place(thread, sched_now(), true);
    limit = 0;
}

void sched_enter(thread_t *thread) {
    await(thread);
    sched_self = thread;
}

void sched_leave(void) {
    thread_t *self = sched_self;
    self->state = DONE;
    sched_wake(&self->done_key, UINT32_MAX, false);
    leave_cpu();
    thread_t *next = choose();
    sched_self = NULL;
    give(next);
}

bool sched_is_done(const thread_t *thread) { return thread->state == DONE; }
void *sched_done_key(thread_t *thread) { return &thread->done_key; }
