/* stock.c: untouched units between the pool and the bins of a shard. */
#include "shard/stock.h"

#include "commit/commit.h"
#include "os/gate.h"
#include "pool/pool.h"
#include "shard/bin.h"
#include "shard/table.h"

enum {
    MOST = HAK_MAP_LINE_UNITS - 1, /* untouched units in a stock */
    FORMER_MOST = 16,              /* former slabs */
    SLABS_EACH = 2,                /* slabs that a shard has for each former one, at least */
};

static hak_unit_t *take_all(hak_stock_list_t *list) {
    return hak_load_relaxed(list) ? hak_exchange_acq_rel(list, NULL) : NULL; /* K1 */
}

/* K2; true when the list is in place. */
static bool put(hak_stock_list_t *list, hak_unit_t *units) {
    hak_unit_t *none = NULL;
    return hak_cas_release(list, &none, units);
}

static void put_untouched(hak_stock_t *stock, hak_unit_t *units) {
    if (units && !put(&stock->untouched, units)) hak_pool_give_ahead(units);
}

static HAK_BEHIND void give_former(hak_unit_t *list) {
    for (hak_unit_t *unit = list; unit; unit = unit->next) unit->stocked = false;
    if (list) hak_pool_give_list(list);
}

static void put_former(hak_stock_t *stock, hak_unit_t *units) {
    if (units && !put(&stock->former, units)) give_former(units);
}

/* The rest of a line of the map, so that no other shard has units there; fewer near a soft limit, since units in stocks
 * are charged. At the hard limit, a request that would fail gets the stocks (hak_shard_release_idle). */
static HAK_BEHIND unsigned most_ahead(unsigned shard) {
    const size_t soft = hak_commit_soft_near();
    const bool scarce = soft && hak_commit_bytes() > soft / 2;
    if (hak_pool_gives_whole()) return 0;
    return scarce ? (unsigned)hak_min(hak_bin_slab_count(shard), MOST) : MOST;
}

static HAK_BEHIND void count(hak_stock_t *stock) {
    if (!hak_load_relaxed(&stock->is_counted) && !hak_exchange_acq_rel(&stock->is_counted, true))
        hak_add_relaxed(&hak_pool_stats.stocks, 1);
}

static unsigned draw(unsigned shard, unsigned want, hak_unit_t **units, bool *zeroed,
                     unsigned *drawn, bool *grown) {
    hak_stock_t *stock = hak_shard_stock(shard);
    hak_unit_t *ahead;
    unsigned taken =
        hak_pool_take_units(want, units, zeroed, stock ? most_ahead(shard) : 0, &ahead, grown);
    *drawn = taken;
    for (const hak_unit_t *unit = ahead; unit; unit = unit->next) ++*drawn;
    if (ahead) {
        count(stock);
        put_untouched(stock, ahead);
    }
    return taken;
}

/* Takes up to `want` units of a list; returns the rest. */
static hak_unit_t *take_of(hak_unit_t *list, unsigned want, bool untouched, hak_unit_t **units,
                           bool *zeroed, unsigned *taken) {
    for (; list && *taken < want; ++*taken, list = list->next) {
        units[*taken] = list;
        list->stocked = false;
        zeroed[*taken] = untouched;
        if (untouched) hak_pool_prefault(list->base, HAK_UNIT_SIZE, 1);
    }
    return list;
}

/* A unit with pages comes first. But while the pool has only a few, which come and go all the time, shards do not go to
 * the pool's lock for them: most would find that another shard was faster. */
static HAK_BEHIND unsigned take_stocked(hak_stock_t *stock, unsigned want, hak_unit_t **units,
                                        bool *zeroed) {
    unsigned taken = 0;
    hak_unit_t *former = take_all(&stock->former);
    put_former(stock, take_of(former, want, false, units, zeroed, &taken));
    if (taken || hak_load_relaxed(&hak_pool_about.has_much_dirty)) return taken;
    hak_unit_t *untouched = take_all(&stock->untouched);
    put_untouched(stock, take_of(untouched, want, true, units, zeroed, &taken));
    return taken;
}

unsigned hak_stock_take(unsigned shard, unsigned want, hak_unit_t **units, bool *zeroed,
                        unsigned *drawn, bool *grown) {
    hak_stock_t *stock = hak_shard_stock(shard);
    unsigned taken = stock ? take_stocked(stock, want, units, zeroed) : 0;
    if (!taken) return draw(shard, want, units, zeroed, drawn, grown);
    *drawn = 0;
    *grown = false;
    return taken;
}

bool hak_stock_has_former(unsigned shard) {
    hak_stock_t *stock = hak_shard_stock(shard);
    return stock && hak_load_relaxed(&stock->former);
}

_Atomic bool hak_stock_closed HAK_READ_OFTEN;

/* Keeps the newest units, of those that the stock has and of the list. */
static HAK_BEHIND void keep(hak_stock_t *stock, unsigned shard, hak_unit_t *list) {
    const unsigned most = (unsigned)hak_min(hak_bin_slab_count(shard) / SLABS_EACH, FORMER_MOST);
    hak_unit_t *kept = take_all(&stock->former), **end = &kept;
    for (hak_unit_t *next; list; list = next) {
        next = list->next;
        list->stocked = true;
        list->next = kept;
        kept = list;
    }
    for (unsigned i = 0; i < most && *end; i++) end = &(*end)->next;
    hak_unit_t *others = *end;
    *end = NULL;
    put_former(stock, kept);
    give_former(others);
    atomic_thread_fence(memory_order_seq_cst); /* C2; partner: C1 */
    if (HAK_UNLIKELY(hak_load_relaxed(&hak_stock_closed))) give_former(take_all(&stock->former));
}

HAK_OUT_OF_LINE void hak_stock_keep(unsigned shard, hak_unit_t *list) {
    hak_stock_t *stock = hak_shard_stock(shard);
    if (HAK_LIKELY(!stock || hak_load_relaxed(&hak_stock_closed) || hak_pool_gives_whole()))
        hak_pool_give_list(list);
    else
        keep(stock, shard, list);
}

static HAK_BEHIND void release(hak_stock_t *stock) {
    if (!hak_load_relaxed(&stock->untouched) && !hak_load_relaxed(&stock->former)) return;
    hak_gate_enter();
    hak_unit_t *untouched = take_all(&stock->untouched);
    if (untouched) hak_pool_give_ahead(untouched);
    give_former(take_all(&stock->former));
    hak_gate_leave();
}

void hak_stock_release(unsigned shard) {
    hak_stock_t *stock = hak_shard_stock(shard);
    if (stock) release(stock);
}

HAK_BEHIND void hak_stock_close(void) {
    hak_store_relaxed(&hak_stock_closed, true);
    atomic_thread_fence(memory_order_seq_cst); /* C1; partner: C2 */
    HAK_EACH_SHARD (shard) hak_stock_release(shard);
}

HAK_BEHIND void hak_stock_open(void) { hak_store_relaxed(&hak_stock_closed, false); }
