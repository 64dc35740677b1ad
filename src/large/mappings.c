/* mappings.c: two open-addressed tables, one that is filled and one that is emptied. */
#include "large/mappings.h"

#include <string.h>

#include "meta/meta.h"

enum {
    LEAST_SLOTS = 64,
    EMPTIED_AT_ONCE = 8,  /* slots and entries for each block that is entered */
    WALKED_AT_ONCE = 512, /* slots */
    REMOVED_MAX = 256,
};

/* Entries of a chain are never separated by a free slot (removal moves followers up), so a
 * search ends at the first free one. */
typedef struct {
    hak_mapping_t *slots;
    size_t size; /* a power of two, or 0 */
    size_t used;
} table_t;

static table_t current;
static table_t former;  /* its entries move to the current one */
static size_t next_out; /* below it, the former one is empty */
static size_t in_hand;

/* The blocks that were removed last. A second free usually comes soon after the first one, and its line
 * can then tell the size. */
static hak_mapping_t removed[REMOVED_MAX]; /* a ring */
static unsigned removed_next;

static size_t slot_of(const table_t *table, uintptr_t start) {
    return (size_t)((start >> 12) * 0x9E3779B97F4A7C15u >> 20) & (table->size - 1);
}

static hak_mapping_t *find_in(const table_t *table, uintptr_t start) {
    if (!table->used) return NULL;
    hak_mapping_t *slots = table->slots;
    for (size_t i = slot_of(table, start); slots[i].start; i = (i + 1) & (table->size - 1))
        if (slots[i].start == start) return &slots[i];
    return NULL;
}

static void put_in(table_t *table, hak_mapping_t mapping) {
    size_t i = slot_of(table, mapping.start);
    while (table->slots[i].start) i = (i + 1) & (table->size - 1);
    table->slots[i] = mapping;
    table->used++;
}

static void remove_from(table_t *table, hak_mapping_t *mapping) {
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

hak_mapping_t *hak_mappings_find(uintptr_t start) {
    hak_mapping_t *found = find_in(&current, start);
    return found ? found : find_in(&former, start);
}

size_t hak_mappings_wanted(void) {
    if ((current.used + former.used + in_hand) * 2 < current.size) return 0;
    return current.size ? current.size * 2 : LEAST_SLOTS;
}

hak_mapping_t *hak_mappings_make(size_t slots) {
    hak_mapping_t *table = hak_meta_alloc(slots * sizeof *table);
    if (table) memset(table, 0, slots * sizeof *table);
    return table;
}

void hak_mappings_discard(hak_mapping_t *table, size_t slots) {
    hak_meta_free(table, slots * sizeof *table);
}

/* A table of n slots replaces one with n / 4 entries. When it is full it has n / 2 entries. So n / 4
 * blocks were entered since, and each emptied 8 slots or entries of the former table: 2 n, which is
 * all. */
bool hak_mappings_use(hak_mapping_t *larger, size_t slots) {
    if (slots <= current.size || former.used) return false;
    if (former.size) hak_mappings_discard(former.slots, former.size);
    former = current;
    current = (table_t){larger, slots, 0};
    next_out = 0;
    return true;
}

/* A removal moves entries only into holes at next_out or behind it. So the slots below stay empty. */
static void empty_some(void) {
    for (unsigned looks = 0; former.used && looks < EMPTIED_AT_ONCE; looks++) {
        hak_mapping_t *mapping = &former.slots[next_out];
        if (!mapping->start) {
            next_out++;
            continue;
        }
        put_in(&current, *mapping);
        remove_from(&former, mapping); /* a follower may stand there now */
    }
}

void hak_mappings_put(uintptr_t start, size_t size) {
    empty_some();
    put_in(&current, (hak_mapping_t){start, size, 0});
}

void hak_mappings_remove(hak_mapping_t *mapping) {
    removed[removed_next++ % REMOVED_MAX] = *mapping;
    bool is_former = (uintptr_t)mapping - (uintptr_t)former.slots < former.size * sizeof *mapping;
    remove_from(is_former ? &former : &current, mapping);
}

size_t hak_mappings_removed(uintptr_t start) {
    for (unsigned i = 1; i <= REMOVED_MAX; i++) {
        const hak_mapping_t *mapping = &removed[(removed_next - i) % REMOVED_MAX];
        if (mapping->start == start) return mapping->size;
    }
    return 0;
}

void hak_mappings_take_in_hand(hak_mapping_t *mapping) {
    hak_mappings_remove(mapping);
    in_hand++;
}

void hak_mappings_put_back(uintptr_t start, size_t size) {
    in_hand--;
    hak_mappings_put(start, size);
}

bool hak_mappings_walk(size_t *at, hak_mapping_visitor_t visit, void *context) {
    size_t end = *at + WALKED_AT_ONCE, all = current.size + former.size;
    for (; *at < end && *at < all; (*at)++) {
        const hak_mapping_t *mapping =
            *at < current.size ? &current.slots[*at] : &former.slots[*at - current.size];
        if (mapping->start && !visit(mapping, context)) return false;
    }
    return *at < all;
}
