/* purge_trigger.c: which threads give memory back, when, and how much.
 *
 * There is one kind of work, a piece. Three do pieces: slow calls of malloc and free, the helper thread
 * (helper_thread.c), and malloc_trim. A piece first does the work that lower layers have noted
 * (pool/purge_budget.h), then continues a pass (purge_pass.h), which visits everything that can be given back. A pass
 * is a cursor, so it may stop anywhere and continue later. Memory that goes back before the next pass (a note of HUGE,
 * ROUND or SPARSE, and purge_ahead.c) has a pass of its own, with only the stages concerned.
 *
 * | what sets it off                            | which memory                 | by        | bound of a call |
 * |---------------------------------------------|------------------------------|-----------|-----------------|
 * | a pass is due: 250 ms since the last one    | all that is old enough       | piece     | 64 looks, 1 MiB |
 * | committed bytes cross LIMIT_SOFT            | the same, whatever its age   | piece     | the same and its own size |
 * | slab events have made a round due (ROUND)   | free units beside slabs      | piece     | the same        |
 * | the heap has grown by a superslab (GROWN)   | as many bytes of sparse slabs | piece    | the same        |
 * | slabs were taken (VISIT); slow calls made   | sparse slabs of idle bins    | piece     | the same        |
 * | more is kept than the peak allows (HUGE)    | the oldest huge mappings     | piece     | the same        |
 * | large blocks were freed (SPARSE)            | large heaps, if few pages are in | piece | the same        |
 * | a free finds more than may be kept (purge_ahead.c) | the oldest, if no helper runs | piece  | the same and its own size |
 * | a huge block is freed where too much is kept | the oldest huge mappings    | the call  | its own size    |
 * | DISABLE_BATCH: a block is freed             | its own pages                | the call  | its own size    |
 * | malloc_trim; a call that would fail         | everything                   | the call  | none            |
 *
 * A call does at most one piece, at its end. While the helper runs, calls do none: they wake it
 * (hak_helper_urge), and it works piece by piece, so that no thread waits long for a lock.
 *
 * PROTOCOL. The notes and the pass have one owner at a time: the thread that changes `owner` from 0 to its own number.
 * A signal handler that interrupts the owner also finds it taken. Only the owner ages bins and moves the cursor.
 * malloc_trim and a call that would fail have a pass of their own, and age nothing. In the child of a fork nobody is the
 * owner. The helper waits for an owner by trying again, and so do those two, for a second at most. Memory that an owner
 * has taken out of a list and not given back yet counts as committed: without the wait, a call would fail beside it.
 *
 * A signal handler may fork during the owner's work, and need not return in the child. So there are two works, and the
 * child begins with the other one, which has a pass of its own, as malloc_trim has. If the handler returns, the thread
 * ends its piece in the work that was left behind, and releases nothing, because it owns nothing. A thread determines
 * the present work before it becomes the owner: from then on only a fork of its own thread changes the present work,
 * and the piece continues with the work that it has. While one work is left behind, another fork during an owner's work
 * leaves that thread the owner. A piece that was left behind may still write to the figures in purge_ahead.c while
 * another owner does. Rejected: the thread stays the owner, as it was. If the handler does not return, the child never
 * purges anything. */
#include "thread/purge_trigger.h"

#include "cache/cache.h"
#include "commit/commit.h"
#include "options/options.h"
#include "os/os.h"
#include "policy/band_cost.h"
#include "pool/pool.h"
#include "pool/purge.h"
#include "shard/shard.h"
#include "shard/sparse.h"
#include "thread/helper_thread.h"
#include "thread/purge_ahead.h"
#include "thread/purge_pass.h"
#include "thread/thread.h"

enum {
    CALL_LOOKS = 64, /* slabs that one call may examine, and bytes that it may give back */
    CALL_BYTES = 1024 * 1024,
    LONG_LOOKS = 256, /* the same for the helper: nobody waits for it */
    PASS_INTERVAL_MS = 250,
    SHORT_DELAY_MS = 2000, /* with a longer delay frees do not give back ahead of time */
    OWNER_PATIENCE_MS = 1000,
    VISITS_MOST = 16,            /* of shards, in one piece */
    ADDRESS_BITS = 56,           /* no system gives a process more */
    CALLS_OF_SHORT_PROGRAM = 64, /* with fewer slow calls a helper thread does not pay */
};

hak_purge_stats_t hak_purge_stats HAK_OWN_LINE;

static const hak_budget_t of_a_long_piece = {LONG_LOOKS, SIZE_MAX};

/* ---- the owner, and the notes ---- */

static _Atomic uintptr_t owner HAK_OWN_LINE; /* see above; it orders the accesses of one owner after
                                                those of the last */
typedef struct {
    hak_purge_pass_t pass;  /* the present one */
    hak_purge_pass_t ahead; /* see get_ahead */
} work_t;
static work_t works[2] HAK_OWN_LINE; /* of owners: see above */
/* Written in the child of a fork, by its one thread, before it opens the gate. The second also by the thread that ends
 * what was left behind, when only children of forks look. */
static unsigned present;    /* the work that owners get */
static bool is_left_behind; /* the other one */
static _Atomic bool has_pass
    HAK_READ_OFTEN; /* the owner writes; its pass is not at its end; for others a hint */
static _Atomic bool has_hurry HAK_READ_OFTEN; /* the same; each slow call continues the pass */

/* The work that is the caller's until it leaves; NULL when another thread is the owner. */
static work_t *become_owner(void) {
    uintptr_t none = 0;
    if (hak_load_relaxed(&owner)) return NULL;
    work_t *const work = &works[*(volatile unsigned *)&present];
    return hak_cas_acquire(&owner, &none, hak_os_thread()) ? work : NULL; /* partner: leave */
}

/* The same, once the present owner has left. False if that takes too long, or if the owner waits for the caller: in a
 * signal handler that has interrupted the owner, and in a thread that has closed the gate. */
static HAK_BEHIND bool become_next_owner(void) {
    bool is_owner = become_owner() != NULL;
    for (unsigned tries = OWNER_PATIENCE_MS; !is_owner && tries && !hak_gate_is_mine(); tries--) {
        if (hak_load_relaxed(&owner) == hak_os_thread()) break;
        hak_os_sleep_ms(1);
        is_owner = become_owner() != NULL;
    }
    return is_owner;
}

static void leave(void) {
    uintptr_t own = hak_os_thread();
    if (HAK_UNLIKELY(!hak_cas_release(&owner, &own, 0))) is_left_behind = false;
}

/* False in a piece that a fork has left behind. It takes no notes and lowers no sum: another owner does, and both may do
 * the same work. */
static bool is_owner(void) { return HAK_LIKELY(hak_load_relaxed(&owner) == hak_os_thread()); }

/* Subtracts work that is done from a sum of what is due. So the sum is right at any time, also in the child of a fork
 * whose owner stayed behind. It stops at 0, in case a fork comes between. */
static void lower(_Atomic uint32_t *sum, size_t done) {
    if (!is_owner()) return;
    uint32_t now = hak_load_relaxed(sum);
    while (!hak_cas_weak_release(sum, &now, now - (uint32_t)hak_min(done, now))) continue;
}

/* Gives back as many bytes as the heap has grown by. Forgets the rest when no bin can give any. */
static void pay_for_growth(hak_budget_t *budget) {
    uint32_t units = hak_load_relaxed(&hak_shard_grown);
    size_t given;
    while (units && (given = hak_shard_purge_grown((size_t)units * HAK_UNIT_SIZE, budget)) > 0) {
        const size_t paid = hak_min(units, given / HAK_UNIT_SIZE + 1);
        lower(&hak_shard_grown, paid);
        units -= (uint32_t)paid;
    }
    if (units && hak_budget_is_spent(budget) && budget->looks > 0)
        hak_budget_note(HAK_NOTE_GROWN);
    else
        lower(&hak_shard_grown, units);
}

/* Of visits that have waited for the owner only VISITS_MOST are made. A visit that finds nothing costs no look, and many
 * in a row would take bins for idle from which blocks are taken in between. */
static void make_visits(hak_budget_t *budget) {
    uint32_t visits = hak_load_relaxed(&hak_shard_visits_due);
    if (HAK_UNLIKELY(visits > VISITS_MOST)) {
        lower(&hak_shard_visits_due, visits - VISITS_MOST);
        visits = VISITS_MOST;
    }
    for (; visits && !hak_budget_is_spent(budget); visits--) {
        hak_shard_visit(budget);
        lower(&hak_shard_visits_due, 1);
    }
    if (visits) hak_budget_note(HAK_NOTE_VISIT);
}

/* While nothing is purged, nothing is due either: it would pile up until the program sets a delay. */
static HAK_BEHIND void forget_what_is_due(void) {
    lower(&hak_shard_grown, hak_load_relaxed(&hak_shard_grown));
    lower(&hak_shard_visits_due, hak_load_relaxed(&hak_shard_visits_due));
}

static void begin_pass(work_t *work, uint32_t delay_ms, hak_sparse_t bins) {
    work->pass = hak_purge_pass(HAK_PASS_WHOLE, delay_ms, bins);
    hak_store_relaxed(&has_pass, true);
    hak_store_relaxed(&has_hurry, bins != HAK_SPARSE_IDLE);
}

/* Writes only what changes, since all slow calls read this line. */
static void end_pass(void) {
    if (hak_load_relaxed(&has_pass)) hak_store_relaxed(&has_pass, false);
    if (hak_load_relaxed(&has_hurry)) hak_store_relaxed(&has_hurry, false);
}

/* True when frees give back ahead of time. A user who sets a long delay wants to keep free memory, as
 * long as LIMIT_SOFT is far away. */
static bool gets_ahead(int64_t delay_ms) {
    size_t soft = hak_commit_soft();
    if (HAK_UNLIKELY(soft && hak_commit_bytes() > soft / 2)) return true;
    return delay_ms >= 0 && delay_ms <= SHORT_DELAY_MS;
}

/* N2 of pool/purge_budget.h. */
static uint32_t take_notes(void) {
    const uint32_t notes = hak_exchange_acq_rel(&hak_budget_notes, 0);
    hak_fence_after_update(); /* partner: hak_budget_note */
    return notes;
}

/* Serves the notes. Notes again what exceeds the budget. */
static void do_noted(work_t *work, int64_t delay_ms, hak_budget_t *budget) {
    uint32_t notes = is_owner() ? take_notes() : 0;
    if (notes & HAK_NOTE_PRESSURE) begin_pass(work, 0, HAK_SPARSE_SPARE);
    if (HAK_UNLIKELY(delay_ms < 0)) {
        forget_what_is_due();
        return;
    }
    if (notes & HAK_NOTE_GROWN) pay_for_growth(budget);
    if (notes & HAK_NOTE_VISIT) make_visits(budget);
    const unsigned stages = HAK_PASS_HUGE | HAK_PASS_UNITS;
    notes &= gets_ahead(delay_ms) ? stages | HAK_PASS_LARGE_SPARSE : stages;
    if (notes) {
        size_t bytes = 0;
        hak_purge_pass_t noted = hak_purge_pass(notes, (uint32_t)delay_ms, HAK_SPARSE_IDLE);
        if (!hak_purge_pass_piece(&noted, budget, &bytes)) hak_budget_note(noted.stages);
    }
}

/* ---- calls ---- */

/* Counts a piece of a call that may give back `own` bytes beside CALL_BYTES. */
static void count_piece(const hak_budget_t *left, size_t own) {
    size_t looks = CALL_LOOKS - left->looks, given = CALL_BYTES + own - left->bytes;
    size_t bytes = given - hak_min(given, own);
    if (looks == 0 && given == 0) return;
    HAK_ADD_OWNED(&hak_purge_stats.pieces, 1);
    hak_store_relaxed(&hak_purge_stats.most_looks,
                      hak_max(looks, hak_load_relaxed(&hak_purge_stats.most_looks)));
    hak_store_relaxed(&hak_purge_stats.most_bytes,
                      hak_max(bytes, hak_load_relaxed(&hak_purge_stats.most_bytes)));
}

/* A slow call. */
typedef struct {
    size_t freed;    /* bytes, when it is a free */
    size_t taken;    /* bytes, when it is a malloc */
    uint64_t now_ms; /* 0 when the call does not read the clock */
    bool is_look;    /* enough calls were made; otherwise something was noted */
    bool is_due;     /* a pass is due */
} call_t;

/* Gives back the excess, whatever its age. Goes on where the last call ended, so that looks in vain hide nothing behind
 * them; at the end of that pass a new one begins, once. */
static void get_ahead(hak_purge_pass_t *pass, hak_budget_t *budget) {
    size_t excess = hak_purge_ahead_excess(), most = hak_min(excess, budget->bytes), bytes = 0;
    if (excess == 0) return;
    hak_budget_t some = {budget->looks, most};
    bool is_fixed = hak_option(HAK_OPTION_HUGE_CACHE) >= 0;
    const unsigned stages =
        HAK_PASS_LARGE | HAK_PASS_UNITS | (is_fixed ? 0u : (unsigned)HAK_PASS_HUGE);
    pass->stages &= stages; /* HUGE_CACHE may have been set meanwhile */
    for (bool is_new = false; !is_new && !hak_budget_is_spent(&some);) {
        is_new = !pass->stages;
        if (is_new) *pass = hak_purge_pass(stages, 0, HAK_SPARSE_SPARE);
        hak_purge_pass_piece(pass, &some, &bytes);
    }
    hak_purge_ahead_gave(bytes);
    hak_budget_look(budget, budget->looks - some.looks);
    hak_budget_give(budget, most - some.bytes);
}

/* Brakes the thread's cache, or ends that. When a heap is being emptied, each block in the cache may be
 * the last one of its slab. The thread also comes back soon, since more may be left than one piece may
 * give back. */
static void brake(bool wanted) {
    hak_cache_t *cache = hak_cache_own();
    if (!cache) return;
    if (wanted)
        hak_cache_brake(cache);
    else if (cache->braked)
        hak_cache_unbrake(cache);
}

/* True when a call has more to do than to see that nothing is to be done. Reads only: on a machine with many CPUs
 * all of them look, and the owner's lines would go from each to the next. */
static bool has_work(const call_t *call, int64_t delay_ms, bool is_ahead) {
    if (call->is_due || hak_load_relaxed(&hak_budget_notes) || hak_load_relaxed(&has_hurry))
        return true;
    if (call->is_look && hak_load_relaxed(&has_pass)) return true;
    if (call->is_look && !call->freed && delay_ms >= 0 && hak_shard_may_visit(true)) return true;
    if (call->now_ms && hak_purge_ahead_is_due(call->now_ms)) return true;
    return is_ahead && hak_purge_ahead_excess();
}

/* The bytes that a call may give back beside CALL_BYTES: as many as it has freed or, above LIMIT_SOFT, taken. Otherwise
 * large blocks would come faster than memory goes back, and a control group's limit would end the process. */
static size_t own_bytes(const call_t *call) {
    const bool is_pressed =
        hak_load_relaxed(&has_hurry) || hak_load_relaxed(&hak_budget_notes) & HAK_NOTE_PRESSURE;
    return call->freed + (HAK_UNLIKELY(is_pressed) ? call->taken : 0);
}

static void do_work(work_t *work, const call_t *call, int64_t delay_ms, bool is_ahead) {
    const size_t own = own_bytes(call);
    hak_budget_t budget = {CALL_LOOKS, CALL_BYTES + own};
    size_t bytes = 0;
    if (call->is_due && !hak_load_relaxed(&has_pass))
        begin_pass(work, (uint32_t)delay_ms, HAK_SPARSE_IDLE);
    if (call->now_ms) hak_purge_ahead_look(call->now_ms);
    do_noted(work, delay_ms, &budget);
    if (call->is_look && !call->freed && delay_ms >= 0 && hak_shard_may_visit(true))
        hak_shard_visit(&budget); /* a program that only frees has not moved on */
    if (is_ahead) get_ahead(&work->ahead, &budget);
    if ((call->is_look || hak_load_relaxed(&has_hurry)) &&
        hak_purge_pass_piece(&work->pass, &budget, &bytes))
        end_pass();
    count_piece(&budget, own);
}

/* Does the one piece of a call. */
static void do_piece(const call_t *call, int64_t delay_ms) {
    const bool is_rest = hak_purge_ahead_rests();
    const bool is_ahead = (call->freed || is_rest) && gets_ahead(delay_ms);
    if (has_work(call, delay_ms, is_ahead)) {
        work_t *const work = become_owner();
        if (!work) return;
        do_work(work, call, delay_ms, is_ahead);
        leave();
    }
    if (hak_load_relaxed(&has_hurry)) hak_tick_hurry();
    const bool goes_on = is_ahead && (hak_purge_ahead_falls() || hak_purge_ahead_excess());
    if (goes_on) hak_tick_hurry();
    brake(goes_on && call->freed);
}

/* True once when a pass is due. The first look only starts the clock, so a short program has no pass. */
static bool is_due(uint64_t now, int64_t delay_ms) {
    static _Atomic uint64_t next_ms HAK_READ_OFTEN;
    uint64_t due = hak_load_relaxed(&next_ms);
    hak_cache_t *cache = hak_cache_own();
    hak_band_cost_tick(now, cache ? &cache->rounds : NULL);
    hak_thread_follow_cpus(now, false);
    if (delay_ms < 0 && !hak_purge_watcher()) return false;
    return now >= due && hak_cas_acquire(&next_ms, &due, now + PASS_INTERVAL_MS) && due;
}

static HAK_SLOW_PATH void answer_pressure(void) {
    size_t soft = hak_commit_soft();
    if (soft == 0)
        hak_thread_look_at_limits(); /* the next charge compares with what is found */
    else if (hak_commit_bytes() > soft)
        hak_budget_note(HAK_NOTE_PRESSURE);
}

static void act(call_t *call) {
    int64_t delay_ms = hak_option(HAK_OPTION_PURGE_DELAY_MS);
    bool is_due_now = call->is_look && is_due(call->now_ms, delay_ms);
    if (HAK_UNLIKELY(hak_commit_pressure())) answer_pressure();
    if (is_due_now) hak_helper_note();
    call->is_due = is_due_now && delay_ms >= 0;
    if (!hak_helper_runs()) {
        do_piece(call, delay_ms);
    } else {
        brake(false);
        if (hak_load_relaxed(&hak_budget_notes) || hak_load_relaxed(&has_hurry)) hak_helper_urge();
    }
}

static _Atomic(hak_watcher_t) the_watcher HAK_READ_OFTEN; /* constant after start */

void hak_purge_set_watcher(hak_watcher_t watcher) {
    hak_store_release(&the_watcher, watcher);
    hak_tick_hurry();
}

HAK_COMMON hak_watcher_t hak_purge_watcher(void) { return hak_load_acquire(&the_watcher); }

/* A slow call of a program with a watcher. Every slow call comes here until there is a helper thread,
 * which starts once the program has made CALLS_OF_SHORT_PROGRAM slow calls. Until then the watcher runs
 * at once at calls 1, 2, 4, 8 and so on. */
static HAK_SLOW_PATH void watch(bool may_start) {
    static _Atomic uint32_t calls_so_far;
    if (hak_helper_runs()) return;
    uint32_t calls = hak_add_relaxed(&calls_so_far, 1) + 1;
    if (calls >= CALLS_OF_SHORT_PROGRAM && may_start) hak_helper_start_early();
    hak_purge_watcher()(calls < CALLS_OF_SHORT_PROGRAM && hak_is_pow2(calls));
    hak_tick_hurry();
}

HAK_COMMON void hak_purge_look(size_t size, bool is_free) {
    call_t call = {
        .freed = is_free ? size : 0, .taken = is_free ? 0 : size, .is_look = hak_tick_settle()};
    if (call.is_look || is_free) call.now_ms = hak_os_now_ms();
    if (!is_free) hak_helper_start();
    act(&call);
    if (HAK_UNLIKELY(hak_load_relaxed(&the_watcher) != NULL)) watch(!is_free);
}

/* ---- the helper, and trim ---- */

/* Serves the notes, and ends a pass that is in a hurry. By the owner. */
static void settle(work_t *work) {
    int64_t delay_ms = hak_option(HAK_OPTION_PURGE_DELAY_MS);
    for (hak_budget_t budget = of_a_long_piece; hak_load_relaxed(&hak_budget_notes) && is_owner();
         budget = of_a_long_piece)
        do_noted(work, delay_ms, &budget);
    if (!hak_load_relaxed(&has_hurry)) return;
    hak_purge_pass_all(&work->pass, of_a_long_piece);
    end_pass();
}

void hak_purge_settle(void) {
    work_t *const work = become_owner();
    if (!work) return;
    settle(work);
    leave();
}

void hak_purge_round(uint32_t delay_ms) {
    work_t *const work = become_owner();
    if (!work) return;
    settle(work);
    begin_pass(work, delay_ms, HAK_SPARSE_IDLE);
    hak_purge_pass_all(&work->pass, of_a_long_piece);
    end_pass();
    leave();
}

static size_t purge_all(hak_cache_t *cache) {
    const bool is_owner = become_next_owner();
    if (cache) hak_cache_flush_all(cache);
    hak_purge_pass_t pass = hak_purge_pass(HAK_PASS_CACHES, 0, HAK_SPARSE_ALL);
    size_t purged = hak_purge_pass_all(&pass, HAK_BUDGET_ALL);
    hak_shard_release_idle(); /* this sweep only ages the warm slabs */
    pass = hak_purge_pass(HAK_PASS_WHOLE - HAK_PASS_CACHES, 0, HAK_SPARSE_ALL);
    purged += hak_purge_pass_all(&pass, HAK_BUDGET_ALL) + hak_pool_unmap_free();
    if (is_owner) leave();
    return purged;
}

size_t hak_purge_all(void) {
    hak_cache_t *cache = hak_thread_cache();
    if (cache) hak_thread_flush_quarantine(cache);
    return purge_all(cache);
}

void hak_purge_for(size_t size) {
    hak_cache_t *cache = hak_thread_cache();
    size_t limit = (size_t)hak_option(HAK_OPTION_LIMIT);
    if (size >> ADDRESS_BITS || (limit && size > limit)) return;
    if (cache && (limit || size <= hak_commit_bytes())) hak_thread_flush_quarantine(cache);
    purge_all(cache);
}

/* The former owner has gone, or may never return. It may have taken notes without doing their work, so they are noted
 * again; the sums that some of them stand for are lowered only by work that is done. */
static HAK_BEHIND void note_again(bool was_owned) {
    const size_t soft = hak_commit_soft();
    const bool was_pressed = was_owned || hak_load_relaxed(&has_hurry);
    if (hak_load_relaxed(&hak_shard_grown)) hak_budget_note(HAK_NOTE_GROWN);
    if (hak_load_relaxed(&hak_shard_visits_due)) hak_budget_note(HAK_NOTE_VISIT);
    if (was_owned) hak_budget_note(HAK_NOTE_HUGE | HAK_NOTE_ROUND | HAK_NOTE_SPARSE);
    if (was_pressed && soft && hak_commit_bytes() > soft) hak_budget_note(HAK_NOTE_PRESSURE);
}

/* By the owner, or in place of an owner that no longer exists. */
static HAK_BEHIND void begin_anew(void) {
    note_again(hak_load_relaxed(&owner) != 0);
    hak_purge_ahead_forget();
    works[present].pass.stages = works[present].ahead.stages = 0;
    end_pass();
    hak_store_release(&owner, 0); /* partner: become_owner */
}

HAK_BEHIND void hak_purge_forget(void) {
    hak_tick_hurry(); /* a watched program gets a helper of its own */
    if (HAK_UNLIKELY(hak_load_relaxed(&owner) == hak_os_thread())) {
        if (is_left_behind) return;
        is_left_behind = true;
        present ^= 1;
    }
    begin_anew();
}

void hak_purge_forget_own(void) {
    if (HAK_UNLIKELY(hak_load_relaxed(&owner) == hak_os_thread())) hak_purge_forget();
}

HAK_BEHIND void hak_purge_disown(uintptr_t thread) {
    if (thread && hak_load_relaxed(&owner) == thread) begin_anew();
}

HAK_BEHIND void hak_purge_give_up(void) {
    hak_thread_forget_steps();
    hak_purge_disown(hak_os_thread());
}
