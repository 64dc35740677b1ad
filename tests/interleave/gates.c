/* gates.c: a stand-in for src/os/gate.c: enter waits while a fork has closed, and is one step. */
#include "gates.h"

#include <string.h>

#include "explore.h"
#include "memory.h"
#include "os/gate.h"

__thread hak_gate_thread_t hak_gate_thread;

static struct {
    uint64_t turns; /* the gate as one atomic variable */
    bool forks, closed, inside[EXPLORE_THREADS_MAX];
    unsigned closer;
} gate __attribute__((aligned(64)));

static hak_gate_post_t post;

__attribute__((constructor)) static void start(void) {
    explore_keep_apart(&hak_gate_thread, sizeof hak_gate_thread);
    memory_track(&gate, sizeof gate);
}

void gates_reset(bool forks) {
    memset(&gate, 0, sizeof gate);
    gate.forks = forks;
}

static bool is_open(const void *unused) {
    (void)unused;
    return !gate.closed;
}

static bool is_left(const void *unused) {
    (void)unused;
    for (unsigned i = 1; i < EXPLORE_THREADS_MAX; i++)
        if (gate.inside[i] && i != gate.closer) return false;
    return true;
}

static void turn(const char *what, int order) {
    gate.turns++;
    memory_atomic_end(&gate.turns, what, true, true, order, gate.turns - 1, gate.turns);
}

bool hak_gate_is_mine(void) { return gate.closed && gate.closer == explore_thread(); }
bool hak_gate_is_awaited(void) { return gate.closed && !hak_gate_is_mine(); }

void hak_gate_note(void) {
    hak_store_relaxed(&hak_gate_thread.noted_at, &post);
    if (!gate.forks || explore_thread() == 0) return;
    if (!hak_gate_is_mine()) explore_await(is_open, NULL);
    gate.inside[explore_thread()] = true;
    turn("gate enter", __ATOMIC_ACQUIRE);
}

void hak_gate_unnote(void) {
    hak_store_relaxed(&hak_gate_thread.noted_at, NULL);
    if (!gate.forks || explore_thread() == 0) return;
    memory_atomic_begin(&gate.turns, sizeof gate.turns);
    gate.inside[explore_thread()] = false;
    turn("gate leave", __ATOMIC_RELEASE);
}

bool hak_gate_try_enter(void) {
    hak_gate_enter();
    return true;
}

void gates_close(void) {
    EXPLORE_CHECK(gate.forks, "a scenario with a fork that explores no gate");
    gate.closed = true;
    gate.closer = explore_thread();
    explore_await(is_left, NULL);
    turn("gate closed", __ATOMIC_ACQUIRE);
}

void gates_open(void) {
    memory_atomic_begin(&gate.turns, sizeof gate.turns);
    gate.closed = false;
    turn("gate opened", __ATOMIC_RELEASE);
}

void gates_fork(void) {
    gates_close();
    explore_stop_others();
    memory_join();
    gates_reset(true);
}
