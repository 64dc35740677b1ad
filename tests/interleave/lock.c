/* lock.c: explores the lock of src/os/lock.h, on the real lock.h and os/lock.c.
 *
 *   lock             every scenario must hold
 *   lock --broken    the sources were broken on purpose: some scenario must fail */
#include "os/lock.h"

#include "explore.h"
#include "futex.h"
#include "memory.h"
#include "os/os.h"
#include "scenarios.h"

static struct {
    hak_lock_t lock;
    char guarded; /* by the lock */
} shared __attribute__((aligned(64)));

uintptr_t hak_os_thread(void) { return explore_thread() + 1; }

bool hak_os_sleep_ms(unsigned ms) {
    (void)ms;
    explore_step();
    return true;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(void) {
    hak_lock_reset(&shared.lock);
    futex_reset(false);
}

static void prepare_interrupted(void) {
    prepare();
    futex_reset(true);
}

static void prepare_held(void) {
    prepare();
    hak_lock_acquire(&shared.lock);
}

/* Two holders at a time would be a race: nothing orders their writes. */
static void leave(void) {
    memory_write(&shared.guarded, sizeof shared.guarded);
    hak_lock_release(&shared.lock);
}

static void once(void) {
    hak_lock_acquire(&shared.lock);
    leave();
}

static void twice(void) {
    once();
    once();
}

static void try_once(void) {
    if (hak_lock_try(&shared.lock)) leave();
}

static void try_thrice(void) {
    unsigned tries = 2;
    if (!hak_lock_acquire_apart_within(&shared.lock, &tries)) return;
    memory_write(&shared.guarded, sizeof shared.guarded);
    hak_lock_release_apart(&shared.lock);
}

static void finally(void) {
    EXPLORE_CHECK(shared.lock.state == 0, "the lock is left in state %u", shared.lock.state);
}

static const char *describe(const volatile void *variable) {
    return variable == &shared.lock      ? "the lock"
           : variable == &shared.guarded ? "what it guards"
                                         : NULL;
}

#define RULES .finally = finally, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"two threads, twice each", prepare, {twice, twice}, RULES},
    {"two threads, sleeps are interrupted", prepare_interrupted, {twice, twice}, RULES},
    {"a holder and two threads", prepare_held, {leave, once, once}, RULES},
    {"a holder, a thread, and one that tries", prepare_held, {leave, once, try_once}, RULES},
    {"three threads", prepare, {once, once, once}, RULES},
    {"a holder and one that gives up", prepare_held, {leave, try_thrice}, RULES},
    {"a holder and two threads, sleeps are interrupted", prepare_held, {leave, once, twice}, RULES},
};

int main(int argc, char **argv) {
    memory_track(&shared, sizeof shared);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
