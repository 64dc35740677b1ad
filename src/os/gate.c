/* gate.c: entering and leaving, and the fork that waits for the threads inside; the protocol is in
 * gate.h. */
#include "os/gate.h"

#include "os/cpu.h"
#include "os/os.h"

enum {
    SPIN_COUNT = 1000,
    INTERRUPTED_MS = 1000, /* longest wait of a fork that interrupts its thread inside, or a fork */
    ROUND_MS = 100,        /* first round of any other fork; each further one is twice as long */
    PAUSE_PART = 100,      /* part of a round that the pause after it takes */
    STORED_MS = 2,         /* long enough for unfenced stores to become visible */
    CLOSED = 1,
    FENCED = 2,
    CROWDS = 256,
    FIRST_CROWDS = 8, /* crowds of a small machine, on a page that is in memory anyway */
    CROWD_WORDS = CROWDS / 64,
    COUNT_BITS = 22, /* of a crowd's count: the kernel allows no more threads */
    ONE_FORK = 1 << COUNT_BITS,
    COUNT_MASK = ONE_FORK - 1,
};

__thread hak_gate_thread_t hak_gate_thread;

/* Read at each first enter; written by forks only. */
typedef struct {
    _Atomic uintptr_t state;     /* FENCED; when closed, also CLOSED and the address of the forking
                                thread. One word: with two, a signal handler of that thread between
                                the two stores would wait for itself */
    _Atomic uint32_t generation; /* forks between the first process and this one */
    _Atomic uint64_t crowds[CROWD_WORDS]; /* a bit for each that ever had a thread */
} HAK_ALIGNED(HAK_LINE) hak_gate_t;

static hak_gate_t hak_gate = {.state = FENCED};

static _Atomic(hak_gate_post_t *) hak_gate_posts
    HAK_OWN_LINE; /* atomic; written where a cache is made */

typedef struct {
    hak_gate_post_t post;
} HAK_ALIGNED(HAK_LINE) crowd_t;

static crowd_t first_crowds[FIRST_CROWDS] HAK_OWN_LINE;
static crowd_t other_crowds[CROWDS - FIRST_CROWDS] HAK_APART;

static hak_gate_post_t *crowd_at(unsigned number) {
    return number < FIRST_CROWDS ? &first_crowds[number].post
                                 : &other_crowds[number - FIRST_CROWDS].post;
}

HAK_FAST_PATH hak_gate_post_t *crowd_of(unsigned cpu) {
    const unsigned number = cpu % CROWDS;
    _Atomic uint64_t *word = &hak_gate.crowds[number / 64];
    const uint64_t bit = (uint64_t)1 << number % 64;
    if (HAK_UNLIKELY(!(atomic_load(word) & bit)))
        (void)atomic_fetch_or(word, bit); /* partner: close */
    return crowd_at(number);
}

/* The thread's own post, or that of its CPU's crowd. A single-threaded process does not call libc
 * for the CPU, since that code of libc may not be in memory yet. */
static hak_gate_post_t *this_post(void) {
    hak_gate_post_t *own = hak_gate_thread.post;
    return own ? own : crowd_of(hak_os_is_single_threaded() ? 0 : hak_os_this_cpu());
}

/* Called for the caller's own post or a crowd's: another post with NOBODY may be a free one. */
HAK_FAST_PATH bool is_crowd(const hak_gate_post_t *post) {
    return hak_load_relaxed(&post->process) == HAK_GATE_NOBODY;
}

uint32_t hak_gate_process(void) { return hak_load_relaxed(&hak_gate.generation) + 1; }

HAK_FAST_PATH bool is_closed(void) {
    return HAK_UNLIKELY(atomic_load(&hak_gate.state) & CLOSED); /* partner: close */
}

static bool is_of(uintptr_t state, uintptr_t thread) {
    return state & CLOSED && (state & ~(uintptr_t)(CLOSED | FENCED)) == thread;
}

bool hak_gate_is_mine(void) {
    uintptr_t state = hak_load_relaxed(&hak_gate.state);
    return state & CLOSED && is_of(state, hak_os_thread());
}

bool hak_gate_is_awaited(void) { return is_closed() && !hak_gate_is_mine(); }

/* ---- Enter and leave ------------------------------------------------------------------------- */

/* Subtracts the thread from a crowd's count. `seen`: the crowd's word while the thread was counted
 * there. In the child of a later fork the count is without the thread, and stays as it is. */
static void uncount(hak_gate_post_t *crowd, uint32_t seen) {
    uint32_t now = hak_load_relaxed(&crowd->inside);
    while (now >> COUNT_BITS == seen >> COUNT_BITS &&
           !atomic_compare_exchange_weak_explicit(&crowd->inside, &now, now - 1,
                                                  memory_order_release, /* partner: close */
                                                  memory_order_relaxed))
        continue;
}

HAK_FAST_PATH void unnote_at(hak_gate_post_t *post) {
    if (HAK_LIKELY(!is_crowd(post))) {
        hak_store_relaxed(&hak_gate_thread.noted_at, NULL);
        hak_store_release(&post->inside, 0); /* partner: close */
        return;
    }
    hak_gate_thread.leaving++; /* a handler that forks must not wait for this thread for ever */
    atomic_signal_fence(memory_order_seq_cst);
    const uint32_t seen = hak_load_relaxed(&post->inside);
    hak_gate_post_t *noted = hak_load_relaxed(&hak_gate_thread.noted_at);
    while (noted && !hak_cas_own(&hak_gate_thread.noted_at, &noted, NULL)) continue;
    if (noted) uncount(post, seen);
    atomic_signal_fence(memory_order_seq_cst);
    hak_gate_thread.leaving--;
}

/* The low half of the state, with its flags. */
static _Atomic uint32_t *futex(void) { return (_Atomic uint32_t *)(void *)&hak_gate.state; }

static HAK_SLOW_PATH void wait_until_open(void) {
    for (uintptr_t now; (now = hak_load_relaxed(&hak_gate.state)) & CLOSED;)
        hak_os_futex_wait(futex(), (uint32_t)now);
}

/* Waits as a thread outside, with a depth of 0, so that a signal handler that enters and leaves
 * meanwhile removes its note. With the depth of the waiting call it would keep the note, and the
 * next fork would wait for this thread, which waits for the fork. */
static HAK_BEHIND void wait_outside(hak_gate_post_t *post) {
    const uint32_t depth = hak_gate_thread.depth;
    hak_gate_thread.depth = 0;
    atomic_signal_fence(memory_order_seq_cst);
    hak_gate_post_t *noted = hak_load_relaxed(&hak_gate_thread.noted_at);
    if (noted) post = noted;
    if (post) unnote_at(post);
    wait_until_open();
    atomic_signal_fence(memory_order_seq_cst);
    hak_gate_thread.depth = depth;
}

HAK_FAST_PATH bool may_pass(void) { return HAK_LIKELY(!is_closed()) || hak_gate_is_mine(); }

/* The thread may be noted already, perhaps at another crowd: by a signal handler, or by the code
 * that the handler interrupted. */
HAK_FAST_PATH bool enter_crowd(hak_gate_post_t *crowd, bool waits) {
    for (;;) {
        for (; !may_pass(); wait_outside(NULL)) /* see hak_gate_reset */
            if (!waits) return false;
        hak_gate_post_t *none = NULL;
        const uint32_t seen = atomic_fetch_add(&crowd->inside, 1); /* partner: close */
        const bool passes = may_pass();
        if (!passes || !hak_cas_own(&hak_gate_thread.noted_at, &none, crowd)) uncount(crowd, seen);
        if (passes) return true;
    }
}

static HAK_SLOW_PATH bool enter(hak_gate_post_t *post, bool waits) {
    if (is_crowd(post)) return enter_crowd(post, waits);
    for (;; wait_outside(post)) {
        (void)atomic_exchange(&post->inside, 1); /* partner: close */
        if (may_pass()) break;
        if (!waits) {
            unnote_at(post);
            return false;
        }
    }
    hak_store_relaxed(&hak_gate_thread.noted_at, post);
    return true;
}

/* True when the thread is inside. False when the slow form is needed: the thread is in a crowd, or
 * the gate is FENCED or closed. */
HAK_FAST_PATH bool note_quickly(void) {
    hak_gate_post_t *post = hak_gate_thread.post;
    if (HAK_UNLIKELY(!post)) return false;
    hak_store_relaxed(&post->inside, 1); /* partner: close */
    atomic_signal_fence(memory_order_seq_cst);
    if (HAK_UNLIKELY(hak_load_acquire(&hak_gate.state))) return false; /* partner: close, open */
    hak_store_relaxed(&hak_gate_thread.noted_at, post);
    return true;
}

HAK_OUT_OF_LINE void hak_gate_note(void) {
    if (HAK_UNLIKELY(!note_quickly())) enter(this_post(), true);
}

HAK_BEHIND void hak_gate_enter_on(unsigned cpu) {
    hak_gate_thread.depth++;
    if (hak_load_relaxed(&hak_gate_thread.noted_at) || note_quickly()) return;
    hak_gate_post_t *own = hak_gate_thread.post;
    if (HAK_UNLIKELY(own != NULL))
        enter(own, true);
    else
        enter_crowd(crowd_of(cpu), true);
}

HAK_OUT_OF_LINE void hak_gate_unnote(void) {
    hak_gate_post_t *post = hak_load_relaxed(&hak_gate_thread.noted_at);
    if (HAK_LIKELY(post != NULL)) unnote_at(post);
}

bool hak_gate_try_enter(void) {
    hak_gate_thread.depth++;
    if (hak_load_relaxed(&hak_gate_thread.noted_at) || note_quickly() || enter(this_post(), false))
        return true;
    hak_gate_leave(); /* a signal handler may have noted the thread meanwhile */
    return false;
}

/* ---- Posts ----------------------------------------------------------------------------------- */

void hak_gate_list(hak_gate_post_t *post) {
    hak_gate_post_t *old = hak_load_relaxed(&hak_gate_posts);
    do {
        post->next = old;
    } while (!atomic_compare_exchange_weak(&hak_gate_posts, &old, post)); /* partner: close */
}

HAK_BEHIND bool hak_gate_is_listed(const hak_gate_post_t *post) {
    const hak_gate_post_t *at = hak_load_acquire(&hak_gate_posts); /* partner: hak_gate_list */
    while (at && at != post) at = at->next;
    return at;
}

void hak_gate_take(hak_gate_post_t *post) {
    hak_store_relaxed(&post->inside, 0);
    hak_store_release(&post->process, hak_gate_process()); /* partner: hak_gate_is_lost */
}

void hak_gate_release(hak_gate_post_t *post) { hak_store_relaxed(&post->process, HAK_GATE_NOBODY); }

void hak_gate_use(hak_gate_post_t *post) { hak_gate_thread.post = post; }

bool hak_gate_is_lost(const hak_gate_post_t *post) {
    uint32_t process = hak_load_acquire(&post->process); /* partner: hak_gate_take */
    return process != HAK_GATE_NOBODY && process != hak_gate_process();
}

/* ---- Forks ----------------------------------------------------------------------------------- */

void hak_gate_prepare(void) {
    if (hak_os_register_barrier())
        atomic_fetch_and_explicit(&hak_gate.state, ~(uintptr_t)FENCED, memory_order_relaxed);
}

/* After it, each thread that entered without a fence has seen CLOSED, or its store is visible. */
static void fence_all(void) {
    if (hak_load_relaxed(&hak_gate.state) & FENCED || hak_os_barrier()) return;
    (void)atomic_fetch_or(&hak_gate.state, FENCED);
    hak_os_sleep_ms(STORED_MS);
}

bool hak_gate_is_inside(void) {
    return hak_load_relaxed(&hak_gate_thread.noted_at) || hak_gate_thread.depth ||
           hak_gate_thread.leaving;
}

static void set_asks(bool asks) {
    atomic_signal_fence(memory_order_seq_cst);
    hak_gate_thread.asks = asks;
    atomic_signal_fence(memory_order_seq_cst);
}

HAK_BEHIND bool hak_gate_begin_question(void) {
    if (hak_gate_is_inside() || hak_gate_thread.asks) return false;
    set_asks(true);
    return true;
}

HAK_BEHIND void hak_gate_end_question(void) { set_asks(false); }

/* Sets CLOSED; false when it was set. */
static HAK_BEHIND bool shut(void) {
    uintptr_t self = hak_os_thread(), state = hak_load_relaxed(&hak_gate.state);
    do {
        if (state & CLOSED) return false;
    } while (!atomic_compare_exchange_strong(&hak_gate.state, &state, state | CLOSED | self));
    fence_all(); /* partner: enter */
    return true;
}

/* True when the thread has closed the gate already, and a signal handler interrupted it. */
static bool nest(void) {
    if (!hak_gate_is_mine()) return false;
    hak_gate_thread.nested++;
    if (!hak_os_barrier()) hak_os_sleep_ms(STORED_MS); /* the interrupted close may not be so far */
    return true;
}

/* Waits until a post's count is `rest`; false when `*tries` sleeps of a millisecond were too few.
 * The wait also ends in the child of a fork that interrupted it, where no other thread is. */
static HAK_BEHIND bool await(const hak_gate_post_t *post, uint32_t rest, uint64_t *tries) {
    for (unsigned i = 0; (atomic_load(&post->inside) & COUNT_MASK) != rest;
         i++) { /* partner: leave; enter of a crowd */
        if (i < SPIN_COUNT) {
            hak_cpu_relax();
        } else {
            if (*tries == 0) return false;
            --*tries;
            hak_os_sleep_ms(1);
            if (!hak_gate_is_mine()) break;
        }
    }
    return true;
}

/* Waits for the crowds of one word of bits. */
static bool await_crowds(unsigned word, const hak_gate_post_t *noted, uint64_t *tries) {
    bool all = true;
    for (uint64_t bits = atomic_load(&hak_gate.crowds[word]); bits;
         bits &= bits - 1) { /* partner: enter */
        const hak_gate_post_t *post = crowd_at(word * 64 + hak_lowest_bit(bits));
        all &= await(post, post == noted, tries);
    }
    return all;
}

/* True when all other threads are outside. If a post joins the list later, its thread stores to it
 * later still, and then reads CLOSED. */
HAK_NEXT static bool await_others(uint64_t tries) {
    const hak_gate_post_t *noted = hak_load_relaxed(&hak_gate_thread.noted_at);
    const hak_gate_post_t *post;
    bool all = true;
    for (unsigned word = 0; word < CROWD_WORDS; word++) all &= await_crowds(word, noted, &tries);
    for (post = atomic_load(&hak_gate_posts); post; post = post->next)
        if (post != hak_gate_thread.post && !hak_gate_is_lost(post))
            all &= await(post, false, &tries);
    return all;
}

/* Closes for a round, with the caller's lock; true when the thread had closed already. Nobody waits at the gate with
 * that lock: a handler that interrupts the thread which has closed it may fork, and wants the lock. */
static bool shut_with(void (*lock)(void), void (*unlock)(void)) {
    for (;; wait_until_open()) {
        if (lock) lock();
        if (nest()) return true;
        if (shut()) return false;
        if (unlock) unlock();
    }
}

/* One round of a close. A fork that interrupts its own thread inside, or in a fork, has one round
 * only. */
static bool await_once(uint64_t ms, bool nested) {
    const bool interrupts = nested || hak_gate_is_inside();
    if (await_others(interrupts ? INTERRUPTED_MS : ms) || interrupts) return true;
    hak_gate_open();
    return false;
}

HAK_BEHIND bool hak_gate_close(void (*lock)(void), void (*unlock)(void)) {
    for (uint64_t ms = ROUND_MS;; ms *= 2) {
        const bool nested = shut_with(lock, unlock);
        if (await_once(ms, nested)) return hak_gate_is_mine();
        if (unlock) unlock();
        hak_os_sleep_ms((unsigned)(ms / PAUSE_PART));
    }
}

HAK_BEHIND bool hak_gate_close_within(unsigned ms) {
    if (hak_gate_is_inside()) return false;
    for (; !nest() && !shut(); ms--) {
        if (ms == 0) return false;
        hak_os_sleep_ms(1);
    }
    if (await_others(ms)) return true;
    hak_gate_open();
    return false;
}

void hak_gate_open(void) {
    if (hak_gate_thread.nested) {
        hak_gate_thread.nested--;
        return;
    }
    atomic_fetch_and_explicit(&hak_gate.state, FENCED, memory_order_release);
    hak_os_futex_wake(futex(), true);
}

void hak_gate_open_mine(void) {
    if (HAK_LIKELY(hak_gate_is_mine())) hak_gate_open();
}

/* Ends a step into a crowd, or out of one, that the fork's signal handler has interrupted, as a
 * handler would that enters and leaves: on its way in the thread is noted, on its way out it is not.
 * The interrupted code finds that. Returns where the thread is noted. */
static hak_gate_post_t *end_step(void) {
    hak_gate_post_t *noted = hak_load_relaxed(&hak_gate_thread.noted_at);
    if (hak_gate_thread.post) return noted;
    if (!noted && hak_gate_thread.depth) noted = crowd_of(0);
    if (hak_gate_thread.leaving && !hak_gate_thread.depth) noted = NULL;
    hak_store_relaxed(&hak_gate_thread.noted_at, noted);
    return noted;
}

/* If the fork came from a signal handler that interrupted enter or leave, the thread counts as
 * inside until it has left. A thread that another library's fork handler has started in the child
 * still finds the gate closed, so it counts nowhere yet. */
HAK_BEHIND void hak_gate_reset(void) {
    hak_gate_post_t *own = hak_gate_thread.post;
    const hak_gate_post_t *noted = end_step();
    hak_store_relaxed(&hak_gate.generation, hak_load_relaxed(&hak_gate.generation) + 1);
    hak_gate_thread.nested = 0;
    if (own) hak_gate_take(own);
    if (own && (noted == own || (!noted && hak_gate_thread.depth)))
        hak_store_relaxed(&own->inside, 1);
    for (unsigned word = 0; word < CROWD_WORDS; word++) {
        for (uint64_t bits = hak_load_relaxed(&hak_gate.crowds[word]); bits; bits &= bits - 1) {
            hak_gate_post_t *post = crowd_at(word * 64 + hak_lowest_bit(bits));
            const uint32_t forks = (hak_load_relaxed(&post->inside) | COUNT_MASK) + 1;
            hak_store_relaxed(&post->inside, forks + (noted == post));
        }
    }
}
