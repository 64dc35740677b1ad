/* gate.c: who is inside, and the fork that waits for them; the protocol is in gate.h. */
#include "os/gate.h"

#include "os/os.h"

enum {
    SPIN_COUNT = 1000,
    INTERRUPTED_MS = 1000, /* that a fork waits whose thread is inside itself */
    CLOSED = 1,
};

/* glibc's word for "no second thread": then nobody can close, and a plain store will do. */
extern char __libc_single_threaded __attribute__((weak));

__thread hak_gate_thread_t hak_gate_thread;

/* Read at each first enter; written by forks, and where a cache is made. */
static struct {
    _Atomic uint32_t state;      /* CLOSED or 0 */
    _Atomic uint32_t generation; /* forks between the first process and this one */
    _Atomic uintptr_t closer;    /* the thread that forks; others compare it with themselves */
    _Atomic(hak_gate_post_t *) posts;
} gate HAK_ALIGNED(HAK_LINE);

static hak_gate_post_t crowd HAK_ALIGNED(HAK_LINE);

static uint32_t process_now(void) { return hak_load_relaxed(&gate.generation) + 1; }

static bool is_alone(void) { return &__libc_single_threaded && __libc_single_threaded; }

static bool is_closed(void) {
    return HAK_UNLIKELY(atomic_load(&gate.state) & CLOSED); /* partner: close */
}

bool hak_gate_is_mine(void) {
    uintptr_t closer = hak_load_relaxed(&gate.closer);
    return closer != 0 && closer == hak_os_thread();
}

bool hak_gate_is_awaited(void) { return is_closed() && !hak_gate_is_mine(); }

/* ---- Enter and leave ------------------------------------------------------------------------- */

/* False when a signal handler of this thread, or what it interrupted, has done it. Between the
 * two steps of the crowd a handler's work is not counted; the other order could count twice. */
static bool note_at(hak_gate_post_t *post) {
    if (post != &crowd) {
        if (is_alone())
            hak_store_relaxed(&post->inside, 1);
        else
            (void)atomic_exchange(&post->inside, 1); /* partner: close */
    } else {
        if (atomic_exchange_explicit(&hak_gate_thread.noted_at, post, memory_order_relaxed))
            return false;
        (void)atomic_fetch_add(&crowd.inside, 1); /* partner: close */
    }
    return true;
}

static void unnote_at(hak_gate_post_t *post) {
    if (post != &crowd) {
        hak_store_relaxed(&hak_gate_thread.noted_at, NULL);
        hak_store_release(&post->inside, 0); /* partner: close */
    } else if (atomic_exchange_explicit(&hak_gate_thread.noted_at, NULL, memory_order_relaxed)) {
        atomic_fetch_sub_explicit(&crowd.inside, 1, memory_order_release); /* partner: close */
    }
}

static HAK_SLOW_PATH void wait_until_open(void) {
    while (hak_load_relaxed(&gate.state) & CLOSED) hak_os_futex_wait(&gate.state, CLOSED);
}

static bool enter(bool waits) {
    hak_gate_post_t *post = hak_gate_thread.post ? hak_gate_thread.post : &crowd;
    while (note_at(post)) {
        if (HAK_LIKELY(!is_closed()) || hak_gate_is_mine()) break;
        unnote_at(post);
        if (!waits) return false;
        wait_until_open();
    }
    hak_store_relaxed(&hak_gate_thread.noted_at, post);
    return true;
}

HAK_OUT_OF_LINE void hak_gate_note(void) { enter(true); }

HAK_OUT_OF_LINE void hak_gate_unnote(void) {
    hak_gate_post_t *post = hak_load_relaxed(&hak_gate_thread.noted_at);
    if (HAK_LIKELY(post != NULL)) unnote_at(post);
}

bool hak_gate_try_enter(void) {
    hak_gate_thread.depth++;
    if (hak_load_relaxed(&hak_gate_thread.noted_at) || enter(false)) return true;
    hak_gate_thread.depth--;
    return false;
}

/* ---- Posts ----------------------------------------------------------------------------------- */

void hak_gate_list(hak_gate_post_t *post) {
    hak_gate_post_t *old = hak_load_relaxed(&gate.posts);
    do {
        post->next = old;
    } while (!atomic_compare_exchange_weak(&gate.posts, &old, post)); /* partner: close */
}

void hak_gate_take(hak_gate_post_t *post) {
    hak_store_relaxed(&post->inside, 0);
    hak_store_relaxed(&post->process, process_now());
}

void hak_gate_release(hak_gate_post_t *post) { hak_store_relaxed(&post->process, HAK_GATE_NOBODY); }

void hak_gate_use(hak_gate_post_t *post) { hak_gate_thread.post = post; }

bool hak_gate_is_lost(const hak_gate_post_t *post) {
    uint32_t process = hak_load_relaxed(&post->process);
    return process != HAK_GATE_NOBODY && process != process_now();
}

/* ---- Forks ----------------------------------------------------------------------------------- */

/* Waits until as many as `rest` are noted at a post, with *tries one millisecond each. */
static void await(const hak_gate_post_t *post, uint32_t rest, unsigned *tries) {
    for (unsigned i = 0; hak_load_acquire(&post->inside) != rest; i++) { /* partner: leave */
        if (i < SPIN_COUNT) {
            hak_cpu_relax();
        } else {
            if (*tries == 0) return;
            --*tries;
            hak_os_sleep_ms(1);
        }
    }
}

/* One fork at a time. A post that joins the list later is of a thread that notes itself there only
 * later still, and then finds CLOSED. */
void hak_gate_close(void) {
    const hak_gate_post_t *own = hak_load_relaxed(&hak_gate_thread.noted_at);
    unsigned interrupted = INTERRUPTED_MS, forever = 1;
    while (atomic_fetch_or(&gate.state, CLOSED) & CLOSED) { /* partner: enter */
        if (hak_gate_is_mine()) return;
        wait_until_open();
    }
    hak_store_relaxed(&gate.closer, hak_os_thread());
    const hak_gate_post_t *post = &crowd;
    for (; post; post = post == &crowd ? atomic_load(&gate.posts) : post->next) {
        bool is_own = post == own;
        if (post != &crowd && (is_own || hak_gate_is_lost(post))) continue;
        forever = UINT32_MAX;
        await(post, is_own, own ? &interrupted : &forever);
    }
}

void hak_gate_open(void) {
    hak_store_relaxed(&gate.closer, 0);
    hak_store_release(&gate.state, 0);
    hak_os_futex_wake(&gate.state, true);
}

void hak_gate_reset(void) {
    hak_gate_post_t *own = hak_gate_thread.post,
                    *noted = hak_load_relaxed(&hak_gate_thread.noted_at);
    hak_store_relaxed(&gate.generation, hak_load_relaxed(&gate.generation) + 1);
    if (own) hak_gate_take(own);
    hak_store_relaxed(&crowd.inside, 0);
    if (noted) hak_store_relaxed(&noted->inside, 1);
    hak_store_relaxed(&gate.closer, 0);
    hak_store_relaxed(&gate.state, 0);
}
