/* note.c: explores the notes by which lower layers ask for purge work (the protocol in src/pool/purge_budget.h), on the
 * real src/thread/purge_trigger.c and purge_pass.c. Loads may see old values: a look at a bit, and the owner's at what
 * the bit stands for. Also a call that would fail beside an owner that has in its hands what the call needs.
 *
 *   note             every scenario must hold
 *   note --broken    the sources were broken on purpose: some scenario must fail */
#include "thread/purge_trigger.c" /* its words are its own, and have to be tracked */

#include "cache/cpu_depot.h"
#include "explore.h"
#include "large/heap.h"
#include "large/huge.h"
#include "large/large.h"
#include "memory.h"
#include "os/cpu.h"
#include "pool/purge.h"
#include "scenarios.h"

_Atomic uint32_t hak_shard_grown HAK_ALIGNED(64);
_Atomic uint32_t hak_shard_visits_due HAK_ALIGNED(64);

/* What a stage of a pass finds without a lock: whether there is something in it. */
static struct {
    _Atomic uint32_t kept HAK_ALIGNED(64);
    _Atomic uint32_t idle HAK_ALIGNED(64);
    _Atomic uint32_t listed HAK_ALIGNED(64); /* committed, and in the list of a stage */
    _Atomic uint32_t room HAK_ALIGNED(64);   /* what the limit leaves */
} stage;

/* The scenario's own, in a line of its own. */
static struct {
    bool is_small;  /* a piece gives back one unit */
    bool forks;     /* once, in the midst of a piece */
    bool has_limit; /* and `listed` is as much as one request needs */
} model HAK_ALIGNED(64);

/* What owners have done. */
static struct {
    _Atomic uint32_t units HAK_ALIGNED(64);
    _Atomic uint32_t visits HAK_ALIGNED(64);
} done;

/* ---- Stand-ins ------------------------------------------------------------------------------- */

__thread hak_tick_t hak_tick;
void hak_tick_hurry(void) {} /* a thread that notes looks at the end of its call */
bool hak_tick_settle(void) { return false; }

const hak_cache_t hak_cache_none, hak_cache_dead;
__thread hak_cache_t *hak_cache;
void hak_cache_brake(hak_cache_t *cache) { (void)cache; }
void hak_cache_unbrake(hak_cache_t *cache) { (void)cache; }
void hak_cache_flush_all(hak_cache_t *cache) { (void)cache; }
hak_cache_t *hak_thread_cache(void) { return NULL; }
void hak_thread_flush_quarantine(hak_cache_t *cache) { (void)cache; }
bool hak_thread_flush_waiting(unsigned *left) { return (void)left, true; }
void hak_thread_follow_cpus(uint64_t now, bool at_once) { (void)now, (void)at_once; }
void hak_thread_look_at_limits(void) {}
void hak_thread_forget_steps(void) {}
void hak_band_cost_tick(uint64_t now_ms, uint32_t *own) { (void)now_ms, (void)own; }

int64_t hak_option(hak_option_t option) { return option == HAK_OPTION_PURGE_DELAY_MS ? 500 : 0; }
unsigned hak_os_cpu_count(void) { return 1; }
uint64_t hak_os_now_ms(void) { return 1; }
bool hak_os_sleep_ms(unsigned ms) {
    (void)ms;
    explore_sleep();
    return true;
}
bool hak_gate_is_mine(void) { return false; }
uintptr_t hak_os_thread(void) { return explore_thread() + 1; }
size_t hak_commit_bytes(void) { return 0; }
size_t hak_commit_soft(void) { return 0; }
bool hak_commit_pressure(void) { return false; }

/* Without a helper: calls do the work. */
void hak_helper_start(void) {}
void hak_helper_start_early(void) {}
void hak_helper_note(void) {}
void hak_helper_urge(void) {}
bool hak_helper_runs(void) { return false; }

size_t hak_purge_ahead_excess(void) { return 0; }
bool hak_purge_ahead_falls(void) { return false; }
bool hak_purge_ahead_rests(void) { return false; }
bool hak_purge_ahead_is_due(uint64_t now_ms) { return (void)now_ms, false; }
void hak_purge_ahead_look(uint64_t now_ms) { (void)now_ms; }
void hak_purge_ahead_gave(size_t bytes) { (void)bytes; }
void hak_purge_ahead_forget(void) {}

bool hak_depot_sweep(hak_walk_t *walk, bool all, unsigned *patience, hak_budget_t *budget) {
    return (void)walk, (void)all, (void)patience, (void)budget, true;
}
unsigned hak_group_full(void) { return 0; }
void hak_shard_release_idle(void) {}
bool hak_shard_release_piece(hak_walk_t *walk, unsigned *patience, hak_budget_t *budget) {
    return (void)walk, (void)patience, (void)budget, true;
}
bool hak_shard_purge_piece(hak_walk_t *walk, hak_sparse_t which, uint32_t delay_ms,
                           hak_budget_t *budget, size_t *bytes) {
    return (void)walk, (void)which, (void)delay_ms, (void)budget, (void)bytes, true;
}
size_t hak_large_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget) {
    (void)delay_ms, (void)budget;
    *at = HAK_HEAPS_MAX;
    return 0;
}
size_t hak_pool_purge_piece(uint32_t delay_ms, bool all, hak_budget_t *budget) {
    return (void)delay_ms, (void)all, (void)budget, 0;
}
size_t hak_pool_unmap_free(void) { return 0; }
bool hak_shard_may_visit(bool is_for_calls) { return (void)is_for_calls, false; }

static void spend(hak_budget_t *budget) {
    if (model.is_small) budget->bytes = 0;
}

/* A signal handler comes here. In the child it starts another thread. */
static void fork_as_a_handler(void) {
    if (!model.forks) return;
    model.forks = false;
    hak_purge_forget();
    explore_start(2);
}
size_t hak_shard_purge_grown(size_t bytes, hak_budget_t *budget) {
    (void)bytes;
    if (hak_budget_is_spent(budget)) return 0;
    fork_as_a_handler();
    spend(budget);
    hak_add_relaxed(&done.units, 1);
    return 1;
}
size_t hak_shard_visit(hak_budget_t *budget) {
    spend(budget);
    hak_add_relaxed(&done.visits, 1);
    return 0;
}

/* A stage empties what it sees something in. */
static void empty(_Atomic uint32_t *what) {
    if (hak_load_relaxed(what)) hak_store_relaxed(what, 0);
}
/* In its hands between the two steps. As unmap_batch of src/large/huge_kept.c. */
static void give_back(void) {
    const uint32_t taken = hak_exchange_acq_rel(&stage.listed, 0);
    if (taken) hak_add_relaxed(&stage.room, taken);
}
bool hak_huge_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget, size_t *bytes) {
    (void)at, (void)delay_ms, (void)budget, (void)bytes;
    empty(&stage.kept);
    if (model.has_limit) give_back();
    return true;
}
size_t hak_large_purge_sparse_piece(unsigned *at, hak_budget_t *budget) {
    (void)budget;
    empty(&stage.idle);
    *at = HAK_HEAPS_MAX;
    return 0;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(void) {
    hak_store_relaxed(&hak_budget_notes, 0);
    hak_store_relaxed(&hak_shard_grown, 0);
    hak_store_relaxed(&hak_shard_visits_due, 0);
    hak_store_relaxed(&stage.kept, 0);
    hak_store_relaxed(&stage.idle, 0);
    hak_store_relaxed(&owner, 0);
    memset(works, 0, sizeof works);
    present = 0;
    is_left_behind = false;
    end_pass();
    memset(&model, 0, sizeof model);
    hak_store_relaxed(&done.units, 0);
    hak_store_relaxed(&done.visits, 0);
    hak_store_relaxed(&stage.listed, 0);
    hak_store_relaxed(&stage.room, 0);
    memory_keep_old(&hak_budget_notes);
    memory_keep_old(&hak_shard_grown);
    memory_keep_old(&hak_shard_visits_due);
    memory_keep_old(&stage.kept);
    memory_keep_old(&stage.idle);
}

/* All is noted already. */
static void prepare_noted(void) {
    prepare();
    hak_store_relaxed(&hak_shard_grown, 1);
    hak_store_relaxed(&hak_shard_visits_due, 1);
    hak_store_relaxed(&hak_budget_notes,
                      HAK_NOTE_GROWN | HAK_NOTE_VISIT | HAK_NOTE_HUGE | HAK_NOTE_SPARSE);
}
static void prepare_small(void) {
    prepare_noted();
    model.is_small = true;
}

/* One of the two is due, twice. */
static void prepare_growth(void) {
    prepare();
    hak_store_relaxed(&hak_shard_grown, 2);
    hak_store_relaxed(&hak_budget_notes, HAK_NOTE_GROWN);
}
static void prepare_visits(void) {
    prepare();
    hak_store_relaxed(&hak_shard_visits_due, 2);
    hak_store_relaxed(&hak_budget_notes, HAK_NOTE_VISIT);
}
static void prepare_handler(void) {
    prepare_growth();
    model.forks = true;
}

static void prepare_limit(void) {
    prepare();
    model.has_limit = true;
    hak_store_relaxed(&stage.listed, 1);
    hak_store_relaxed(&hak_budget_notes, HAK_NOTE_HUGE);
    memory_keep_old(&stage.room);
}

/* As note_taken of src/shard/shard.c. */
static void grow(void) {
    hak_add_relaxed(&hak_shard_grown, 1);
    hak_budget_note(HAK_NOTE_GROWN);
}
static void take(void) {
    hak_add_relaxed(&hak_shard_visits_due, 1);
    hak_budget_note(HAK_NOTE_VISIT);
}
static void keep(void) {
    hak_add_relaxed(&stage.kept, 1);
    hak_budget_note(HAK_NOTE_HUGE);
}
static void free_large(void) {
    hak_add_relaxed(&stage.idle, 1);
    hak_budget_note(HAK_NOTE_SPARSE);
}

/* The end of a slow call. */
static void look(void) { hak_purge_look(0, false); }
static void grow_and_look(void) {
    grow();
    look();
}
static void take_and_look(void) {
    take();
    look();
}
static void keep_and_look(void) {
    keep();
    look();
}

/* Another thread is the owner, or is not yet, or has been. The child has no other thread. */
static void fork_beside(void) {
    explore_stop_others();
    memory_join();
    hak_purge_forget();
}

/* As add_below of src/commit/commit.c. */
static bool is_served(void) {
    uint32_t room = hak_load_relaxed(&stage.room);
    while (room)
        if (hak_cas_acquire(&stage.room, &room, room - 1)) return true;
    return false;
}
static void request(void) {
    if (is_served()) return;
    hak_purge_for(1);
    EXPLORE_CHECK(is_served(), "a request is refused while what it needs goes back");
}
/* One that finds no room either way. */
static void request_too_much(void) { hak_purge_for(1); }

static void check(uint32_t state, uint32_t note, const char *what) {
    EXPLORE_CHECK(state == 0 || hak_load_relaxed(&hak_budget_notes) & note,
                  "%s, and no note says so", what);
}

static void finally(void) {
    check(hak_load_relaxed(&hak_shard_grown), HAK_NOTE_GROWN, "the heap has grown");
    check(hak_load_relaxed(&hak_shard_visits_due), HAK_NOTE_VISIT, "visits are due");
    check(hak_load_relaxed(&stage.kept), HAK_NOTE_HUGE, "too much is kept");
    check(hak_load_relaxed(&stage.idle), HAK_NOTE_SPARSE, "a large heap has sparse memory");
    EXPLORE_CHECK(hak_load_relaxed(&owner) == 0, "the work has an owner yet");
    hak_purge_settle(); /* what is noted is also done */
    EXPLORE_CHECK(!hak_load_relaxed(&hak_shard_grown) && !hak_load_relaxed(&hak_shard_visits_due) &&
                      !hak_load_relaxed(&stage.kept) && !hak_load_relaxed(&stage.idle),
                  "what was noted is not done");
}

/* Nothing of what was due is lost, though some of it may be done twice. */
static void finally_paid(void) {
    finally();
    const uint32_t units = hak_load_relaxed(&done.units);
    EXPLORE_CHECK(units >= 2, "of 2 units %u were given back", units);
}
static void finally_visited(void) {
    finally();
    const uint32_t visits = hak_load_relaxed(&done.visits);
    EXPLORE_CHECK(visits >= 2, "of 2 visits %u were made", visits);
}

static const char *describe(const volatile void *variable) {
    return variable == &hak_budget_notes       ? "the notes"
           : variable == &hak_shard_grown      ? "units that the heap has grown by"
           : variable == &hak_shard_visits_due ? "visits that are due"
           : variable == &stage.kept           ? "huge mappings that are kept"
           : variable == &stage.idle           ? "idle memory of a large heap"
           : variable == &done.units           ? "units that were given back"
           : variable == &done.visits          ? "visits that were made"
           : variable == &stage.listed         ? "memory in the list of a stage"
           : variable == &stage.room           ? "what the limit leaves"
           : variable == &owner                ? "the owner"
                                               : NULL;
}

#define RULES .finally = finally, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"the heap grows while its note is taken", prepare_noted, {grow, hak_purge_settle}, RULES},
    {"slabs are taken while their note is", prepare_noted, {take, hak_purge_settle}, RULES},
    {"huge mappings are kept while their note is taken",
     prepare_noted,
     {keep, hak_purge_settle},
     RULES},
    {"large blocks are freed while their note is taken",
     prepare_noted,
     {free_large, hak_purge_settle},
     RULES},
    {"two calls note, and do the work at their end",
     prepare,
     {grow_and_look, take_and_look},
     RULES},
    {"two calls note the same", prepare, {keep_and_look, keep_and_look}, RULES},
    {"the heap grows while calls do the work",
     prepare,
     {grow_and_look, grow_and_look, look},
     RULES},
    {"a piece ends before growth is served", prepare_small, {grow, hak_purge_settle}, RULES},
    {"a piece ends before visits are made", prepare_small, {take, hak_purge_settle}, RULES},
    {"a fork while another thread pays for growth",
     prepare_growth,
     {fork_beside, hak_purge_settle},
     .finally = finally_paid,
     .describe = describe},
    {"a fork while another thread makes a visit",
     prepare_visits,
     {fork_beside, hak_purge_settle},
     .finally = finally_visited,
     .describe = describe},
    {"a handler forks while its thread pays, and starts a thread",
     prepare_handler,
     {hak_purge_settle, hak_purge_settle},
     .finally = finally_paid,
     .describe = describe,
     .later = 1 << 2},
    {"a request beside an owner", prepare_limit, {request, hak_purge_settle}, RULES},
    {"a request beside one that is refused", prepare_limit, {request, request_too_much}, RULES},
    {"a request beside both", prepare_limit, {request, hak_purge_settle, request_too_much}, RULES},
};

int main(int argc, char **argv) {
    memory_track(&hak_budget_notes, sizeof hak_budget_notes);
    memory_track(&hak_shard_grown, sizeof hak_shard_grown);
    memory_track(&hak_shard_visits_due, sizeof hak_shard_visits_due);
    memory_track(&stage, sizeof stage);
    memory_track(&done, sizeof done);
    memory_track(&owner, sizeof owner);
    memory_track(works, sizeof works);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
