/* commit.c: explores the limits on committed bytes, on the real src/commit/commit.c.
 *
 *   commit             every scenario must hold
 *   commit --broken    the source was broken on purpose: some scenario must fail */
#include "commit/commit.c" /* its words are its own, and have to be tracked */

#include "explore.h"
#include "memory.h"
#include "os/cpu.h"
#include "scenarios.h"

enum { LIMIT = 10, SOFT = 16 };

/* The scenario's own, in a line of its own. */
static struct __attribute__((aligned(64))) {
    int64_t limit, soft;
    size_t held; /* bytes charged and not released */
    unsigned told;
    unsigned noted; /* of those who were told: they found the sum above the soft limit */
} model;

static _Atomic uint64_t found HAK_OWN_LINE; /* the limit of memory; 0 before a look */
uint64_t hak_os_memory_limit(void) { return hak_load_relaxed(&found); }

void hak_tick_hurry(void) {} /* who has crossed the limit looks at the end of its call */

int64_t hak_option(hak_option_t option) {
    return option == HAK_OPTION_LIMIT ? model.limit : model.soft;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(int64_t limit, int64_t soft) {
    hak_store_relaxed(&committed, 0);
    hak_store_relaxed(&refused, 0);
    hak_store_relaxed(&soft_next, 0);
    hak_store_relaxed(&pressure, false);
    model.limit = limit;
    model.soft = soft;
    model.held = model.told = model.noted = 0;
    hak_store_relaxed(&found, 0);
}

static void prepare_hard(void) { prepare(LIMIT, 0); }
static void prepare_soft(void) { prepare(0, SOFT); }
/* A load may see an old sum, and an old call. */
static void prepare_weak(void) {
    prepare_soft();
    memory_keep_old(&committed);
    memory_keep_old(&pressure);
}
static void prepare_auto(void) { prepare(0, HAK_SOFT_AUTO); }

static void charge(size_t bytes) {
    if (hak_commit_charge(bytes)) model.held += bytes;
}

static void release(size_t bytes) {
    hak_commit_release(bytes);
    model.held -= bytes;
}

static void charge_most(void) { charge(6); }
static void charge_and_release(void) {
    if (!hak_commit_charge(6)) return;
    hak_commit_release(6);
}
static void charge_little(void) {
    charge(2);
    release(2);
}
static void look_for_pressure(void) { model.told += hak_commit_pressure(); }
static void charge_beyond(void) {
    charge(SOFT + 4);
    look_for_pressure();
}

/* As the end of a slow call (src/thread/purge_trigger.c). */
static void answer(void) {
    if (hak_commit_pressure()) model.noted += hak_commit_bytes() > SOFT;
}
static void charge_and_answer(void) {
    charge(SOFT + 4);
    answer();
}

/* Grows the heap beyond a small one, and looks at the limit of memory where told to. */
static void grow(void) {
    charge(HAK_COMMIT_SMALL + 1);
    if (hak_commit_pressure() && !hak_commit_soft()) hak_store_relaxed(&found, HAK_COMMIT_SMALL);
}

static void stays_below(void) {
    size_t sum = *(volatile size_t *)&committed;
    EXPLORE_CHECK(sum <= LIMIT, "%zu bytes are committed, the limit is %d", sum, LIMIT);
}

static void adds_up(void) {
    EXPLORE_CHECK(hak_commit_bytes() == model.held, "%zu bytes are committed, %zu are held",
                  hak_commit_bytes(), model.held);
}

static void was_told_once(void) {
    adds_up();
    look_for_pressure();
    EXPLORE_CHECK(model.told == 1, "%u threads were told to purge", model.told);
}

static void was_answered(void) {
    adds_up();
    answer();
    EXPLORE_CHECK(model.noted > 0, "the soft limit is crossed, and no purge is noted");
}

static void was_told(void) {
    adds_up();
    look_for_pressure();
    EXPLORE_CHECK(model.told > 0, "nobody was told to purge");
}

/* The next charge then tells to purge. */
static void has_looked(void) {
    EXPLORE_CHECK(hak_commit_soft() != 0, "nobody has looked at the limit of memory");
    charge(HAK_COMMIT_SMALL);
    was_told();
}

static const char *describe(const volatile void *variable) {
    return variable == &committed   ? "the sum"
           : variable == &soft_next ? "the next sum that calls for a purge"
           : variable == &pressure  ? "the call for a purge"
           : variable == &found     ? "the limit of memory"
                                    : NULL;
}

#define HARD .always = stays_below, .finally = adds_up, .describe = describe
#define SOFTLY .finally = was_told_once, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"two charges, room for one", prepare_hard, {charge_most, charge_most}, HARD},
    {"charges and releases",
     prepare_hard,
     {charge_and_release, charge_and_release, charge_little},
     HARD},
    {"the soft limit is crossed, and two look",
     prepare_soft,
     {charge_beyond, look_for_pressure, look_for_pressure},
     SOFTLY},
    {"two cross the soft limit, one releases",
     prepare_soft,
     {charge_beyond, charge_beyond, charge_little},
     .finally = was_told,
     .describe = describe},
    {"the soft limit is crossed, and another call is told",
     prepare_weak,
     {charge_and_answer, answer},
     .finally = was_answered,
     .describe = describe},
    {"two cross the soft limit, and one of them is told",
     prepare_weak,
     {charge_and_answer, charge_and_answer, answer},
     .finally = was_answered,
     .describe = describe},
    {"two heaps grow, and no limit of memory is known",
     prepare_auto,
     {grow, grow, charge_little},
     .finally = has_looked,
     .describe = describe},
};

int main(int argc, char **argv) {
    memory_track(&committed, sizeof committed);
    memory_track(&refused, sizeof refused);
    memory_track(&soft_next, sizeof soft_next);
    memory_track(&pressure, sizeof pressure);
    memory_track(&found, sizeof found);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
