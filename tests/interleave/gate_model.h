/* gate_model.h: what gate.c explores on: the posts and crowds of threads, the system's calls that the gate
 * makes, and signal handlers that interrupt them. It stands behind the sources, whose words it looks at. */
#pragma once

enum { POSTS = 3, TESTED_CROWDS = 3, TESTED_WORD = 64 };
static const unsigned tested[TESTED_CROWDS] = {0, 1, TESTED_WORD}; /* CPUs */

static struct {
    hak_gate_post_t post;
} posts[POSTS] __attribute__((aligned(64)));

/* Of each thread: inside it writes to one, then to the other; in between a fork must not look. */
static struct {
    char first, second;
} shared[EXPLORE_THREADS_MAX] __attribute__((aligned(64)));

static struct {
    _Atomic unsigned is_so;
} in_child __attribute__((aligned(64)));

static struct {
    _Atomic unsigned holder;
} streams __attribute__((aligned(64)));
static bool first_waits_for_streams;

static unsigned forkers; /* between close and open */

uintptr_t hak_os_thread(void) { return (explore_thread() + 1) * 64; }

static bool gives_up; /* a round of a close ends when the first thread waits for the fork */

static bool alone; /* a fork may wait in vain for the step that its signal handler interrupted */

/* With that: the second thread, from before it enters until it has left. */
static bool second_is_in;

bool hak_os_is_single_threaded(void) { return false; }

/* Threads move from CPU to CPU, each of which has its own crowd: the bits that change; 0: they stay. */
static unsigned moving;
static unsigned cpu[EXPLORE_THREADS_MAX]; /* the running thread's */
unsigned hak_os_this_cpu(void) {
    cpu[explore_thread()] ^= moving;
    return cpu[explore_thread()];
}

/* The system's barrier; refused for good, or only at forks. */
static bool has_barrier;

/* What a signal handler does that interrupts the next close, at one of its calls of the system; with
 * `in_sleep` only at the first sleep, and certainly. */
static void (*handler)(void);
static bool in_sleep;

/* True when the handler came. */
static bool interrupted(void) {
    void (*run)(void) = handler;
    if (!run || (!in_sleep && explore_choose(2))) return false;
    handler = NULL;
    run();
    return true;
}

/* The same at any access of the first thread to the gate's words. */
static void interrupt_anywhere(void) {
    if (explore_thread() == 1) interrupted();
}

__attribute__((no_sanitize_thread)) static void interrupt_while_closed(void) {
    if (hak_gate.state & CLOSED) interrupt_anywhere();
}

bool hak_os_register_barrier(void) { return true; }

bool hak_os_barrier(void) {
    if (!in_sleep) interrupted();
    if (has_barrier) memory_fence_all();
    return has_barrier;
}

/* No steps of the explorer: its own look at the state. */
__attribute__((no_sanitize_thread)) static uint32_t noted(void) {
    uint32_t sum = 0;
    for (unsigned i = 0; i < TESTED_CROWDS; i++) sum += crowd_at(tested[i])->inside & COUNT_MASK;
    for (unsigned i = 0; i < POSTS; i++) sum += posts[i].post.inside;
    return sum;
}

__attribute__((no_sanitize_thread)) static bool has_fewer_noted(const void *before) {
    return noted() < *(const uint32_t *)before;
}

/* It does not leave before the fork lets go of the gate, or of the lock of the streams. */
__attribute__((no_sanitize_thread)) static bool is_stuck_or_left(const void *before) {
    return has_fewer_noted(before) || futex_is_asleep(1) ||
           (streams.holder && first_waits_for_streams);
}

__attribute__((no_sanitize_thread)) static bool is_second_out(const void *unused) {
    (void)unused;
    return !second_is_in || futex_is_asleep(2);
}

/* Only a fork that waits for somebody to leave sleeps. */
bool hak_os_sleep_ms(unsigned ms) {
    uint32_t before = noted();
    bool handled = interrupted();
    if (ms == STORED_MS) {
        memory_fence_all();
        return true;
    }
    if (gives_up && ms) {
        explore_await(is_stuck_or_left, &before);
        return true;
    }
    if (!before || handled) return true;
    if (!alone)
        explore_await(has_fewer_noted, &before);
    else if (!is_second_out(NULL))
        explore_await(is_second_out, NULL);
    return true;
}
