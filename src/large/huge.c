/* huge.c: an open-addressed table of mappings, keyed by page number. */
#include "large/huge.h"

#include "os/os.h"
#include "region/meta.h"

typedef struct {
    uintptr_t start; /* 0 = free entry */
    size_t size;
} entry_t;

enum { TABLE_START = 64 };

hak_huge_stats_t hak_huge_stats;
hak_lock_t hak_huge_lock;

/* Under the lock. At most half full; entries of a chain are never separated by a
 * free one (removal moves followers up), so a search ends at the first free. */
static entry_t *table;
static size_t table_size; /* a power of two, or 0 */
static size_t table_used;

static size_t slot_of(uintptr_t start) {
    return (size_t)((start >> 12) * 0x9E3779B97F4A7C15u >> 20) & (table_size - 1);
}

static entry_t *find(uintptr_t start) {
    if (!table_size) return NULL;
    for (size_t i = slot_of(start); table[i].start; i = (i + 1) & (table_size - 1))
        if (table[i].start == start) return &table[i];
    return NULL;
}

static void put(uintptr_t start, size_t size) {
    size_t i = slot_of(start);
    while (table[i].start) i = (i + 1) & (table_size - 1);
    table[i] = (entry_t){start, size};
    table_used++;
}

static void remove_entry(entry_t *entry) {
    size_t hole = (size_t)(entry - table), mask = table_size - 1;
    for (size_t i = (hole + 1) & mask; table[i].start; i = (i + 1) & mask) {
        /* An entry may fill the hole unless its own slot lies after the hole. */
        if (((i - slot_of(table[i].start)) & mask) < ((i - hole) & mask)) continue;
        table[hole] = table[i];
        hole = i;
    }
    table[hole].start = 0;
    table_used--;
}

static bool make_room(void) {
    if (table_used * 2 < table_size) return true;
    size_t old_size = table_size, size = old_size ? old_size * 2 : TABLE_START;
    entry_t *old = table, *larger = hak_meta_alloc(size * sizeof *larger);
    if (!larger) return false;
    for (size_t i = 0; i < size; i++) larger[i].start = 0;
    table = larger;
    table_size = size;
    table_used = 0;
    for (size_t i = 0; i < old_size; i++)
        if (old[i].start) put(old[i].start, old[i].size);
    hak_meta_free(old, old_size * sizeof *old);
    return true;
}

static void count(size_t blocks, size_t bytes) {
    HAK_COUNT(&hak_huge_stats.block_count, blocks);
    HAK_COUNT(&hak_huge_stats.bytes, bytes);
}

void *hak_huge_alloc(size_t size, size_t align) {
    size_t page = hak_os_page_size();
    size = hak_align_up(size, page);
    void *block = hak_os_map(size, hak_max(align, page));
    if (!block) return NULL;
    hak_lock_acquire(&hak_huge_lock);
    bool room = make_room();
    if (room) {
        put((uintptr_t)block, size);
        count(1, size);
    }
    hak_lock_release(&hak_huge_lock);
    if (!room) hak_os_unmap(block, size);
    return room ? block : NULL;
}

size_t hak_huge_size(const void *block) {
    hak_lock_acquire(&hak_huge_lock);
    const entry_t *entry = find((uintptr_t)block);
    size_t size = entry ? entry->size : 0;
    hak_lock_release(&hak_huge_lock);
    return size;
}

bool hak_huge_find(const void *pointer, void **start, size_t *size) {
    bool found = false;
    hak_lock_acquire(&hak_huge_lock);
    for (size_t i = 0; i < table_size && !found; i++) {
        if (!table[i].start || (uintptr_t)pointer - table[i].start >= table[i].size) continue;
        *start = (void *)table[i].start;
        *size = table[i].size;
        found = true;
    }
    hak_lock_release(&hak_huge_lock);
    return found;
}

bool hak_huge_free(void *block) {
    hak_lock_acquire(&hak_huge_lock);
    entry_t *entry = find((uintptr_t)block);
    size_t size = entry ? entry->size : 0;
    if (entry) {
        remove_entry(entry);
        count(-(size_t)1, -size);
    }
    hak_lock_release(&hak_huge_lock);
    /* Off the table first: once unmapped, the address may be another thread's. */
    if (size) hak_os_unmap(block, size);
    return size != 0;
}

/* The lock is held over the move, since both addresses change owner in it. */
void *hak_huge_resize(void *block, size_t size) {
    size = hak_align_up(size, hak_os_page_size());
    hak_lock_acquire(&hak_huge_lock);
    entry_t *entry = find((uintptr_t)block);
    size_t old_size = entry ? entry->size : 0;
    void *moved = entry ? hak_os_remap(block, old_size, size, true) : NULL;
    if (moved) {
        remove_entry(entry);
        put((uintptr_t)moved, size);
        count(0, size - old_size);
    }
    hak_lock_release(&hak_huge_lock);
    return moved;
}
