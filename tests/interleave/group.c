/* group.c: explores starts and ends of threads (the protocols in src/thread/home_group.h, silent_exit.h and cache_budget.h),
 * on the real sources: two groups of two shards each.
 *
 *   group             every scenario must hold
 *   group --broken    the sources were broken on purpose: some scenario must fail */
#include "thread/home_group.h"

#include <string.h>

#include "cache/cpu_depot.h"
#include "cache/sampler.h"
#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/lock.h"
#include "os/numa_topology.h"
#include "os/os.h"
#include "debug_record/record.h"
#include "scenarios.h"
#include "shard/shard.h"
#include "thread/silent_exit.h"
#include "thread/cache_budget.h"
#include "thread/thread.h"
#include "trace.h"

enum { CACHES = 9, SHARDS = 4, FAR = 2, FIRST = 0, DEAD = 9, PROCESS = 2 };
enum { PLACE = 1000, LOST = 2 }; /* a thread's place is so many times its number */

static hak_cache_t caches[CACHES] HAK_ALIGNED(HAK_LINE);
static struct {
    _Atomic unsigned made;
} shared HAK_ALIGNED(HAK_LINE);
hak_lock_t hak_thread_list_lock HAK_ALIGNED(HAK_LINE);
static struct {
    unsigned cpu[EXPLORE_THREADS_MAX];
    hak_cache_t *own[EXPLORE_THREADS_MAX]; /* the running thread's */
    size_t tiny;                           /* what each cache may hold */
    unsigned threads, cpus;
    unsigned most;                        /* caches that may be made */
    unsigned held;                        /* caches of threads that do nothing */
    unsigned number[EXPLORE_THREADS_MAX]; /* of the thread; 0: that of the body, and one more */
    unsigned left;                        /* the first caches, with threads that are gone */
    bool looks;                           /* starts look for caches of threads that are gone */
    bool shares; /* the second body's place has the entry of the first one's */
    bool is_child;
    bool was_woken; /* the helper, since nobody was left */
} model;

/* ---- What groups stand on -------------------------------------------------------------------- */

/* Edits of the sources name their variables. */
void *group_place(unsigned number, size_t *size);
void *share_place(unsigned number, size_t *size);

int64_t hak_option(hak_option_t option) { return option == HAK_OPTION_SHARD_MIX; }
unsigned hak_os_cpu_count(void) { return model.cpus; }
_Atomic unsigned hak_node_count; /* one node */
hak_span_t hak_node_span(unsigned number, unsigned homes) {
    (void)number;
    return (hak_span_t){0, homes};
}
unsigned hak_node_of_this_cpu(void) { return 0; }
void hak_nodes_begin(void) {}
bool hak_os_is_single_threaded(void) { return false; }
unsigned hak_shard_here(void) { return model.cpu[explore_thread()]; }
static unsigned number_of(unsigned body) {
    return model.number[body] ? model.number[body] : body + 1;
}
unsigned hak_os_thread_id(void) { return number_of(explore_thread()); }
unsigned hak_os_process_id(void) { return PROCESS; }
uintptr_t hak_os_thread(void) { return (uintptr_t)PLACE * number_of(explore_thread()); }
bool hak_gate_is_lost(const hak_gate_post_t *post) {
    return hak_load_acquire(&post->process) == LOST; /* the orders of gate.c */
}
uint64_t hak_os_memory_limit(void) { return 0; }
uint32_t hak_gate_process(void) { return 1; }
unsigned hak_shard_homes(void) { return SHARDS; }
unsigned hak_shard_count(void) { return SHARDS; }
unsigned hak_shard_open(unsigned shard) { return shard; }
void hak_depot_set_share(size_t tiny_bytes, bool has_more_threads) {
    (void)tiny_bytes, (void)has_more_threads;
}
_Atomic bool hak_pool_crowded; /* closed: no thread is a novice */
_Atomic uint32_t hak_depot_novice_calls;
_Atomic uint8_t hak_records = HAK_RECORDS_OFF;
bool hak_sampler_is_wanted(void) { return false; }
void hak_cache_set_budget(hak_tier_t tier, size_t bytes) {
    if (tier == HAK_TINY) model.tiny = bytes;
}
void hak_gate_take(hak_gate_post_t *post) { hak_store_release(&post->process, 1); }
void hak_gate_release(hak_gate_post_t *post) { hak_store_relaxed(&post->process, HAK_GATE_NOBODY); }

void hak_check_failed(hak_check_t *check, const char *what, const void *object,
                      const char *equation, const uint64_t *sides) {
    (void)check, (void)object, (void)sides;
    explore_fail("%s: %s", what, equation);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void start(void) {
    const unsigned self = explore_thread();
    hak_gate_enter();
    const hak_seat_t seat = hak_group_choose();
    hak_cache_t *cache = hak_group_take(seat, false);
    if (!cache && model.looks && (cache = hak_silent_exit_take()) != NULL) {
        EXPLORE_CHECK(number_of(self) == DEAD, "a cache is taken from a thread at another place");
        EXPLORE_CHECK(cache >= &caches[model.left], "a cache is taken that is to stay");
        model.threads--;
        hak_group_join(cache, seat);
    }
    if (!cache && atomic_load(&shared.made) >= model.most) /* no memory for a new one */
        cache = hak_group_take(seat, true);
    if (!cache) {
        unsigned number = atomic_fetch_add(&shared.made, 1);
        EXPLORE_CHECK(number < model.most, "a cache waits, and another one is made");
        cache = &caches[number];
        hak_group_join(cache, seat);
    }
    hak_thread_fit();
    if (model.looks) hak_silent_exit_note(cache);
    EXPLORE_CHECK(cache->tid == number_of(self) && !model.own[self], "a cache has another thread");
    memory_write(cache->magazines, sizeof cache->magazines[0]); /* it is this thread's alone */
    model.own[self] = cache;
    model.threads++;
    hak_gate_leave();
}

/* As hak_helper_wake: who sees that no thread is left wakes the helper, so that it ends. */
static void wake_helper(void) {
    if (hak_thread_count() == 0) model.was_woken = true;
}

static void end(void) {
    const unsigned self = explore_thread();
    hak_cache_t *cache = model.own[self];
    const bool keeps = hak_group_may_keep(cache);
    memory_write(cache->magazines, sizeof cache->magazines[0]);
    hak_gate_enter();
    EXPLORE_CHECK(cache->tid == number_of(self), "a cache has another thread");
    model.own[self] = NULL;
    model.threads--;
    hak_group_leave(cache, keeps);
    hak_thread_fit();
    EXPLORE_CHECK(hak_thread_count() <= 2 * CACHES, "the count is below 0");
    hak_gate_leave();
    wake_helper();
}

static void start_and_end(void) {
    start();
    end();
}

/* In the child of a fork, as take_lost of thread.c. */
static void adopt_lost(void) {
    const unsigned self = explore_thread();
    hak_gate_enter();
    hak_group_join(&caches[0], hak_group_choose());
    memory_write(caches[0].magazines, sizeof caches[0].magazines[0]);
    EXPLORE_CHECK(caches[0].tid == number_of(self), "a cache has another thread");
    model.own[self] = &caches[0];
    model.threads++;
    hak_thread_fit();
    hak_gate_leave();
}

static void end_and_start(void) {
    end();
    start();
}

static void empty_one(void) {
    hak_cache_t *cache = hak_group_take_full();
    if (!cache) return;
    EXPLORE_CHECK(cache->tid == 0, "a cache with a thread is emptied");
    memory_write(cache->magazines, sizeof cache->magazines[0]);
    hak_group_put_back(cache, explore_choose(2));
}

/* As hak_thread_look_at_limits. */
static void look(void) {
    hak_lock_acquire(&hak_thread_list_lock);
    hak_group_tell_all();
    hak_thread_share();
    hak_lock_release(&hak_thread_list_lock);
    wake_helper();
}

/* There is no memory for a cache. */
static void start_in_vain(void) {
    hak_gate_enter();
    hak_group_give_up(hak_group_choose());
    hak_thread_fit();
    hak_gate_leave();
    wake_helper();
}

static void look_at_rest(void) {
    look();
    EXPLORE_CHECK(hak_thread_count() == model.threads, "a look leaves %u threads",
                  hak_thread_count());
}

/* Threads that stand for ones that the explorer does not run. */
static void begin_with(unsigned threads, unsigned cpus) {
    size_t size;
    gates_reset(false);
    memory_keep_old(&caches[0].place);
    memory_keep_old(&caches[0].post.process);
    memset(&model, 0, sizeof model);
    memset(caches, 0, sizeof caches);
    model.cpus = cpus;
    model.most = CACHES;
    for (unsigned i = 0; i < 2; i++) {
        void *place = group_place(i, &size);
        memset(place, 0, size);
    }
    for (unsigned i = 0; i < 3; i++) {
        void *place = share_place(i, &size);
        memset(place, 0, size);
    }
    atomic_store_explicit(&shared.made, 0, memory_order_relaxed);
    atomic_store_explicit(&hak_thread_list_lock.state, 0, memory_order_relaxed);
    memset((void *)hak_places, 0, sizeof hak_places);
    for (unsigned i = 0; i < threads; i++) {
        start();
        model.own[0] = NULL;
    }
    model.held = threads;
}

static void prepare(void) { begin_with(0, SHARDS); }

/* The first thread is gone, and the first body runs at its place. */
static void prepare_dead(void) {
    begin_with(1, SHARDS);
    model.number[0] = DEAD; /* to note its place */
    caches[0].tid = DEAD;
    hak_store_relaxed(&caches[0].place, hak_os_thread());
    hak_silent_exit_note(&caches[0]);
    model.number[0] = 0;
    model.number[1] = DEAD;
    model.looks = true;
    model.held = 0;
    model.most = 2;
}

/* Three threads at once. */
static void prepare_dead_three(void) {
    prepare_dead();
    model.most = 3;
}

/* The second body's place shares its entry with that of the dead thread, whose cache may stay. */
static void prepare_shared_entry(void) {
    prepare_dead_three();
    unsigned other = DEAD + 1;
    while (hak_place_of((uintptr_t)PLACE * other) != hak_place_of((uintptr_t)PLACE * DEAD)) other++;
    model.number[2] = other;
}

/* The second body begins far away. */
static void prepare_dead_far(void) {
    prepare_dead();
    model.cpu[2] = FAR;
}

/* What stays with a thread that is gone. */
static void stay(void) {
    model.left = model.held = 1;
    model.most = 3;
}

static void prepare_dead_inside(void) {
    prepare_dead();
    stay();
    hak_store_relaxed(&caches[0].post.inside, 1);
}

static void prepare_other_process(void) {
    prepare_dead();
    stay();
    caches[0].process = PROCESS + 1;
}

/* The child of a fork: the second body takes the cache as a lost one. */
static void prepare_lost(void) {
    prepare_dead();
    stay();
    hak_store_relaxed(&caches[0].post.process, LOST);
}

static void prepare_dead_gate(void) {
    prepare_dead();
    gates_reset(true);
}

/* Two caches wait, in the group of shard 0: one with blocks at most. */
static void prepare_waiting(void) {
    begin_with(1, 2);
    start();
    end();
    model.own[0] = &caches[0];
    end();
    model.most = 2;
    model.held = 0;
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) model.cpu[i] = FIRST;
}

static void prepare_far(void) {
    prepare_waiting();
    model.cpu[2] = FAR;
}

static void prepare_apart(void) {
    prepare();
    model.cpu[2] = FAR;
}

/* The first group has more than its share and, for eight threads as for nine, a place for one more. */
static void prepare_crowded(void) { begin_with(7, SHARDS); }

/* Two threads; their group told three, and the budgets are for three. */
static void prepare_fewer(void) {
    begin_with(3, SHARDS);
    model.own[0] = &caches[2];
    end();
    model.held = 2;
}

/* One thread, which the first body ends. */
static void prepare_one(void) {
    begin_with(1, SHARDS);
    model.own[1] = &caches[0];
    caches[0].tid = 2;
    model.held = 0;
}

/* The same, and its memory serves again. */
static void prepare_one_again(void) {
    prepare_one();
    model.number[0] = 2; /* to note its place */
    hak_store_relaxed(&caches[0].place, hak_os_thread());
    hak_silent_exit_note(&caches[0]);
    model.number[0] = 0;
    model.looks = true;
    model.most = 2;
}

/* The same, and the second body starts at another place that has its entry. */
static void prepare_one_shared(void) {
    prepare_one_again();
    unsigned other = model.number[1] ? model.number[1] : 2;
    const hak_place_t *entry = hak_place_of((uintptr_t)PLACE * other);
    do other++;
    while (hak_place_of((uintptr_t)PLACE * other) != entry);
    model.number[2] = other;
    model.shares = true;
}

/* One of three threads is left, which the first body ends; so the group has told more than there are. */
static void prepare_last(void) {
    begin_with(3, SHARDS);
    for (unsigned i = 1; i < 3; i++) {
        model.own[0] = &caches[i];
        end();
    }
    model.own[1] = &caches[0];
    caches[0].tid = 2;
    model.held = 0;
}

static void prepare_gate(void) {
    prepare_waiting();
    gates_reset(true);
}

/* Each cache that was made waits or has a thread, and the budgets are those of about so many threads. */
static void all_is_there(void) {
    hak_check_t check = {0};
    bool seen[CACHES] = {false};
    const unsigned made = atomic_load(&shared.made), threads = hak_thread_count();
    size_t each = hak_thread_budget() / (threads ? threads : 1) / 15;
    if (model.is_child) return;
    hak_group_check(&check, CACHES);
    EXPLORE_CHECK(threads == model.threads ||
                      (threads > model.threads && threads < 2 * model.threads),
                  "%u threads, not %u", threads, model.threads);
    EXPLORE_CHECK(threads || model.was_woken, "no thread is left, and the helper sleeps");
    EXPLORE_CHECK(model.tiny <= each + each / 8 + 1 && model.tiny > each / 2, /* rounded */
                  "the budgets are not those of %u threads", threads);
    EXPLORE_CHECK(!model.shares || hak_load_relaxed(hak_place_of((uintptr_t)PLACE *
                                                                 model.number[2])) == model.own[2],
                  "the entry of a place does not lead to its thread's cache");
    for (unsigned i = 0; i < model.held; i++) seen[i] = true;
    if (model.looks && caches[0].tid == DEAD) seen[0] = true;
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        if (model.own[i]) seen[model.own[i] - caches] = true;
    for (hak_cache_t *cache; (cache = hak_group_take(hak_group_choose(), true)) != NULL;) {
        EXPLORE_CHECK(!seen[cache - caches], "a cache waits twice, or while it has a thread");
        seen[cache - caches] = true;
    }
    for (unsigned i = 0; i < made; i++) EXPLORE_CHECK(seen[i], "cache %u is lost", i);
}

/* The child of a fork has each cache waiting or lost, but not both. */
static void fork_here(void) {
    hak_check_t check = {0};
    unsigned waiting = 0, lost = 0;
    gates_fork();
    model.is_child = true;
    hak_group_forget_others(NULL);
    hak_group_check(&check, CACHES);
    for (unsigned i = 0; i < CACHES; i++) lost += hak_load_relaxed(&caches[i].post.process) != 0;
    while (hak_group_take(hak_group_choose(), true)) waiting++;
    EXPLORE_CHECK(waiting + lost == atomic_load(&shared.made), "%u caches wait, %u are lost",
                  waiting, lost);
}

static const char *describe(const volatile void *variable) {
    return variable == &hak_thread_list_lock ? "the list's lock" : NULL;
}

#define ROW(text, first, ...)                                                                 \
    {                                                                                         \
        .name = (text), .prepare = (first), .bodies = {__VA_ARGS__}, .finally = all_is_there, \
        .describe = describe                                                                  \
    }
static const explore_scenario_t scenarios[] = {
    ROW("two threads start", prepare, start, start),
    ROW("two threads start in two groups", prepare_apart, start, start),
    ROW("three threads start", prepare, start, start, start),
    ROW("two threads want the last place of a group", prepare_crowded, start, start),
    ROW("a thread ends while another one starts", prepare, start_and_end, start),
    ROW("two threads start and end", prepare_waiting, start_and_end, start_and_end),
    ROW("a group takes what waits in another one", prepare_far, start_and_end, start_and_end),
    ROW("two threads start and end while one ends", prepare_one, end, start_and_end, start_and_end),
    ROW("a cache that waits is emptied", prepare_waiting, start_and_end, empty_one),
    ROW("a look at the limits while a thread starts", prepare_fewer, start, look),
    ROW("a look while no thread starts", prepare_fewer, look_at_rest, empty_one),
    ROW("a look while the last thread ends", prepare_last, end, look),
    ROW("a start without memory while the last thread ends", prepare_one, end, start_in_vain),
    ROW("a thread starts where another one died", prepare_dead, start, start),
    ROW("it ends, and others start", prepare_dead_three, start_and_end, start, start),
    ROW("another thread starts far away", prepare_dead_far, start, start_and_end),
    ROW("its memory serves again while its cache is emptied", prepare_one_again, end_and_start,
        empty_one),
    ROW("two places share an entry", prepare_shared_entry, start, start),
    ROW("an entry is cleared while another thread notes itself", prepare_one_shared, end, start),
    ROW("a thread died inside", prepare_dead_inside, start, start),
    ROW("a cache has a thread of another process", prepare_other_process, start, start),
    ROW("a lost cache is taken by another thread", prepare_lost, start, adopt_lost),
    ROW("a fork while a dead thread's cache is taken", prepare_dead_gate, start, fork_here),
    ROW("a fork", prepare_gate, start_and_end, fork_here),
    ROW("a fork while a cache is emptied", prepare_gate, empty_one, fork_here),
};

int main(int argc, char **argv) {
    size_t size;
    for (unsigned i = 0; i < 2; i++) {
        void *place = group_place(i, &size);
        memory_track(place, size);
    }
    for (unsigned i = 0; i < 3; i++) {
        void *place = share_place(i, &size);
        memory_track(place, size);
    }
    memory_track(hak_places, sizeof hak_places);
    trace_holds(hak_places, sizeof hak_places, "hak_place_of()[]");
    memory_track(caches, sizeof caches);
    memory_track(&shared, sizeof shared);
    memory_track(&hak_thread_list_lock, sizeof hak_thread_list_lock);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
