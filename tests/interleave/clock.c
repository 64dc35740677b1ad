/* clock.c: explores the clock that does not go back (src/os/clock.c has the protocol), on the real source.
 *
 *   clock             every scenario must hold
 *   clock --broken    the source was broken on purpose: some scenario must fail */
#include "os/clock.c" /* its word is its own, and has to be tracked */

#include "explore.h"
#include "memory.h"
#include "scenarios.h"

/* The clock goes back to an earlier part of its unit. */
enum { UNIT = 1 << UNIT_SHIFT, START = 10 * UNIT + UNIT / 2, BEHIND = 3 * UNIT };

/* The system's clock, in a line of its own. */
static struct {
    _Atomic uint64_t now_ms;
    uint64_t most_ms; /* that any thread may find */
    bool goes_back;
} world __attribute__((aligned(64)));

int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    const uint64_t ms = atomic_load(&world.now_ms);
    *now = (struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    return 0;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(bool goes_back) {
    world.now_ms = world.most_ms = START;
    world.goes_back = goes_back;
    clock_word = 0;
    (void)hak_os_now_ms();
    world.most_ms += goes_back ? UNIT : 2 * UNIT;
}
static void prepare_on(void) { prepare(false); }
static void prepare_back(void) { prepare(true); }

static void go_on(void) {
    atomic_fetch_add(&world.now_ms, UNIT);
    atomic_fetch_add(&world.now_ms, UNIT);
}

static void go_back(void) { atomic_store(&world.now_ms, BEHIND); }

static void read_twice(void) {
    const uint64_t first = hak_os_now_ms(), second = hak_os_now_ms();
    EXPLORE_CHECK(second >= first, "the clock goes back from %zu to %zu ms", (size_t)first,
                  (size_t)second);
    EXPLORE_CHECK(first >= START && second <= world.most_ms, "the clock shows %zu and %zu ms",
                  (size_t)first, (size_t)second);
}

static void finally(void) {
    const uint64_t lost = clock_word >> LOST_SHIFT;
    EXPLORE_CHECK(lost == 0 || (world.goes_back && lost == START / UNIT - BEHIND / UNIT + 1),
                  "%zu units are lost", (size_t)lost);
}

static const char *describe(const volatile void *variable) {
    return variable == &clock_word     ? "the newest unit, and those lost"
           : variable == &world.now_ms ? "the system's clock"
                                       : NULL;
}

#define RULES .finally = finally, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"the clock goes on", prepare_on, {go_on, read_twice, read_twice}, RULES},
    {"the clock goes back", prepare_back, {go_back, read_twice, read_twice}, RULES},
};

int main(int argc, char **argv) {
    memory_track(&clock_word, sizeof clock_word);
    memory_track(&world, sizeof world);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
