/* stock.c: explores the protocol of src/shard/stock.h, on the real stock.c.
 *
 * Also free bitmaps (src/shard/bitmaps.h), on the real bitmaps.c.
 *
 *   stock             every scenario must hold
 *   stock --broken    the sources were broken on purpose: some scenario must fail */
#include "shard/stock.h"

#include <string.h>

#include "commit/commit.h"
#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "meta/meta.h"
#include "pool/pool.h"
#include "scenarios.h"
#include "shard/bin.h"
#include "shard/table.h"
#include "trace.h"

enum { UNITS = 6, SHARD = HAK_SHARDS_PLAIN - 1, SLABS = 100 };
enum { POOL, AHEAD, USED, FORMER };

static hak_unit_t units[UNITS];
static struct {
    hak_stock_t stock;
} HAK_ALIGNED(HAK_LINE) shared;
static struct {
    _Atomic unsigned turns; /* the pool's lock */
} HAK_ALIGNED(HAK_LINE) lock;
static unsigned where[UNITS]; /* under that lock; AHEAD, FORMER: the pool does not know where */

/* ---- What stocks stand on -------------------------------------------------------------------- */

hak_pool_about_t hak_pool_about;
hak_pool_stats_t hak_pool_stats HAK_ALIGNED(HAK_LINE);

hak_stock_t *hak_shard_stock(unsigned shard) {
    EXPLORE_CHECK(shard == SHARD, "shard %u", shard);
    return hak_shard_is_plain(shard) ? NULL : &shared.stock;
}

/* There is one shard that anybody looks at; it is plain while the table ends behind it. */
hak_lazy_table_t hak_shard_table;
unsigned hak_lazy_table_next(const hak_lazy_table_t *table, unsigned number) {
    return table == &hak_shard_table && number <= SHARD ? SHARD : HAK_SHARDS_MAX;
}

size_t hak_commit_soft_near(void) { return 0; }
size_t hak_commit_bytes(void) { return 0; }
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
                             hak_unit_t **ahead, bool *grown) {
    unsigned taken = 0;
    *grown = false;
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
static void give_all(hak_unit_t *list, unsigned from) {
    bool given[UNITS] = {false};
    for (hak_unit_t *next; list; list = next) {
        next = list->next;
        EXPLORE_CHECK(where[list - units] == from && list->stocked == (from == AHEAD),
                      "a unit is given back twice");
        list->next = NULL;
        list->stocked = false;
        given[list - units] = true;
    }
    enter_pool();
    for (unsigned i = 0; i < UNITS; i++)
        if (given[i]) where[i] = POOL;
}

void hak_pool_give_ahead(hak_unit_t *list) { give_all(list, AHEAD); }
void hak_pool_give_list(hak_unit_t *list) { give_all(list, FORMER); }
bool hak_pool_gives_whole(void) { return false; }

/* ---- What free bitmaps stand on: no room, and none that the process keeps --------------------- */

enum { BITMAPS = 4 + HAK_BITMAPS_KEPT, BYTES = 64, SIZE = 2 /* 16 << 2 */ };
static char bitmaps[BITMAPS][BYTES] HAK_ALIGNED(HAK_LINE);
static _Atomic unsigned bitmaps_made, bitmaps_given;
static hak_bitmap_place_t places[HAK_BITMAP_SIZES][HAK_BITMAPS_KEPT] HAK_ALIGNED(HAK_LINE);

hak_bitmap_place_t *hak_shard_bitmap_places(unsigned shard) {
    EXPLORE_CHECK(shard == SHARD, "shard %u", shard);
    return places[0];
}

void *hak_shard_cut(unsigned shard, size_t size) {
    (void)shard, (void)size;
    return NULL;
}

void *hak_meta_reuse_bitmap(size_t size) { return hak_shard_cut(SHARD, size); }

void *hak_meta_alloc_bitmap(size_t size) {
    const unsigned number = hak_add_relaxed(&bitmaps_made, 1);
    EXPLORE_CHECK(size == BYTES && number < BITMAPS, "bitmap %u, of %zu bytes", number, size);
    return bitmaps[number];
}

void *hak_meta_alloc_zeroed(size_t size) { return hak_meta_alloc_bitmap(size); }

void hak_meta_free_bitmap(void *bitmap, size_t size) {
    EXPLORE_CHECK(size == BYTES, "%p has %zu bytes", bitmap, size);
    hak_add_relaxed(&bitmaps_given, 1);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(void) {
    gates_reset(false);
    memory_keep_old(&hak_stock_closed);
    memory_keep_old(&shared.stock.former);
    memory_keep_old(&hak_shard_table.end);
    atomic_store_explicit(&hak_shard_table.end, HAK_SHARDS_PLAIN + 1, memory_order_relaxed);
    atomic_store_explicit(&shared.stock.untouched, NULL, memory_order_relaxed);
    atomic_store_explicit(&shared.stock.former, NULL, memory_order_relaxed);
    atomic_store_explicit(&shared.stock.is_counted, false, memory_order_relaxed);
    atomic_store_explicit(&hak_pool_stats.stocks, 0, memory_order_relaxed);
    for (unsigned i = 0; i < UNITS; i++) {
        where[i] = POOL;
        units[i].next = NULL;
        units[i].stocked = false;
    }
    atomic_store_explicit(&hak_pool_about.has_much_dirty, false, memory_order_relaxed);
    atomic_store_explicit(&hak_stock_closed, false, memory_order_relaxed);
}

static hak_unit_t *take(unsigned want) {
    hak_unit_t *taken[2];
    bool zeroed[2];
    bool grown;
    unsigned drawn, count = hak_stock_take(SHARD, want, taken, zeroed, &drawn, &grown);
    EXPLORE_CHECK(drawn == 0 || drawn >= count, "%u units were taken, %u left the pool", count,
                  drawn);
    for (unsigned i = 0; i < count; i++) {
        EXPLORE_CHECK(!taken[i]->stocked, "a unit in use counts as stocked");
        taken[i]->next = NULL;
        EXPLORE_CHECK(where[taken[i] - units] == (drawn       ? USED
                                                  : zeroed[i] ? AHEAD
                                                              : FORMER),
                      "a unit is handed out twice");
        where[taken[i] - units] = USED;
    }
    return count ? taken[0] : NULL;
}

static void take_one_unit(void) { take(1); }
static void take_two_units(void) { take(2); }
static void take_twice(void) {
    take(1);
    take(1);
}
static void release(void) { hak_stock_release(SHARD); }

/* A slab comes, and is left. */
static void take_and_keep(void) {
    hak_unit_t *unit = take(1);
    if (!unit) return;
    where[unit - units] = FORMER;
    hak_stock_keep(SHARD, unit);
}
static void keep_and_take(void) {
    take_and_keep();
    take(1);
}
static void close_stocks(void) { hak_stock_close(); }

static void prepare_stock(void) {
    prepare();
    take(1);
}

static void prepare_former(void) {
    prepare();
    take_and_keep();
}

static void prepare_plain(void) {
    prepare();
    atomic_store_explicit(&hak_shard_table.end, HAK_SHARDS_PLAIN, memory_order_relaxed);
}

/* The first one behind the plain ones is made (meta/lazy_table.h, M2). */
static void open_another(void) {
    atomic_store_explicit(&hak_shard_table.end, HAK_SHARDS_PLAIN + 1, memory_order_release);
}

static void prepare_dirty(void) {
    prepare_stock();
    atomic_store_explicit(&hak_pool_about.has_much_dirty, true, memory_order_relaxed);
}

static unsigned length(hak_stock_list_t *list) {
    unsigned count = 0;
    for (const hak_unit_t *unit = atomic_load(list); unit; unit = unit->next) count++;
    return count;
}

/* Every unit that left the pool is in use or in the stock. */
static void none_is_lost(void) {
    unsigned ahead = 0, former = 0;
    for (unsigned i = 0; i < UNITS; i++) {
        ahead += where[i] == AHEAD;
        former += where[i] == FORMER;
    }
    const unsigned untouched_there = length(&shared.stock.untouched),
                   former_there = length(&shared.stock.former);
    EXPLORE_CHECK(ahead == untouched_there, "%u units were taken ahead, %u are in the stock", ahead,
                  untouched_there);
    EXPLORE_CHECK(former == former_there, "%u slabs were left, %u are in the stock", former,
                  former_there);
    release();
    for (unsigned i = 0; i < UNITS; i++)
        EXPLORE_CHECK(where[i] == POOL || where[i] == USED, "a unit stays in the stock");
}

/* The shard counts as one that takes units ahead, once. */
static void it_counts_once(void) {
    const size_t stocks = atomic_load(&hak_pool_stats.stocks);
    EXPLORE_CHECK(stocks == 1, "%zu stocks of one shard", stocks);
    none_is_lost();
}

/* Nobody makes passes: what the helper does not find it must have found before. */
static void none_is_left(void) {
    EXPLORE_CHECK(!length(&shared.stock.former), "a closed stock has former slabs");
    none_is_lost();
}

/* A unit with pages comes before those of the stock. */
static void the_stock_is_as_before(void) {
    const unsigned stocked = length(&shared.stock.untouched);
    EXPLORE_CHECK(stocked == 3 && where[4] == USED, "%u units in the stock", stocked);
    none_is_lost();
}

/* A bitmap belongs to one thread, which writes there: else the explorer sees a race. */
static char *make_bitmap(void) {
    char *bitmap = hak_shard_bitmap(SHARD, BYTES);
    EXPLORE_CHECK(!*bitmap, "a bitmap is handed out twice");
    *bitmap = 1;
    return bitmap;
}

static void drop_bitmap(char *bitmap) {
    *bitmap = 0;
    hak_shard_free_bitmap(SHARD, bitmap, BYTES);
}

static void make_and_drop(void) { drop_bitmap(make_bitmap()); }
static void make_two(void) {
    char *first = make_bitmap(), *second = make_bitmap();
    drop_bitmap(first);
    drop_bitmap(second);
}

static void prepare_bitmaps(void) {
    prepare();
    memset(bitmaps, 0, sizeof bitmaps);
    for (unsigned i = 0; i < HAK_BITMAPS_KEPT; i++)
        atomic_store_explicit(&places[SIZE][i], NULL, memory_order_relaxed);
    atomic_store_explicit(&bitmaps_made, 0, memory_order_relaxed);
    atomic_store_explicit(&bitmaps_given, 0, memory_order_relaxed);
}

static void prepare_kept_bitmap(void) {
    prepare_bitmaps();
    make_and_drop();
}

/* All but one place are taken: two bitmaps that come back at once do not both find one. */
static void prepare_last_place(void) {
    char *made[HAK_BITMAPS_KEPT - 1];
    prepare_bitmaps();
    for (unsigned i = 0; i < HAK_BITMAPS_KEPT - 1; i++) made[i] = make_bitmap();
    for (unsigned i = 0; i < HAK_BITMAPS_KEPT - 1; i++) drop_bitmap(made[i]);
}

static void each_bitmap_is_once_there(void) {
    unsigned kept = 0;
    for (unsigned i = 0; i < HAK_BITMAPS_KEPT; i++) kept += atomic_load(&places[SIZE][i]) != NULL;
    const unsigned made = atomic_load(&bitmaps_made), given = atomic_load(&bitmaps_given);
    EXPLORE_CHECK(kept + given == made, "%u bitmaps were made, %u are kept, %u went back", made,
                  kept, given);
    for (unsigned i = 0; i < HAK_BITMAPS_KEPT; i++)
        for (unsigned k = 0; k < i; k++)
            EXPLORE_CHECK(!atomic_load(&places[SIZE][i]) ||
                              atomic_load(&places[SIZE][i]) != atomic_load(&places[SIZE][k]),
                          "a bitmap lies in two places");
}

static const char *describe(const volatile void *variable) {
    for (unsigned i = 0; i < HAK_BITMAPS_KEPT; i++)
        if (variable == &places[SIZE][i]) return "a place for a bitmap";
    if (variable == &shared.stock.former) return "the former slabs";
    if (variable == &hak_shard_table.end) return "the end of the shards";
    return variable == &shared.stock.untouched ? "the stock" : NULL;
}

static const explore_scenario_t scenarios[] = {
    {"two threads fill the stock",
     prepare,
     {take_one_unit, take_one_unit},
     .finally = it_counts_once,
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
    {"two slabs are left at once",
     prepare,
     {take_and_keep, take_and_keep},
     .finally = none_is_lost,
     .describe = describe},
    {"a former slab is wanted twice",
     prepare_former,
     {keep_and_take, take_one_unit},
     .finally = none_is_lost,
     .describe = describe},
    {"former slabs come, go, and are given back",
     prepare_former,
     {take_and_keep, take_one_unit, release},
     .finally = none_is_lost,
     .describe = describe},
    {"slabs are left while the stocks are closed",
     prepare,
     {take_and_keep, take_and_keep, close_stocks},
     .finally = none_is_left,
     .describe = describe},
    {"a shard gets its stock while the stocks are closed",
     prepare_plain,
     {take_and_keep, open_another, close_stocks},
     .finally = none_is_left,
     .describe = describe},
    {"units with pages come first",
     prepare_dirty,
     {take_one_unit},
     .finally = the_stock_is_as_before,
     .describe = describe},
    {"two threads want the one free bitmap",
     prepare_kept_bitmap,
     {make_and_drop, make_and_drop},
     .finally = each_bitmap_is_once_there,
     .describe = describe},
    {"two bitmaps of one thread, one of another",
     prepare_bitmaps,
     {make_two, make_and_drop},
     .finally = each_bitmap_is_once_there,
     .describe = describe},
    {"bitmaps come back to the last place",
     prepare_last_place,
     {make_two, make_two},
     .finally = each_bitmap_is_once_there,
     .describe = describe},
};

int main(int argc, char **argv) {
    memory_track(units, sizeof units);
    memory_track(&shared, sizeof shared);
    memory_track(&lock, sizeof lock);
    memory_track(&hak_pool_stats, sizeof hak_pool_stats);
    memory_track(&hak_stock_closed, HAK_LINE);
    memory_track(&hak_shard_table, HAK_LINE);
    memory_track(bitmaps, sizeof bitmaps);
    memory_track(places, sizeof places);
    trace_holds(places, sizeof places, "record_t.bitmaps");
    trace_holds(places, sizeof places, "hak_shard_bitmap_places()[]");
    trace_holds(&shared.stock, sizeof shared.stock, "hak_stock_t");
    trace_holds(&shared.stock, sizeof shared.stock, "put()[]");
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
