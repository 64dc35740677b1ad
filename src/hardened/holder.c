/* holder.c: stocks and quarantines, and their way from and to the shards. */
#include "hardened/holder.h"

#include <string.h>

#include "error/error.h"
#include "hardened/guard.h"
#include "hardened/state.h"
#include "meta/meta.h"
#include "shard/give.h"
#include "shard/shard.h"

enum {
    ROOM_MAX = 64,          /* entries of a stock */
    ROOM_LEAST = 4,         /* the same for large blocks */
    ROOM_BYTES = 32 * 1024, /* of blocks in a stock, unless that is too few */
    LOW_PART = 4,           /* a refill is due at one part of so many of a stock */
};

hak_holder_t *hak_holder_make(void) {
    hak_holder_t *holder = hak_meta_alloc(sizeof *holder);
    if (!holder) return NULL;
    memset(holder, 0, sizeof *holder);
    size_t size = hak_hardened.quarantine * sizeof *holder->quarantine;
    if (size) holder->quarantine = hak_meta_alloc(size);
    if (holder->quarantine) memset(holder->quarantine, 0, size);
    hak_random_seed(&holder->random);
    return holder;
}

static bool make_stock(hak_stock_t *stock, unsigned class_index) {
    size_t room = hak_min(ROOM_BYTES / hak_classes[class_index].size, ROOM_MAX);
    room = hak_ceil_pow2(hak_max(room, ROOM_LEAST));
    stock->entries = hak_meta_alloc(room * sizeof *stock->entries);
    if (!stock->entries) return false;
    stock->room = (uint16_t)room;
    stock->low = (uint16_t)(hak_hardened.random ? room / LOW_PART : 0);
    return true;
}

/* Index of a block of which the class is known. */
static uint32_t index_of(const void *block, const hak_class_t *info) {
    return hak_block_index(hak_block_offset((uintptr_t)block, info), info->reciprocal);
}

/* Takes up to `want` blocks, and notes that they are out of their slabs; those without memory for the
 * note go back. */
static unsigned take(unsigned home, unsigned class_index, unsigned want, hak_entry_t *entries) {
    void *top[ROOM_MAX + 1];
    unsigned taken = hak_shard_take(home, class_index, want, top, NULL), kept = 0;
    const hak_class_t *info = &hak_classes[class_index];
    _Atomic uint32_t *words = NULL;
    size_t unit = 0; /* of `words`; blocks of a slab come one after the other */
    for (unsigned i = 1; i <= taken; i++) {
        if (hak_state_unit(top[i]) != unit)
            words = hak_state_make(unit = hak_state_unit(top[i]), info, 0);
        if (HAK_UNLIKELY(!words)) {
            hak_shard_give(home, class_index, &top[i], 1);
            continue;
        }
        entries[kept] = (hak_entry_t){(uintptr_t)top[i], &words[index_of(top[i], info)]};
        hak_store_relaxed(entries[kept++].at, HAK_STATE_FREE);
    }
    return kept;
}

static HAK_OUT_OF_LINE void make_guard_unit(unsigned home) {
    hak_entry_t entry;
    unsigned class_index = hak_class_of(HAK_UNIT_SIZE);
    void *unit = take(home, class_index, 1, &entry) ? (void *)(uintptr_t)entry.block : NULL;
    if (!hak_guard_unit_make(unit) && unit) hak_shard_give(home, class_index, &unit, 1);
}

hak_entry_t hak_holder_refill(hak_holder_t *holder, unsigned home, unsigned class_index) {
    const hak_entry_t none = {0, NULL};
    hak_stock_t *stock = &holder->stocks[class_index];
    if (!stock->entries && !make_stock(stock, class_index)) return none;
    if (hak_guard_unit_is_due(&holder->random)) make_guard_unit(home);
    unsigned want = (stock->room - stock->count) / 2u;
    unsigned taken = take(home, class_index, want, stock->entries + stock->count);
    stock->count = (uint16_t)(stock->count + taken);
    HAK_ADD_OWNED(&stock->held, (uint16_t)taken);
    return stock->count ? hak_holder_pick(holder, stock, stock->count) : none;
}

hak_entry_t hak_holder_take_one(unsigned class_index) {
    hak_entry_t entry = {0, NULL};
    take(0, class_index, 1, &entry);
    return entry;
}

void hak_holder_report_write(void *block, size_t size) {
    const char *bytes = block;
    size_t at = 0;
    while (!bytes[at]) at++;
    memset(block, 0, size);
    hak_error_report("malloc",
                     "write after free: %p is a free block of %zu bytes, and byte %zu of it was "
                     "written to",
                     block, size, at);
}

/* Gives the first `count` entries of a stock to the shard. */
static void give(hak_stock_t *stock, unsigned home, unsigned class_index, unsigned count) {
    void *blocks[ROOM_MAX];
    const size_t size = hak_classes[class_index].size;
    for (unsigned i = 0; i < count; i++) {
        uintptr_t entry = stock->entries[i].block;
        blocks[i] = (void *)(entry & ~(uintptr_t)HAK_KNOWN_ZERO);
        if (entry & HAK_KNOWN_ZERO) hak_holder_check_zero(blocks[i], size);
    }
    stock->count = (uint16_t)(stock->count - count);
    memmove(stock->entries, stock->entries + count, stock->count * sizeof *stock->entries);
    HAK_ADD_OWNED(&stock->held, (uint16_t)-count);
    if (count) hak_shard_give(home, class_index, blocks, count);
}

/* A stock that is full gives half of its blocks away; one that has none yet is made. */
void hak_holder_stock_slow(hak_holder_t *holder, unsigned home, hak_entry_t entry) {
    if (HAK_LIKELY(hak_holder_stock(holder, entry))) return;
    unsigned class_index = (unsigned)(entry.block >> HAK_ENTRY_CLASS_SHIFT);
    hak_stock_t *stock = &holder->stocks[class_index];
    void *block = (void *)(uintptr_t)(entry.block & HAK_ENTRY_ADDRESS);
    if (stock->entries || make_stock(stock, class_index)) {
        if (stock->count >= stock->room) give(stock, home, class_index, stock->room / 2u);
        holder->gave = true;
        hak_holder_stock(holder, entry);
        return;
    }
    if (hak_hardened.check_freed) hak_holder_check_zero(block, hak_classes[class_index].size);
    HAK_ADD_OWNED(&stock->held, (uint16_t)-1);
    hak_shard_give(home, class_index, &block, 1);
}

/* From a random place on. */
void hak_holder_shrink(hak_holder_t *holder, unsigned home) {
    uint32_t mask = hak_hardened.quarantine - 1;
    uint32_t at = hak_hardened.random ? hak_random_next(&holder->random) : holder->at;
    for (uint32_t i = 0; i <= mask && holder->bytes > hak_hardened.quarantine_bytes; i++) {
        hak_entry_t *place = &holder->quarantine[(at + i) & mask], entry = *place;
        if (!entry.block) continue;
        place->block = 0;
        holder->bytes -= hak_classes[entry.block >> HAK_ENTRY_CLASS_SHIFT].size;
        hak_holder_stock_slow(holder, home, entry);
    }
}

void hak_holder_flush(hak_holder_t *holder, unsigned home) {
    for (uint32_t i = 0; holder->quarantine && i < hak_hardened.quarantine; i++) {
        hak_entry_t entry = holder->quarantine[i];
        if (!entry.block) continue;
        holder->quarantine[i].block = 0;
        hak_holder_stock_slow(holder, home, entry);
    }
    holder->bytes = 0;
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
        if (holder->stocks[i].count) give(&holder->stocks[i], home, i, holder->stocks[i].count);
}
