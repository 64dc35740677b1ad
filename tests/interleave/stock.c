/* stock.c: explores the protocol of src/shard/stock.h, on the real stock.c.
 *
 *   stock             every scenario must hold
 *   stock --broken    the sources were broken on purpose: some scenario must fail */
#include "shard/stock.h"

#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "pool/pool.h"
#include "scenarios.h"
#include "shard/bin.h"
#include "shard/table.h"
#include "trace.h"

enum { UNITS = 6, SHARD = 7, SLABS = 100 };
enum { POOL, AHEAD, USED };

static hak_unit_t units[UNITS];
static struct {
    hak_stock_t stock;
} HAK_ALIGNED(HAK_LINE) shared;
static struct {
    _Atomic unsigned turns; /* the pool's lock */
} HAK_ALIGNED(HAK_LINE) lock;
static unsigned where[UNITS]; /* under that lock; AHEAD: the pool does not know where */

/* ---- What stocks stand on -------------------------------------------------------------------- */

hak_pool_stats_t hak_pool_stats;

hak_stock_t *hak_shard_stock(unsigned shard) {
    EXPLORE_CHECK(shard == SHARD, "shard %u", shard);
    return &shared.stock;
}

uint32_t hak_bin_slab_count(unsigned shard) { return shard == SHARD ? SLABS : 0; }

static void enter_pool(void) { atomic_fetch_add_explicit(&lock.turns, 1, memory_order_acq_rel); }

static hak_unit_t *take_one(unsigned to) {
    for (unsigned i = 0; i < UNITS; i++) {
        if (where[i] != POOL) continue;
        where[i] = to;
        return &units[i];
    }
    return NULL;
}

unsigned hak_pool_take_units(unsigned want, hak_unit_t **out, bool *zeroed, unsigned more,
                             hak_unit_t **ahead) {
    unsigned taken = 0;
    enter_pool();
    for (*ahead = NULL; taken < want && (out[taken] = take_one(USED)) != NULL; taken++)
        zeroed[taken] = true;
    for (hak_unit_t *unit; more && (unit = take_one(AHEAD)) != NULL; more--) {
        unit->stocked = true;
        unit->next = *ahead;
        *ahead = unit;
    }
    return taken;
}

void hak_pool_prefault(char *start, size_t size, int level) {
    EXPLORE_CHECK(size == HAK_UNIT_SIZE && level == 1, "%p is populated", (void *)start);
}

/* The units are this thread's until the step. */
void hak_pool_give_ahead(hak_unit_t *list) {
    bool given[UNITS] = {false};
    for (hak_unit_t *next; list; list = next) {
        next = list->next;
        EXPLORE_CHECK(where[list - units] == AHEAD && list->stocked, "a unit is given back twice");
        list->next = NULL;
        list->stocked = false;
        given[list - units] = true;
    }
    enter_pool();
    for (unsigned i = 0; i < UNITS; i++)
        if (given[i]) where[i] = POOL;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(void) {
    gates_reset(false);
    atomic_store_explicit(&shared.stock, NULL, memory_order_relaxed);
    for (unsigned i = 0; i < UNITS; i++) {
        where[i] = POOL;
        units[i].next = NULL;
        units[i].stocked = false;
    }
    atomic_store_explicit(&hak_pool_stats.dirty_units, 0, memory_order_relaxed);
}

static void take(unsigned want) {
    hak_unit_t *taken[2];
    bool zeroed[2];
    unsigned drawn, count = hak_stock_take(SHARD, want, taken, zeroed, &drawn);
    EXPLORE_CHECK(drawn == 0 || drawn >= count, "%u units were taken, %u left the pool", count,
                  drawn);
    for (unsigned i = 0; i < count; i++) {
        EXPLORE_CHECK(zeroed[i] && !taken[i]->stocked, "a unit in use counts as stocked");
        taken[i]->next = NULL;
        EXPLORE_CHECK(where[taken[i] - units] == (drawn ? USED : AHEAD),
                      "a unit is handed out twice");
        where[taken[i] - units] = USED;
    }
}

static void take_one_unit(void) { take(1); }
static void take_two_units(void) { take(2); }
static void take_twice(void) {
    take(1);
    take(1);
}
static void release(void) { hak_stock_release(SHARD); }

static void prepare_stock(void) {
    prepare();
    take(1);
}

static void prepare_dirty(void) {
    prepare_stock();
    atomic_store_explicit(&hak_pool_stats.dirty_units, 1, memory_order_relaxed);
}

/* Every unit that left the pool is in use or in the stock. */
static void none_is_lost(void) {
    unsigned ahead = 0, stocked = 0;
    for (unsigned i = 0; i < UNITS; i++) ahead += where[i] == AHEAD;
    for (const hak_unit_t *unit = atomic_load(&shared.stock); unit; unit = unit->next) stocked++;
    EXPLORE_CHECK(ahead == stocked, "%u units were taken ahead, %u are in the stock", ahead,
                  stocked);
    release();
    for (unsigned i = 0; i < UNITS; i++)
        EXPLORE_CHECK(where[i] != AHEAD, "a unit stays in the stock");
}

/* A unit with pages comes before those of the stock. */
static void the_stock_is_as_before(void) {
    unsigned stocked = 0;
    for (const hak_unit_t *unit = atomic_load(&shared.stock); unit; unit = unit->next) stocked++;
    EXPLORE_CHECK(stocked == 3 && where[4] == USED, "%u units in the stock", stocked);
    none_is_lost();
}

static const char *describe(const volatile void *variable) {
    return variable == &shared.stock ? "the stock" : NULL;
}

static const explore_scenario_t scenarios[] = {
    {"two threads fill the stock",
     prepare,
     {take_one_unit, take_one_unit},
     .finally = none_is_lost,
     .describe = describe},
    {"two threads take of the stock",
     prepare_stock,
     {take_one_unit, take_two_units},
     .finally = none_is_lost,
     .describe = describe},
    {"a thread takes twice, another one once, a third one releases",
     prepare_stock,
     {take_twice, take_one_unit, release},
     .finally = none_is_lost,
     .describe = describe},
    {"units with pages come first",
     prepare_dirty,
     {take_one_unit},
     .finally = the_stock_is_as_before,
     .describe = describe},
};

int main(int argc, char **argv) {
    memory_track(units, sizeof units);
    memory_track(&shared, sizeof shared);
    memory_track(&lock, sizeof lock);
    trace_holds(&shared.stock, sizeof shared.stock, "record_t.stock");
    trace_holds(&shared.stock, sizeof shared.stock, "hak_shard_stock()[]");
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
