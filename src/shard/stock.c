/* stock.c: untouched units between the pool and the bins of a shard. */
#include "shard/stock.h"

#include "os/gate.h"
#include "pool/pool.h"
#include "shard/bin.h"
#include "shard/table.h"

enum {
    MOST = 3,       /* units in a stock */
    SLABS_EACH = 2, /* slabs that a shard has for each unit in its stock, at least */
};

/* K2. */
static void put(hak_stock_t *stock, hak_unit_t *units) {
    hak_unit_t *none = NULL;
    if (units && !hak_cas_release(stock, &none, units)) hak_pool_give_ahead(units);
}

static unsigned draw(unsigned shard, unsigned want, hak_unit_t **units, bool *zeroed,
                     unsigned *drawn) {
    hak_stock_t *stock = hak_shard_stock(shard);
    unsigned most = stock ? (unsigned)hak_min(hak_bin_slab_count(shard) / SLABS_EACH, MOST) : 0;
    hak_unit_t *ahead;
    unsigned taken = hak_pool_take_units(want, units, zeroed, most, &ahead);
    *drawn = taken;
    for (const hak_unit_t *unit = ahead; unit; unit = unit->next) ++*drawn;
    if (ahead) put(stock, ahead);
    return taken;
}

unsigned hak_stock_take(unsigned shard, unsigned want, hak_unit_t **units, bool *zeroed,
                        unsigned *drawn) {
    hak_stock_t *stock = hak_shard_stock(shard);
    hak_unit_t *list = NULL;
    unsigned taken = 0;
    /* A unit with pages comes first. */
    if (stock && hak_load_relaxed(stock) && !hak_load_relaxed(&hak_pool_about.has_dirty))
        list = hak_exchange_acq_rel(stock, NULL); /* K1 */
    if (!list) return draw(shard, want, units, zeroed, drawn);
    for (; list && taken < want; taken++, list = list->next) {
        units[taken] = list;
        units[taken]->stocked = false;
        zeroed[taken] = true;
        hak_pool_prefault(list->base, HAK_UNIT_SIZE, 1);
    }
    put(stock, list);
    *drawn = 0;
    return taken;
}

void hak_stock_release(unsigned shard) {
    hak_stock_t *stock = hak_shard_stock(shard);
    if (!stock || !hak_load_relaxed(stock)) return;
    hak_gate_enter();
    hak_unit_t *list = hak_exchange_acq_rel(stock, NULL); /* K1 */
    if (list) hak_pool_give_ahead(list);
    hak_gate_leave();
}
