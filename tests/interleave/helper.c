/* helper.c: explores how the helper thread of src/thread/helper_thread.c falls asleep and is woken, on the
 * real source.
 *
 *   helper             every scenario must hold
 *   helper --broken    the source was broken on purpose: some scenario must fail */
#include <stdlib.h>
#include <string.h>

#include "explore.h"
#include "futex.h"
#include "memory.h"
#include "scenarios.h"
#include "thread/helper_thread.c" /* its words are its own, and have to be tracked */
#include "shard/sparse.h"
#include "thread/purge_trigger.h"
#include "thread/helper_thread.h"

enum {
    HELPER = 1, /* its number among the threads */
    MUCH = WAKE_UNITS,
    THIS_HELPER = 0x100, /* by its pointer */
    PARENTS_HELPER = 0x200,
    ROUNDS_MAX = 1, /* naps of the helper that end before the program does something */
};

/* What the helper looks at, and programs change. */
hak_pool_stats_t hak_pool_stats __attribute__((aligned(64)));
hak_huge_stats_t hak_huge_stats __attribute__((aligned(64)));
static struct {
    _Atomic unsigned threads;
    _Atomic uint64_t delay;  /* as the option has it */
    _Atomic unsigned note;   /* something that does not wait */
    _Atomic unsigned locked; /* dirty units that no round can give back */
    _Atomic unsigned former; /* slabs that stocks keep (src/shard/stock.h) */
    _Atomic bool closed;     /* they keep none */
    _Atomic bool owned;      /* a helper that stayed behind has the purge work */
    _Atomic bool inside;     /* and is inside the gate */
} world __attribute__((aligned(64)));

/* The scenario's own, in a line of its own. */
static struct {
    void *(*helper)(void *);
    unsigned started, joined; /* helpers */
    bool has_ended;           /* the one of the scenario has returned */
    bool naps_long;           /* naps end only when something is urgent */
    unsigned waits;           /* of last threads for the helper */
    unsigned rounds;          /* naps */
    uint64_t now_ms;
    unsigned busy; /* threads of the program that are not done */
} model __attribute__((aligned(64)));

/* ---- Stand-ins ------------------------------------------------------------------------------- */

/* The helper is kept for a thread of the scenario. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument) {
    (void)thread, (void)attributes, (void)argument;
    EXPLORE_CHECK(model.started == model.joined, "a helper beside another one");
    model.started++;
    model.helper = body;
    return 0;
}

/* The explorer asks, between steps: it sees what is so, and is no thread that could race. */
#define ASKED __attribute__((no_sanitize_thread))

static ASKED bool has_ended(const void *unused) {
    (void)unused;
    return model.has_ended;
}

ASKED int pthread_join(pthread_t thread, void **result) {
    (void)result;
    EXPLORE_CHECK(thread == pthread_self(), "another thread than the helper is joined");
    EXPLORE_CHECK(model.joined < model.started, "the helper is joined twice");
    explore_await(has_ended, NULL);
    model.joined++;
    return 0;
}

int64_t hak_option(hak_option_t option) {
    return option == HAK_OPTION_PURGE_DELAY_MS ? (int64_t)hak_load_relaxed(&world.delay) : 1;
}

/* The gate, for the one post: the helper's own, or what is left of it in the child of a clone. */
uintptr_t hak_os_thread(void) { return THIS_HELPER; }
void hak_gate_list(hak_gate_post_t *its) { (void)its; }
void hak_gate_use(hak_gate_post_t *its) { (void)its; }
void hak_gate_take(hak_gate_post_t *its) {
    (void)its;
    atomic_store(&world.inside, false);
}
void hak_gate_release(hak_gate_post_t *its) {
    (void)its;
    EXPLORE_CHECK(!atomic_load(&world.inside), "nobody's post is inside");
}

void hak_purge_disown(uintptr_t thread) {
    EXPLORE_CHECK(atomic_load(&hak_helper_state) != NONE, "a new helper before the work is free");
    EXPLORE_CHECK(atomic_load(&world.owned) && thread == PARENTS_HELPER,
                  "the work is taken from %#zx", (size_t)thread);
    atomic_store(&world.owned, false);
}

static hak_own_word_t own_word __attribute__((aligned(64)));
hak_own_word_t *hak_os_own_word(void) { return &own_word; }
void hak_os_become_helper(void) {}
bool hak_os_is_last_task(int *status) { return (void)status, false; }
void hak_os_end_task(int status) { exit(status); }
bool hak_os_may_be_unloaded(void) { return false; }
bool hak_thread_sees_ends(void) { return true; }
unsigned hak_thread_count(void) { return atomic_load(&world.threads); }

/* A program that has threads, or had. */
bool hak_os_knows_threads(void) { return true; }
bool hak_os_is_single_threaded(void) { return false; }
size_t hak_pool_purgeable(void) { return atomic_load(&hak_pool_stats.dirty_units); }
size_t hak_large_idle(void) { return 0; }
size_t hak_large_idle_about(void) { return 0; }
uint64_t hak_pool_round_ms(void) { return 1000; }
bool hak_shard_purge_waits(uint32_t delay_ms) { return delay_ms == 12345; }

/* What gives nothing back writes nothing by which others would learn what else the helper has written. */
static void release_former(void) {
    const unsigned units = atomic_exchange(&world.former, 0);
    if (units) atomic_fetch_add(&hak_pool_stats.dirty_units, units);
}
void hak_stock_close(void) {
    atomic_store(&world.closed, true);
    release_former();
}
void hak_stock_open(void) { atomic_store(&world.closed, false); }

void hak_purge_settle(void) { atomic_store(&world.note, 0); }

void hak_purge_round(uint32_t delay_ms) {
    EXPLORE_CHECK(delay_ms != UINT32_MAX, "a purge although there shall be none");
    release_former();
    hak_purge_settle();
    const size_t locked = atomic_load(&world.locked);
    if (atomic_load(&hak_pool_stats.dirty_units) != locked)
        atomic_store(&hak_pool_stats.dirty_units, locked);
    if (atomic_load(&hak_huge_stats.kept_bytes)) atomic_store(&hak_huge_stats.kept_bytes, 0);
}

/* A look changes nothing that the helper sleeps on. */
void hak_band_cost_pass(uint64_t now_ms) { (void)now_ms; }
uint64_t hak_os_now_ms(void) { return model.now_ms; }

/* Nobody watches: a watcher adds looks to the rounds, and nothing that wakes. */
hak_watcher_t hak_purge_watcher(void) { return NULL; }
uint64_t hak_os_cpu_ms(void) { return 0; }

/* A thread of the program is done. */
static ASKED HAK_OUT_OF_LINE void leave(void) { model.busy--; }

static ASKED bool is_quiet(const void *unused) {
    (void)unused;
    return model.busy <= 1; /* the last one may watch the helper */
}

static ASKED bool is_urged(const void *unused) {
    (void)unused;
    return *(volatile uint32_t *)&urged != 0;
}

/* What ends the wait at last: the state, or a thread that comes. */
static ASKED bool has_changed(const void *state) {
    return *(volatile uint32_t *)&hak_helper_state != *(const uint32_t *)state ||
           *(volatile unsigned *)&world.threads != 0;
}

/* The kernel reads the word: from then on the thread knows its value. */
static void read_as_kernel(_Atomic uint32_t *word) {
    memory_atomic_begin(word, sizeof *word);
    const uint32_t found = *(volatile uint32_t *)word;
    memory_atomic_end(word, "futex wait", true, false, __ATOMIC_RELAXED, found, found);
}

/* A nap ends any time; after some, not before the program has done its part. Where naps are long, only what is urgent ends
 * one. The last thread of a program waits for the state: once in vain, then until it changes. */
bool hak_os_futex_wait_for(_Atomic uint32_t *word, uint32_t value, unsigned ms) {
    if (word == &hak_helper_state && value == ASLEEP && explore_thread() == HELPER) {
        hak_os_futex_wait(word, value); /* only a wake-up ends its sleep */
        return true;
    }
    if (word == &hak_helper_state) {
        if (model.waits++ == 0)
            explore_step();
        else
            explore_await(has_changed, &value);
        read_as_kernel(word);
        return true;
    }
    EXPLORE_CHECK(word == &urged && value == 0, "a nap on another word");
    if (model.naps_long) {
        explore_await(is_urged, NULL);
        return true;
    }
    model.now_ms += ms;
    if (model.rounds++ < ROUNDS_MAX)
        explore_step();
    else
        explore_await(is_quiet, NULL);
    return true;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void keep_old_values(void) {
    memory_keep_old(&hak_helper_state);
    memory_keep_old(&noted);
    memory_keep_old(&urged);
    memory_keep_old(&stuck_units);
    memory_keep_old(&hak_pool_stats.dirty_units);
    memory_keep_old(&hak_huge_stats.kept_bytes);
    memory_keep_old(&world.threads);
    memory_keep_old(&world.delay);
}

static void begin(unsigned threads) {
    futex_reset(false);
    memset((void *)&hak_pool_stats, 0, sizeof hak_pool_stats);
    memset((void *)&hak_huge_stats, 0, sizeof hak_huge_stats);
    hak_helper_state = NONE;
    noted = false;
    urged = 0;
    mark = NULL;
    own_word.owner = HAK_WORD_INHERITED;
    hak_store_relaxed(&world.note, 0);
    hak_store_relaxed(&world.locked, 0);
    hak_store_relaxed(&world.former, 0);
    hak_store_relaxed(&world.closed, false);
    hak_store_relaxed(&world.owned, false);
    hak_store_relaxed(&world.inside, false);
    number = 0;
    stuck_units = 0;
    model.now_ms = 0;
    hak_store_relaxed(&hak_pool_stats.used_units, HEAP_UNITS);
    hak_store_relaxed(&world.threads, threads);
    hak_store_relaxed(&world.delay, 500);
    model.rounds = 0;
    model.busy = threads;
    model.helper = NULL;
    model.started = model.joined = model.waits = 0;
    model.has_ended = model.naps_long = false;
    hak_helper_start();
    EXPLORE_CHECK(model.helper != NULL, "no helper for a large heap");
}

/* Loads may see old values, too. */
static void prepare(unsigned threads) {
    keep_old_values();
    begin(threads);
}

static void prepare_one(void) { prepare(1); }
static void prepare_noted(void) {
    prepare(2);
    hak_store_relaxed(&noted, true);
}
static void prepare_two_ends(void) { begin(2); }
static void prepare_two(void) { prepare(2); }
static void prepare_late(void) {
    begin(1);
    model.busy = 2;
}
/* The child of a clone that runs no fork handler: the state of a helper in some state, and no helper. */
static void prepare_child(void) {
    static const uint32_t states[] = {STARTING, ASLEEP, AWAKE, ENDED, REAPING};
    begin(2);
    hak_store_relaxed(&hak_helper_state, states[explore_choose(sizeof states / sizeof *states)]);
    own_word.owner = HAK_WORD_INHERITED;
    number = PARENTS_HELPER;
    hak_store_relaxed(&world.owned, true);
    hak_store_relaxed(&world.inside, true);
    model.started = model.joined = 0;
    model.has_ended = true; /* nobody is there to end */
    model.helper = NULL;
}
static void prepare_three(void) { prepare(3); }
static void prepare_never(void) {
    prepare(3);
    hak_store_relaxed(&world.delay, (uint64_t)-1);
}

/* As much as wakes the helper is locked. */
static void prepare_locked(void) {
    prepare(1);
    atomic_store(&world.locked, MUCH);
    atomic_store(&hak_pool_stats.dirty_units, MUCH);
}

static void prepare_naps(void) {
    prepare(1);
    model.naps_long = true;
}

static ASKED HAK_OUT_OF_LINE void note_end(void) { model.has_ended = true; }

static void run_helper(void) {
    model.helper(NULL);
    note_end();
}

static void make_dirty(unsigned units) {
    atomic_fetch_add(&hak_pool_stats.dirty_units, units);
    hak_helper_wake();
}

static void keep(unsigned units) {
    atomic_fetch_add(&hak_huge_stats.kept_bytes, units * HAK_UNIT_SIZE);
    hak_helper_wake();
}

static void end(void) {
    atomic_fetch_sub(&world.threads, 1);
    hak_helper_wake();
    leave();
}

/* The last thread outlives the helper, unless another thread sees to that. */
static void end_last(void) {
    atomic_fetch_sub(&world.threads, 1);
    hak_helper_outlive();
    leave();
}

/* A thread that comes late starts a helper if there is none. */
static void begin_late(void) {
    atomic_fetch_add(&world.threads, 1);
    hak_helper_start();
    leave();
}

/* A look of a call, which then may start a helper. */
static void note_and_start(void) {
    hak_helper_note();
    hak_helper_start();
    leave();
}
static void note_and_end(void) {
    hak_helper_note();
    end_last();
}

static ASKED bool has_rested(const void *unused) {
    (void)unused;
    return model.busy == 1 && futex_is_asleep(HELPER);
}

/* The others' threads are still there; all end together with the one that watches. */
static void end_all(void) {
    atomic_store(&world.threads, 0);
    hak_helper_wake();
}

static void free_much(void) {
    make_dirty(MUCH);
    leave();
}
static void free_half(void) {
    make_dirty(MUCH / 2);
    leave();
}
static void keep_half(void) {
    keep(MUCH / 2);
    leave();
}
/* Slabs are left, as in hak_stock_keep. */
static void leave_slabs(void) {
    if (atomic_load(&world.closed))
        atomic_fetch_add(&hak_pool_stats.dirty_units, MUCH);
    else
        atomic_fetch_add(&world.former, MUCH);
    if (atomic_load(&world.closed)) release_former();
    hak_helper_wake();
    leave();
}
static void free_little(void) {
    make_dirty(1);
    hak_helper_note();
    leave();
}
/* A malloc that gives back something and wakes nobody, as where it moves a block. */
static void move_little(void) {
    hak_add_relaxed(&hak_pool_stats.dirty_units, 1);
    hak_helper_note();
    leave();
}
static void hurry(void) {
    atomic_store(&world.note, 1);
    hak_helper_urge();
    leave();
}
static void change_delay(void) {
    hak_store_relaxed(&world.delay, 500);
    atomic_thread_fence(memory_order_seq_cst); /* as hak_thread_apply_options */
    hak_helper_note();
    leave();
}
static void free_and_end(void) {
    make_dirty(MUCH);
    end();
}

/* Once nothing moves any more, nothing that is worth a purge waits for one; then the last thread of
 * the program ends, and so must the helper. */
static void watch_and_end(void) {
    explore_await(has_rested, NULL);
    size_t units = atomic_load(&hak_pool_stats.dirty_units) + atomic_load(&world.former) +
                   atomic_load(&hak_huge_stats.kept_bytes) / HAK_UNIT_SIZE;
    EXPLORE_CHECK(units < MUCH, "the helper sleeps while %zu units wait for it", units);
    end_all();
}

static void watch_all_clean(void) {
    explore_await(has_rested, NULL);
    EXPLORE_CHECK(atomic_load(&hak_pool_stats.dirty_units) == 0,
                  "the helper sleeps although the program was at work since its last round");
    end_all();
}

static void watch_no_note(void) {
    explore_await(has_rested, NULL);
    EXPLORE_CHECK(atomic_load(&world.note) == 0, "the helper sleeps although a note is urgent");
    end_all();
}

/* What is locked lets the helper sleep, and what is freed then wakes it. */
static void rest_and_free(void) {
    explore_await(has_rested, NULL);
    make_dirty(MUCH);
    explore_await(has_rested, NULL);
    EXPLORE_CHECK(atomic_load(&hak_pool_stats.dirty_units) < 2 * MUCH,
                  "the helper sleeps on what was freed");
    end_all();
}

/* What was locked goes back after all; what is freed then wakes the helper though as much was stuck before. */
static void unlock_and_free(void) {
    explore_await(has_rested, NULL);
    atomic_store(&world.locked, 0);
    hak_helper_note();
    explore_await(has_rested, NULL);
    make_dirty(MUCH);
    explore_await(has_rested, NULL);
    EXPLORE_CHECK(atomic_load(&hak_pool_stats.dirty_units) < MUCH,
                  "the helper sleeps on what was freed, for what was stuck once");
    end_all();
}

static void finally(void) {
    EXPLORE_CHECK(hak_helper_state == ENDED, "the helper has ended, and its state is %u",
                  hak_helper_state);
}

/* Who was last has joined it. */
static void finally_joined(void) {
    EXPLORE_CHECK(hak_helper_state == NONE && model.joined == 1,
                  "the last thread has ended, the helper's state is %u", hak_helper_state);
}

/* Here it may go on, have ended with nobody to see it, or be another one. */
static void finally_another(void) {
    EXPLORE_CHECK(hak_helper_state != REAPING && (hak_helper_state != NONE || model.joined == 1),
                  "the helper's state is %u", hak_helper_state);
}

/* What is left is not the parent's. */
static void finally_own(void) {
    EXPLORE_CHECK(own_word.owner == HAK_WORD_OWN, "nobody has looked whose helper it is");
    EXPLORE_CHECK(hak_helper_state == (model.started ? STARTING : NONE),
                  "%u helpers, and the state is %u", model.started, hak_helper_state);
    EXPLORE_CHECK(model.joined == 0, "the parent's helper is joined");
    EXPLORE_CHECK(!atomic_load(&world.owned), "the parent's helper still has the work");
    EXPLORE_CHECK(!atomic_load(&world.inside), "a fork would wait for the parent's helper");
}

static const char *describe(const volatile void *variable) {
    return variable == &hak_helper_state             ? "the helper's state"
           : variable == &noted                      ? "the note"
           : variable == &urged                      ? "the urgent word"
           : variable == &mark                       ? "the mark"
           : variable == &own_word.owner             ? "the word of the process"
           : variable == &world.note                 ? "what is urgent"
           : variable == &hak_pool_stats.dirty_units ? "dirty units"
           : variable == &hak_huge_stats.kept_bytes  ? "kept bytes"
           : variable == &world.threads              ? "the count of threads"
           : variable == &stuck_units                ? "the stuck units"
           : variable == &world.locked               ? "the locked units"
           : variable == &world.delay                ? "the delay"
           : variable == &world.former               ? "the former slabs"
           : variable == &world.closed               ? "whether stocks are closed"
           : variable == &world.owned                ? "whether the parent's helper has the work"
           : variable == &world.inside               ? "whether it is inside the gate"
                                                     : NULL;
}

#define RULES .finally = finally, .describe = describe

/* For three or four threads beside a helper, which have too many orders where loads see old values, too. */
static const explore_bounds_t bounds = {3, 60000, 20000};

static const explore_scenario_t scenarios[] = {
    {"the last thread frees much and ends", prepare_one, {run_helper, free_and_end}, RULES},
    {"the last thread outlives the helper",
     prepare_one,
     {run_helper, end_last},
     .finally = finally_joined,
     .describe = describe},
    {"the last thread ends while the helper naps",
     prepare_naps,
     {run_helper, end_last},
     .finally = finally_joined,
     .describe = describe},
    {"two last threads",
     prepare_two_ends,
     {run_helper, end_last, end_last},
     .finally = finally_joined,
     .bounds = &bounds,
     .describe = describe},
    {"a thread comes when the last one ends",
     prepare_late,
     {run_helper, end_last, begin_late},
     .finally = finally_another,
     .bounds = &bounds,
     .describe = describe,
     .daemons = 1u << HELPER},
    {"a clone's child looks whose helper it is",
     prepare_child,
     {note_and_start, note_and_end},
     .finally = finally_own,
     .describe = describe},
    {"two threads end", prepare_two, {run_helper, end, end}, RULES},
    {"much is freed, then rest", prepare_two, {run_helper, free_much, watch_and_end}, RULES},
    {"slabs are left, then rest", prepare_two, {run_helper, leave_slabs, watch_and_end}, RULES},
    {"a note, then rest", prepare_two, {run_helper, free_little, watch_all_clean}, RULES},
    {"a note without a wake-up while one is taken, then rest",
     prepare_noted,
     {run_helper, move_little, watch_all_clean},
     RULES},
    {"an urgent note, then rest", prepare_two, {run_helper, hurry, watch_no_note}, RULES},
    {"two urgent notes",
     prepare_three,
     {run_helper, hurry, hurry, watch_no_note},
     .bounds = &bounds,
     RULES},
    {"a delay after never",
     prepare_never,
     {run_helper, free_much, change_delay, watch_all_clean},
     .bounds = &bounds,
     RULES},
    {"much that is freed while much is locked", prepare_locked, {run_helper, rest_and_free}, RULES},
    {"much that was locked is freed, then much more",
     prepare_locked,
     {run_helper, unlock_and_free},
     RULES},
    {"two halves of much are freed",
     prepare_three,
     {run_helper, free_half, keep_half, watch_and_end},
     RULES},
};

int main(int argc, char **argv) {
    memory_track(&hak_helper_state, sizeof hak_helper_state);
    memory_track(&noted, sizeof noted);
    memory_track(&urged, sizeof urged);
    memory_track(&mark, sizeof mark);
    memory_track(&own_word, sizeof own_word);
    memory_track(&number, sizeof number);
    memory_track(&stuck_units, sizeof stuck_units);
    memory_track(&hak_pool_stats, sizeof hak_pool_stats);
    memory_track(&hak_huge_stats, sizeof hak_huge_stats);
    memory_track(&world, sizeof world);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
