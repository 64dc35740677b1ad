/* dyn.c: explores the choice of the dynamic class (src/classes/dyn.h has the protocol), on the real
 * sources.
 *
 *   dyn             every scenario must hold
 *   dyn --broken    the sources were broken on purpose: some scenario must fail */
#include "classes/dyn.c" /* its words are its own, and have to be tracked */

#include <string.h>

#include "explore.h"
#include "memory.h"
#include "options/options.h"
#include "os/os.h"
#include "scenarios.h"

#if HAKMEM_DEBUG
/* The debug build's times are off. */
int64_t hak_option(hak_option_t option) { return (void)option, 0; }
uint64_t hak_os_now_ns(void) { return 1; }
#endif

enum { SIZE = 8320, OTHER_SIZE = 8448 };

static struct {
    uint8_t routes[sizeof hak_class_by_128];
    hak_class_t row;
} initially;

static size_t returned[EXPLORE_THREADS_MAX];

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(void) {
    for (size_t i = 0; i < sizeof initially.routes; i++)
        hak_store_relaxed(&hak_class_by_128[i], initially.routes[i]);
    hak_classes[HAK_CLASS_DYN] = initially.row;
    hak_store_relaxed(&state, NONE);
    hak_store_relaxed(&chosen, 0);
    memset(returned, 0, sizeof returned);
}

static void choose_one(void) { returned[explore_thread()] = hak_dyn_choose(SIZE); }
static void choose_other(void) { returned[explore_thread()] = hak_dyn_choose(OTHER_SIZE); }

/* A row that is not written yet would be a race, or too small for the request. */
static void route(void) {
    unsigned class_index = hak_class_of(SIZE);
    EXPLORE_CHECK(hak_classes[class_index].size >= SIZE, "the class of %d has blocks of %u", SIZE,
                  (unsigned)hak_classes[class_index].size);
}

static void look_at_all(void) {
    size_t size = hak_dyn_size();
    if (size)
        EXPLORE_CHECK(hak_classes[HAK_CLASS_DYN].size == size, "the row says %u, the size is %zu",
                      (unsigned)hak_classes[HAK_CLASS_DYN].size, size);
}

static void one_has_chosen(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) {
        if (!returned[i]) continue;
        count++;
        EXPLORE_CHECK(returned[i] == hak_dyn_size() &&
                          hak_classes[HAK_CLASS_DYN].size == returned[i],
                      "%zu was chosen, the class is of %zu", returned[i], hak_dyn_size());
    }
    EXPLORE_CHECK(count == 1, "%u threads have chosen", count);
}

static const char *describe(const volatile void *variable) {
    return variable == &state    ? "the state of the choice"
           : variable == &chosen ? "the chosen size"
                                 : NULL;
}

#define RULES .finally = one_has_chosen, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"two choices", prepare, {choose_one, choose_other}, RULES},
    {"a choice and two requests", prepare, {choose_one, route, route}, RULES},
    {"two choices and a request", prepare, {choose_one, choose_other, route}, RULES},
    {"a choice and a look at all classes", prepare, {choose_one, look_at_all}, RULES},
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof initially.routes; i++)
        initially.routes[i] = hak_load_relaxed(&hak_class_by_128[i]);
    initially.row = hak_classes[HAK_CLASS_DYN];
    memory_track(&state, sizeof state);
    memory_track(&chosen, sizeof chosen);
    memory_track(hak_class_by_128, sizeof hak_class_by_128);
    memory_track(&hak_classes[HAK_CLASS_DYN], sizeof hak_classes[HAK_CLASS_DYN]);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
