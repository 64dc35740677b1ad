/* record.c: tables of debug records, and the words in them. */
#include "debug_record/record.h"

#include "meta/once.h"
#include "options/environment.h"
#include "options/options.h"
#include "region/region.h"

enum {
    SPAN_SHIFT = 11, /* 2 KiB: the smallest mid block is longer */
    SIZE_BITS = 22,
};

_Static_assert(HAK_TINY_MAX <= 1 << SPAN_SHIFT, "one block in a span");
_Static_assert((int)HAK_SUPERSLAB_SIZE_MAX < 1 << SIZE_BITS && SPAN_SHIFT - 1 + SIZE_BITS == 32,
               "a word's halves; a block of a heap of the program may be a whole superslab");

static const uint32_t magic_in_use = 0x48616b55, magic_free = 0x48616b46;

_Atomic uint8_t hak_records;
_Atomic uint64_t hak_record_errors;

static _Atomic size_t table_bytes;

HAK_COMMON bool hak_records_settle(void) {
    hak_records_t mode = (hak_records_t)hak_load_relaxed(&hak_records);
    if (mode == HAK_RECORDS_UNSETTLED && hak_options_loaded()) {
        mode = (hak_records_t)(HAK_RECORDS_FULL + hak_option(HAK_OPTION_HDR_LIGHT));
        if (hak_option(HAK_OPTION_HARDENED)) mode = HAK_RECORDS_OFF; /* hardened/state.h instead */
        hak_store_relaxed(&hak_records, (uint8_t)mode);
    }
    return mode != HAK_RECORDS_OFF;
}

/* Words and, behind them, call sites. A table made before the mode was settled has both. */
static bool has_sites(void) { return hak_load_relaxed(&hak_records) <= HAK_RECORDS_FULL; }

static unsigned span_count(void) { return (unsigned)(hak_superslab_size() >> SPAN_SHIFT); }

static size_t table_size(void) {
    return (has_sites() ? 2 * sizeof(uint64_t) : sizeof(uint64_t)) * span_count();
}

static unsigned span_of(const void *block) {
    return (unsigned)((uintptr_t)block >> SPAN_SHIFT) & (span_count() - 1);
}

/* The half of a word that tells which block it belongs to, and the block's size. Blocks begin at
 * even addresses. */
static uint32_t low_half(const void *block, size_t size) {
    uint32_t start = (uint32_t)((uintptr_t)block & ((1u << SPAN_SHIFT) - 1));
    return start / 2 << SIZE_BITS | (uint32_t)size;
}

static _Atomic uint64_t *make_table(hak_superslab_t *super) {
    bool is_mine;
    const size_t size = table_size();
    _Atomic uint64_t *table = hak_once_make(&super->records, size, &is_mine);
    if (is_mine) hak_add_relaxed(&table_bytes, size);
    return table;
}

static _Atomic uint64_t *table_of(const void *block) {
    return hak_load_acquire(&hak_superslab_of(block)->records); /* partner: hak_once_make */
}

void hak_record_open(const void *block, size_t size, const void *site) {
    _Atomic uint64_t *table = table_of(block);
    if (HAK_UNLIKELY(!table)) table = make_table(hak_superslab_of(block));
    if (!table) return;
    unsigned span = span_of(block);
    if (has_sites()) hak_store_relaxed(&table[span_count() + span], (uintptr_t)site);
    hak_store_relaxed(&table[span], (uint64_t)magic_in_use << 32 | low_half(block, size));
}

static hak_record_state_t state_of(uint64_t word, const void *block) {
    uint32_t magic = (uint32_t)(word >> 32), start = (uint32_t)word >> SIZE_BITS;
    if (!word) return HAK_RECORD_NONE;
    if (start != low_half(block, 0) >> SIZE_BITS) return HAK_RECORD_DAMAGED;
    return magic == magic_in_use ? HAK_RECORD_IN_USE
           : magic == magic_free ? HAK_RECORD_FREE
                                 : HAK_RECORD_DAMAGED;
}

hak_record_state_t hak_record_close(const void *block) {
    _Atomic uint64_t *table = table_of(block);
    if (!table) return HAK_RECORD_NONE;
    _Atomic uint64_t *at = &table[span_of(block)];
    uint64_t word = hak_load_relaxed(at);
    hak_record_state_t state = state_of(word, block);
    uint64_t closed = (uint64_t)magic_free << 32 | (uint32_t)word;
    if (state == HAK_RECORD_IN_USE && !hak_cas_acquire(at, &word, closed))
        state = state_of(word, block);
    return state;
}

hak_record_t hak_record_read(const void *block) {
    hak_record_t record = {.state = HAK_RECORD_NONE};
    _Atomic uint64_t *table = table_of(block);
    if (!table) return record;
    uint64_t word = hak_load_relaxed(&table[span_of(block)]);
    record.state = state_of(word, block);
    if (record.state != HAK_RECORD_IN_USE && record.state != HAK_RECORD_FREE) return record;
    record.size = word & ((1u << SIZE_BITS) - 1);
    if (has_sites())
        record.site = (const void *)hak_load_relaxed(&table[span_count() + span_of(block)]);
    return record;
}

unsigned hak_record_count(const hak_superslab_t *super) {
    _Atomic uint64_t *table = hak_load_acquire(&super->records); /* partner: hak_once_make */
    unsigned count = 0;
    for (unsigned i = 0; table && i < span_count(); i++)
        count += hak_load_relaxed(&table[i]) >> 32 == magic_in_use;
    return count;
}

size_t hak_record_bytes(void) { return hak_load_relaxed(&table_bytes); }
