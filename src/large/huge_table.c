/* huge_table.c: a table has two open-addressed arrays; one is filled, the other is emptied. */
#include "large/huge_table.h"

#include <string.h>

#include "large/verify.h"
#include "meta/meta.h"
#include "os/cpu.h"
#include "os/os.h"

enum {
    LEAST_SLOTS = 16,
    EMPTIED_AT_ONCE = 8,     /* slots and entries that move for each block that is entered */
    CLEARED_MOST = 64 * KIB, /* bytes; longer arrays are fresh memory, which is zero */
};

hak_huge_table_t hak_huge_table[HAK_HUGE_TABLE_MAX] HAK_APART;
HAK_LOCK_RANKS(mappings_rows, HUGE, hak_huge_table, sizeof hak_huge_table, sizeof *hak_huge_table,
               hak_huge_table_check_at_release);

static _Atomic unsigned table_count HAK_READ_OFTEN; /* constant once it is not 0; a power of two */

unsigned hak_huge_table_count(void) {
    unsigned count = hak_load_relaxed(&table_count);
    if (HAK_UNLIKELY(count == 0)) {
        unsigned wanted = (unsigned)hak_ceil_pow2(2 * (size_t)hak_os_cpu_count());
        wanted = (unsigned)hak_min(wanted, HAK_HUGE_TABLE_MAX);
        if (hak_cas_acquire(&table_count, &count, wanted)) count = wanted;
    }
    return count;
}

static const uint64_t MIX = 0x9E3779B97F4A7C15u;

static uint64_t hash_of(uintptr_t start) { return (start >> 12) * MIX; }

hak_huge_table_t *hak_huge_table_of(uintptr_t start) {
    return &hak_huge_table[(hash_of(start) >> 57) & (hak_huge_table_count() - 1)];
}

/* The order in which a walk visits blocks, whatever the number of slots. The hash is mixed once more: otherwise blocks
 * of one table at equal distances would make clusters of a hundred. */
static size_t order_of(uintptr_t start) {
    const uint64_t hash = hash_of(start);
    return (size_t)((hash ^ hash >> 32) * MIX >> (64 - HAK_HUGE_ORDER_BITS));
}

/* The first slot that a block of that order may have. */
static size_t slot_at(const hak_slots_t *table, size_t order) {
    return order * table->size >> HAK_HUGE_ORDER_BITS;
}

/* The slot at which the search for a block begins. No free slot lies between it and the block's own slot (a removal
 * moves followers up), so a search ends at the first free slot. */
static size_t slot_of(const hak_slots_t *table, uintptr_t start) {
    return slot_at(table, order_of(start));
}

static hak_mapping_t *find_in(const hak_slots_t *table, uintptr_t start) {
    if (!table->used) return NULL;
    hak_mapping_t *slots = table->slots;
    for (size_t i = slot_of(table, start); slots[i].start; i = (i + 1) & (table->size - 1))
        if (slots[i].start == start) return &slots[i];
    return NULL;
}

static void put_in(hak_slots_t *table, hak_mapping_t mapping) {
    size_t i = slot_of(table, mapping.start);
    while (table->slots[i].start) i = (i + 1) & (table->size - 1);
    table->slots[i] = mapping;
    table->used++;
}

static void remove_from(hak_slots_t *table, hak_mapping_t *mapping) {
    hak_mapping_t *slots = table->slots;
    size_t hole = (size_t)(mapping - slots), mask = table->size - 1;
    for (size_t i = (hole + 1) & mask; slots[i].start; i = (i + 1) & mask) {
        /* An entry may fill the hole unless its own slot lies after the hole. */
        if (((i - slot_of(table, slots[i].start)) & mask) < ((i - hole) & mask)) continue;
        slots[hole] = slots[i];
        hole = i;
    }
    slots[hole].start = 0;
    table->used--;
}

hak_mapping_t *hak_huge_table_find(hak_huge_table_t *table, uintptr_t start) {
    hak_mapping_t *found = find_in(&table->current, start);
    return found ? found : find_in(&table->former, start);
}

size_t hak_huge_table_wanted(const hak_huge_table_t *table) {
    size_t size = table->current.size;
    if (((size_t)table->current.used + table->former.used + table->in_hand) * 2 < size) return 0;
    return size ? size * 2 : LEAST_SLOTS;
}

static size_t bytes_of(size_t slots) { return (slots + HAK_FREED_MAX) * sizeof(hak_mapping_t); }

hak_slots_t hak_huge_table_make(size_t count) {
    const bool is_long = bytes_of(count) > CLEARED_MOST;
    const size_t bytes = bytes_of(count);
    hak_slots_t made = {is_long ? hak_meta_alloc_zeroed(bytes) : hak_meta_alloc(bytes),
                        (unsigned)count, 0};
    if (made.slots && !is_long) memset(made.slots, 0, count * sizeof *made.slots);
    return made;
}

/* The pages of a long array go back to the system, so that it is as good as a fresh one. If they are locked it is
 * cleared, which takes no longer than it took to fill it. */
HAK_BEHIND void hak_huge_table_unmake(hak_slots_t slots) {
    size_t bytes = hak_align_up(bytes_of(slots.size), hak_os_page_size());
    if (!slots.slots) return;
    if (bytes_of(slots.size) <= CLEARED_MOST) {
        hak_meta_free(slots.slots, bytes_of(slots.size));
        return;
    }
    if (!hak_os_purge(slots.slots, bytes)) memset(slots.slots, 0, bytes);
    hak_meta_free_zeroed(slots.slots, bytes_of(slots.size));
}

hak_slots_t hak_huge_table_take_empty(hak_huge_table_t *table) {
    hak_slots_t empty = table->former;
    if (HAK_LIKELY(!empty.size || empty.used)) return (hak_slots_t){NULL, 0, 0};
    table->former = (hak_slots_t){NULL, 0, 0};
    return empty;
}

/* An array of n slots replaces one with n / 4 entries, and is full when it has n / 2 entries. By then
 * n / 4 blocks have been entered, and each has emptied 8 slots or entries of the former array: 2 n,
 * which is all of them. */
void hak_huge_table_use(hak_huge_table_t *table, hak_slots_t *slots) {
    const hak_slots_t larger = *slots;
    if (larger.size <= table->current.size || table->former.used) return;
    if (table->gone)
        memcpy(larger.slots + larger.size, table->current.slots + table->current.size,
               HAK_FREED_MAX * sizeof *larger.slots);
    table->former = table->current;
    table->current = larger;
    table->next_out = 0;
    *slots = hak_huge_table_take_empty(table); /* empty if all of its blocks are in hand */
}

/* A removal moves entries only into holes at next_out or behind it, so the slots below it stay empty. */
static void empty_some(hak_huge_table_t *table) {
    for (unsigned looks = 0; table->former.used && looks < EMPTIED_AT_ONCE; looks++) {
        hak_mapping_t *mapping = &table->former.slots[table->next_out];
        if (!mapping->start) {
            table->next_out++;
            continue;
        }
        put_in(&table->current, *mapping);
        remove_from(&table->former, mapping); /* a follower may stand there now */
    }
}

void hak_huge_table_put(hak_huge_table_t *table, hak_mapping_t mapping) {
    empty_some(table);
    put_in(&table->current, mapping);
}

static hak_mapping_t *gone_at(const hak_huge_table_t *table, unsigned number) {
    return &table->current.slots[table->current.size + number % HAK_FREED_MAX];
}

size_t hak_huge_table_freed_size(const hak_huge_table_t *table, uintptr_t start) {
    unsigned known = (unsigned)hak_min(table->gone, HAK_FREED_MAX);
    for (unsigned i = 1; i <= known; i++) {
        const hak_mapping_t *gone = gone_at(table, table->gone - i);
        if (gone->start == start) return gone->size;
    }
    return 0;
}

void hak_huge_table_remove(hak_huge_table_t *table, hak_mapping_t *mapping) {
    hak_slots_t *former = &table->former;
    *gone_at(table, table->gone++) = *mapping;
    bool is_former = (uintptr_t)mapping - (uintptr_t)former->slots < former->size * sizeof *mapping;
    remove_from(is_former ? former : &table->current, mapping);
}

void hak_huge_table_take_in_hand(hak_huge_table_t *table, hak_mapping_t *mapping) {
    hak_huge_table_remove(table, mapping);
    table->in_hand++;
}

void hak_huge_table_put_back(hak_huge_table_t *table, hak_mapping_t mapping) {
    table->in_hand--;
    /* A block that comes back unmoved was not freed: it leaves the ring. */
    if (gone_at(table, table->gone - 1)->start == mapping.start) table->gone--;
    hak_huge_table_put(table, mapping);
}

/* Visits the blocks whose order is in from .. to - 1. They stand in the slots of these orders, or behind them up to the
 * first free slot. */
static HAK_BEHIND bool walk_in(const hak_slots_t *table, size_t from, size_t to,
                               hak_mapping_visitor_t visit, void *context) {
    if (!table->used) return true;
    const size_t first = slot_at(table, from), least = slot_at(table, to - 1) - first;
    for (size_t i = 0; i < table->size; i++) {
        const hak_mapping_t *mapping = &table->slots[(first + i) & (table->size - 1)];
        if (!mapping->start && i > least) break;
        const size_t order = order_of(mapping->start);
        if (mapping->start && order >= from && order < to && !visit(mapping, context)) return false;
    }
    return true;
}

HAK_BEHIND bool hak_huge_table_walk(hak_huge_table_t *table, size_t *at,
                                    hak_mapping_visitor_t visit, void *context) {
    const size_t all = (size_t)1 << HAK_HUGE_ORDER_BITS, from = *at;
    const size_t pieces = hak_max(table->current.size / HAK_HUGE_WALKED, 1);
    const size_t to = *at = from + all / pieces;
    return walk_in(&table->current, from, to, visit, context) &&
           walk_in(&table->former, from, to, visit, context) && to < all;
}
