/* helper.c: explores how the helper thread of src/thread/helper_thread.c falls asleep and is woken, on the
 * real source.
 *
 *   helper             every scenario must hold
 *   helper --broken    the source was broken on purpose: some scenario must fail */
#include <string.h>

#include "thread/helper_thread.c" /* its words are its own, and have to be tracked */
#include "helper_world.h"
#include "scenarios.h"

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
