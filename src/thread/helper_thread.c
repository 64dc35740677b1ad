/* helper_thread.c: a helper thread that gives memory back while the program does not call.
 *
 *   NONE -> STARTING -> AWAKE <-> ASLEEP -> ENDED -> REAPING -> NONE,  STARTING or AWAKE -> REFUSED
 *
 * A slow malloc starts the helper in a program that has threads and a large heap, or a watcher
 * (purge_trigger.h). A free never starts it, since libc calls free with its thread lists locked; nor does a
 * constructor. There is none in a library that dlclose may unmap with the helper's code.
 *
 * The helper sleeps on its state word until a slow free finds much memory to purge. Then it wakes at intervals
 * until that is done. It ends when no thread of the program counts any more. It blocks every signal and
 * allocates nothing. The child of a fork forgets it. It does not inherit the CPUs and the scheduling policy of
 * the thread that started it: behind a real-time thread that spins on its CPU it would never run.
 *
 * THE END. libc runs the handlers of exit() on the last thread of the process. That must not be the helper, which has a
 * small stack and blocks all signals. So when the last thread that counts ends, it waits for the helper's end first:
 *
 *   E1  the thread: the count is 0, then `urged` and a wake-up end a nap or the sleep of the helper, which looks at the
 *       count after both; it waits on the state word, and urges again after each nap
 *   E2  the helper: stores its handle, then ENDED, and touches nothing of ours any more but the futex
 *   E3  the reaper: CAS ENDED -> REAPING (acquire; so there is one), joins, then stores NONE
 *
 * A thread that starts a helper first reaps the one that has ended. Only NONE allows a start, so there is one handle,
 * and one helper. All signals are blocked in E3: if a handler forked there, nobody in the child would complete E3. A
 * thread that finds another thread reaping need not wait, because that thread is alive until it has joined. The wait
 * ends when a thread counts again, and after about a second: if a round takes longer, exit() runs on the helper.
 *
 * ITS PROCESS. The child of a clone without fork handlers, or of a fork without a second thread, inherits the state and
 * no helper. So `mark` leads to a word that is OWN, and INHERITED in such a child (os/own_word.h).
 *
 *   P1  a thread that starts a helper: sets the word, if it exists already, then CAS -> STARTING; so a thread that sees
 *       any state but NONE sees the word of the same process. The first start makes the word after that: until then the
 *       helper is ours
 *   P2  a thread that notes work: if the state is not NONE and the word is INHERITED, CAS -> CLAIMED; the thread that
 *       succeeds forgets the helper, by storing NONE last, and stores OWN. Until then the state is that of the parent,
 *       and nobody reaps. All signals are blocked meanwhile: the fork of a handler would wait for the post that P4
 *       releases. Rejected: OWN by the CAS. Another thread took the ENDED that was still there for its own, and
 *       joined the parent's helper
 *   P3  nobody joins an inherited helper: E3 looks at the word
 *   P4  the clone may have come in the middle of a round. So the thread that forgets the helper in P2 takes the purge
 *       work from it (hak_purge_disown), and takes its post from the gate, where a fork would wait for ever. A fork
 *       therefore looks at the word first. The helper has a number and a post of its own for this
 *
 * NOT MENDED. If the helper is inside the engine at a clone without fork handlers, what it holds stays held in the child: a
 * lock, or units that it purges. A call there may wait for ever, as in the child of any such clone beside another thread.
 * Nothing makes a clone wait, and the child has the helper's pages as they were at different moments. So a program
 * without threads of its own that clones so, and allocates in the child, needs PURGE_THREAD=0 if it would have a helper:
 * with a live page, or with PURGE_THREAD=2.
 *
 * If all threads end by the system call itself, the helper does not notice. It would keep the process alive, and the
 * process would ignore SIGTERM. So the helper looks whether it is the only thread left: when it has slept for a second
 * without a wake-up, then after two more seconds, four, and so on up to an hour. A process at rest wakes twelve times for
 * that, and then once an hour. Rejected: to let the helper receive that signal. The kernel gives a signal of the process
 * to any thread that does not block it. That would be the helper, if the program blocks the signal in all threads and one
 * of them waits for it with sigwait; and the program's handler would run on the helper's stack.
 *
 * A wake-up is not lost. The helper stores ASLEEP before its last look at what would wake it: dirty
 * units, a note, the number of threads. A thread that changes one of these does so before it reads the
 * state. Sequentially consistent accesses or a fence separate the two steps on each side.
 *
 * Memory that the kernel refuses to take back, because it is locked, does not keep the helper awake. If no round has
 * given anything back for so long that each page was old enough in one of them, and the program is idle, the remaining
 * memory is stuck. The helper stores its amount before it stores ASLEEP, and is woken when that much more is dirty. */
#include "thread/helper_thread.h"

#include <pthread.h>
#include <signal.h>

#include "large/huge.h"
#include "large/large.h"
#include "large/view.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/gate.h"
#include "os/os.h"
#include "os/own_word.h"
#include "os/program.h"
#include "os/tasks.h"
#include "policy/band_cost.h"
#include "pool/pool.h"
#include "pool/purge.h"
#include "shard/sparse.h"
#include "shard/stock.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

enum {
    HEAP_UNITS = 512, /* least heap for a helper thread: 32 MiB */
    WAKE_UNITS = 64,  /* least dirty units for a wake-up: 4 MiB */
    STACK_SIZE = 128 * 1024,
    PERIOD_LEAST_MS = 10,
    PERIOD_MOST_MS = 250,
    STUCK_MS = 1000, /* dirty units are stuck after this time, the delay, and a round of the pool */
    WORK_MS = 5,     /* CPU time in one round that the helper alone does not use */
    ALONE_LEAST_MS = 1000, /* of sleep, before a look whether it is alone */
    ALONE_MOST_MS = 3600 * 1000,
    END_NAP_MS = 10, /* of the last thread, which waits for the helper's end */
    END_NAPS = 100,
};

enum { NEVER, WITH_THREADS, ALWAYS }; /* of PURGE_THREAD */
/* Those in which a helper may start come first. */
enum { NONE, ENDED, STARTING, ASLEEP = HAK_HELPER_ASLEEP, AWAKE, REAPING, REFUSED };
_Atomic uint32_t hak_helper_state HAK_READ_OFTEN;

static _Atomic bool noted;                  /* the program worked since the helper's last round */
static _Atomic uint32_t urged HAK_OWN_LINE; /* 1: a thread has noted work that must not wait for the
                                               next round */

static _Atomic(hak_own_word_t *) mark HAK_READ_OFTEN; /* NULL: not yet, or the kernel has none */
static pthread_t handle; /* the helper writes it before ENDED; the reaper reads it */
static uintptr_t number; /* the helper writes it before AWAKE, and 0 before ENDED; see P4 */
static hak_gate_post_t post;

/* Dirty units that are stuck while the helper sleeps. The helper writes; others read it after they saw it asleep. */
static _Atomic size_t stuck_units;

static size_t other_units(void) { return atomic_load(&hak_huge_stats.kept_bytes) / HAK_UNIT_SIZE; }

/* Free units with pages. `of_pool` is the pool's part: a cheap sum that is a little behind, or the exact
 * one. */
static size_t dirty_units(size_t of_pool) {
    return of_pool + other_units() + hak_large_idle_about() / HAK_UNIT_SIZE;
}

/* True when there are enough of them. The first sum also counts units that TINY_SS_PARTIAL=0 keeps; it
 * is the answer for most frees. */
static bool worth_waking(void) {
    size_t enough = WAKE_UNITS + hak_load_relaxed(&stuck_units);
    return HAK_UNLIKELY(dirty_units(atomic_load(&hak_pool_stats.dirty_units)) >= enough) &&
           dirty_units(hak_pool_purgeable()) >= enough;
}

static size_t dirty_bytes(void) {
    return (hak_pool_purgeable() + other_units()) * HAK_UNIT_SIZE + hak_large_idle();
}

/* Used by the helper: what its last round left, and since when that amount is the same. */
static struct {
    size_t bytes;
    uint64_t since_ms;
} left;

/* True when rounds leave what may yet be given back. `fresh`: the program may have changed something
 * about it. */
static bool is_dirty(int64_t delay_ms, bool fresh) {
    size_t bytes = dirty_bytes();
    uint64_t now_ms = hak_os_now_ms();
    if (fresh || bytes != left.bytes) left.since_ms = now_ms;
    left.bytes = bytes;
    uint64_t most_ms = (uint64_t)delay_ms + hak_pool_round_ms() + STUCK_MS;
    bool stuck = now_ms - left.since_ms > most_ms;
    hak_store_relaxed(&stuck_units, stuck ? bytes / HAK_UNIT_SIZE : 0);
    return bytes > 0 && !stuck;
}

/* False in a program that never purges: there the helper only waits for the note of a new delay. */
static bool much_to_do(int64_t delay_ms) { return delay_ms >= 0 && worth_waking(); }

/* Sleeps until a wake-up, or for *nap_ms. Before a longer nap it looks whether it is the only thread left. */
static void sleep_once(unsigned *nap_ms) {
    int status;
    if (*nap_ms > ALONE_LEAST_MS && hak_os_is_last_task(&status)) hak_os_end_task(status);
    hak_os_futex_wait_for(&hak_helper_state, ASLEEP, *nap_ms);
    *nap_ms = (unsigned)hak_min((size_t)*nap_ms * 2, ALONE_MOST_MS);
}

static void sleep_until_needed(int64_t delay_ms) {
    unsigned nap_ms = ALONE_LEAST_MS;
    hak_stock_close();
    atomic_store(&hak_helper_state, ASLEEP); /* partner: wake */
    while (atomic_load(&hak_helper_state) == ASLEEP && !much_to_do(delay_ms) &&
           !atomic_load(&noted) && !atomic_load(&urged) && hak_thread_count() > 0)
        sleep_once(&nap_ms);
    atomic_store(&hak_helper_state, AWAKE);
    hak_stock_open();
}

/* True when the program has worked since the helper's last round: it made slow calls or, if it has a
 * watcher, used CPU time. */
static bool is_at_work(bool is_watched) {
    static uint64_t last_ms; /* used by the helper only, of which there is one */
    bool at_work = atomic_exchange(&noted, false);
    if (!is_watched) return at_work;
    uint64_t now_ms = hak_os_cpu_ms(), used_ms = now_ms - last_ms;
    last_ms = now_ms;
    return at_work || used_ms >= WORK_MS;
}

/* Purges once. True when there may be more to do soon. */
static bool work(int64_t delay_ms, bool is_watched) {
    if (delay_ms >= 0) hak_purge_round((uint32_t)delay_ms);
    hak_band_cost_pass(hak_os_now_ms());
    bool at_work = is_at_work(is_watched);
    if (delay_ms < 0) return at_work;
    return is_dirty(delay_ms, at_work) || at_work || hak_shard_purge_waits((uint32_t)delay_ms);
}

/* Sleeps between two rounds, and does urgent work meanwhile. False when the system refuses to sleep. */
static bool rest(unsigned period_ms) {
    uint64_t end = hak_os_now_ms() + period_ms;
    for (uint64_t now; (now = hak_os_now_ms()) < end && hak_thread_count() > 0;) {
        if (!hak_os_futex_wait_for(&urged, 0, (unsigned)(end - now))) return false;
        if (atomic_exchange(&urged, 0)) hak_purge_settle(); /* partner: hak_helper_urge */
    }
    return true;
}

/* The list itself says whether the post is in it: a clone may come between the listing and any note of that. */
static void join_gate(void) {
    hak_gate_take(&post);
    if (!hak_gate_is_listed(&post)) hak_gate_list(&post);
    hak_gate_use(&post);
    number = hak_os_thread();
}

/* After this call the thread no longer enters the gate. */
static void leave_gate(void) {
    number = 0;
    hak_gate_release(&post);
}

static void *run(void *unused) {
    (void)unused;
    hak_watcher_t watcher = hak_purge_watcher();
    join_gate();
    left.bytes = 0;
    hak_os_become_helper();
    hak_store_release(&hak_helper_state, AWAKE);
    while (hak_thread_count() > 0) {
        int64_t delay_ms = hak_option(HAK_OPTION_PURGE_DELAY_MS);
        size_t period = hak_min(hak_max((size_t)delay_ms / 2, PERIOD_LEAST_MS), PERIOD_MOST_MS);
        if (watcher) watcher(false);
        if (!rest((unsigned)period)) {
            leave_gate();
            pthread_detach(pthread_self());
            hak_store_release(&hak_helper_state, REFUSED);
            return NULL;
        }
        if (!work(delay_ms, watcher != NULL)) {
            if (watcher) watcher(true); /* before it sleeps: the page then shows the final state */
            sleep_until_needed(delay_ms);
        }
    }
    leave_gate();
    handle = pthread_self();
    atomic_store(&hak_helper_state, ENDED); /* E2; partner: reap, see_it_end */
    hak_os_futex_wake(&hak_helper_state, true);
    return NULL;
}

static bool is_inherited(void) {
    hak_own_word_t *word = hak_load_acquire(&mark);                /* partner: create */
    return word && hak_load_acquire(&word->owner) != HAK_WORD_OWN; /* partner: disown */
}

static void block_signals(sigset_t *before) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

/* P2, P4. */
static HAK_BEHIND void disown(void) {
    uint32_t inherited = HAK_WORD_INHERITED;
    hak_own_word_t *word = hak_load_relaxed(&mark);
    sigset_t before;
    block_signals(&before);
    if (hak_cas_acquire(&word->owner, &inherited, HAK_WORD_CLAIMED)) {
        hak_purge_disown(number);
        hak_gate_take(&post); /* from the helper that is not there */
        hak_gate_release(&post);
        hak_helper_forget();
        hak_store_release(&word->owner, HAK_WORD_OWN); /* partner: is_inherited */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Partner: P1. */
void hak_helper_look_whose(void) {
    if (hak_load_acquire(&hak_helper_state) != NONE && HAK_UNLIKELY(is_inherited())) disown();
}

/* E3, if the helper has ended. */
static HAK_BEHIND void reap(void) {
    uint32_t ended = ENDED;
    int cancel;
    sigset_t before;
    block_signals(&before);
    if (!is_inherited() && hak_cas_acquire(&hak_helper_state, &ended, REAPING)) { /* partner: E2 */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
        pthread_join(handle, NULL);
        pthread_setcancelstate(cancel, NULL);
        hak_store_release(&hak_helper_state, NONE); /* partner: start */
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool is_on_its_way(uint32_t state) {
    return state == STARTING || state == AWAKE || state == ASLEEP;
}

/* E1. */
static HAK_BEHIND void see_it_end(void) {
    hak_helper_look_whose();
    uint32_t state = atomic_load(&hak_helper_state);
    for (unsigned naps = 0; naps < END_NAPS && is_on_its_way(state) && hak_thread_count() == 0;
         naps++) {
        hak_helper_urge();
        hak_os_futex_wait_for(&hak_helper_state, state, END_NAP_MS);
        state = atomic_load(&hak_helper_state);
    }
    if (state == ENDED) reap();
}

HAK_BEHIND void hak_helper_outlive(void) {
    hak_helper_wake();
    if (HAK_UNLIKELY(hak_thread_count() == 0)) see_it_end();
}

static void create(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    hak_own_word_t *word = hak_load_relaxed(&mark);
    if (!word && (word = hak_os_own_word()) != NULL) {
        hak_store_relaxed(&word->owner, HAK_WORD_OWN);
        hak_store_release(&mark, word); /* partner: is_inherited */
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    if (pthread_create(&thread, &attributes, run, NULL) != 0)
        hak_store_relaxed(&hak_helper_state, REFUSED);
    pthread_attr_destroy(&attributes);
}

static HAK_SLOW_PATH void start(void) {
    uint32_t none = NONE;
    bool purges = hak_option(HAK_OPTION_PURGE_DELAY_MS) >= 0;
    if (hak_option(HAK_OPTION_PURGE_THREAD) == NEVER || !(purges || hak_purge_watcher())) return;
    /* It would end at once, and each slow call start another one; or never. */
    if (hak_thread_count() == 0 || !hak_thread_sees_ends()) return;
    if (hak_os_may_be_unloaded()) {
        hak_store_relaxed(&hak_helper_state, REFUSED);
        return;
    }
    hak_helper_look_whose();
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_helper_state) == ENDED)) reap();
    sigset_t before;
    block_signals(&before); /* also for P1: no handler forks between the two */
    hak_own_word_t *word = hak_load_relaxed(&mark);
    if (word && hak_load_acquire(&hak_helper_state) == NONE)
        hak_store_relaxed(&word->owner, HAK_WORD_OWN);
    if (hak_cas_acq_rel(&hak_helper_state, &none, STARTING)) create();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The helper must not be the program's second thread: unshare(CLONE_NEWUSER) would fail, and a fork in a
 * signal handler that interrupts a fork would wait for ever. If libc does not tell, a second cache shows
 * that there are threads; this misses a thread that never allocates. */
static HAK_SLOW_PATH void start_beside_threads(void) {
    const bool has_threads =
        hak_os_knows_threads() ? !hak_os_is_single_threaded() : hak_thread_count() > 1;
    if (has_threads || hak_option(HAK_OPTION_PURGE_THREAD) == ALWAYS) start();
}

static bool may_start(void) { return hak_load_relaxed(&hak_helper_state) <= ENDED; }

HAK_COMMON void hak_helper_start(void) {
    if (!may_start()) return; /* first: many CPUs write the sums */
    size_t used = hak_load_relaxed(&hak_pool_stats.used_units) + hak_huge_bytes() / HAK_UNIT_SIZE;
    if (HAK_UNLIKELY(used >= HEAP_UNITS)) start_beside_threads();
}

void hak_helper_start_early(void) {
    if (may_start()) start();
}

HAK_BEHIND bool hak_helper_is_here(void) {
    hak_helper_look_whose();
    return !is_inherited() && hak_helper_runs();
}

HAK_COMMON bool hak_helper_runs(void) {
    uint32_t now = hak_load_relaxed(&hak_helper_state);
    return now == AWAKE || now == ASLEEP;
}

/* The caller has a fence between its change and this (partner: the store of ASLEEP). */
static void wake(void) {
    uint32_t asleep = ASLEEP;
    if (hak_load_relaxed(&hak_helper_state) != ASLEEP) return;
    if (atomic_compare_exchange_strong(&hak_helper_state, &asleep, AWAKE))
        hak_os_futex_wake(&hak_helper_state, true);
}

/* The caller has seen the helper asleep, after a fence (helper_thread.h). */
void hak_helper_wake_up(void) {
    atomic_thread_fence(memory_order_acquire); /* partner: the store of ASLEEP; see stuck_units */
    if (worth_waking() || hak_thread_count() == 0) wake();
}

/* The helper takes the note before it looks at what is dirty: after the fence the caller sees that the note is taken, or
 * the helper what the caller has done. A caller has won a CAS on the time of its look, or has a fence of its own. */
void hak_helper_note(void) {
    hak_helper_look_whose();
    hak_fence_after_update();
    if (hak_load_relaxed(&noted)) return;
    hak_store_relaxed(&noted, true);
    atomic_thread_fence(memory_order_seq_cst);
    wake();
}

/* The note is set already (pool/purge_budget.h). The helper clears `urged` before it reads the notes; until
 * then one wake-up is enough. */
void hak_helper_urge(void) {
    atomic_thread_fence(memory_order_seq_cst);
    if (hak_load_relaxed(&urged)) return;
    hak_store_relaxed(&urged, 1);
    atomic_thread_fence(memory_order_seq_cst);
    wake();
    hak_os_futex_wake(&urged, true);
}

void hak_helper_forget(void) {
    hak_stock_open();
    hak_store_relaxed(&stuck_units, 0);
    hak_store_relaxed(&urged, 0);
    hak_store_release(&hak_helper_state, NONE); /* partner: start */
}
