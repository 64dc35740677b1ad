/* helper_world.h: what the helper thread stands on in the scenarios of helper.c: the figures that it looks at, and stand-ins
 * for threads, the gate, the pool, stocks, the clock and the kernel's futexes. Include helper_thread.c before it. */
#pragma once

#include <stdlib.h>

#include "explore.h"
#include "futex.h"
#include "memory.h"
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
bool hak_gate_is_listed(const hak_gate_post_t *its) { return (void)its, false; }
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
