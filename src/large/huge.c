/* huge.c: an open-addressed table of mappings, keyed by page number; what is kept of them. */
#include "large/huge.h"

#include <string.h>

#include "classes/classes.h"
#include "large/reuse.h"
#include "options/options.h"
#include "os/os.h"
#include "region/commit.h"
#include "region/meta.h"
#include "region/range.h"

typedef struct {
    uintptr_t start; /* 0 = free entry */
    size_t size;
} entry_t;

enum {
    TABLE_START = 64,
    SINK_INTERVAL_MS = 250,
    BATCH_MAX = 32,                /* stretches unmapped in one go */
    KEEP_LEAST = 32 * 1024 * 1024, /* bytes that may be kept in any case */
};

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

/* ---- calls and forks ---- */

enum { CLOSE_SPINS = 1000, CLOSE_MS = 1000 };
#define CLOSED ((uint32_t)1 << 31)

static _Atomic uint32_t inside; /* huge.h has the protocol; orders pair with each other */

/* Not for the thread that forks, which is not counted. */
static HAK_SLOW_PATH bool enter_closed(void) {
    uint32_t now;
    do {
        atomic_fetch_sub_explicit(&inside, 1, memory_order_release);
        if (hak_lock_is_keeper()) return false;
        while ((now = hak_load_relaxed(&inside)) & CLOSED) hak_os_futex_wait(&inside, now);
    } while (atomic_fetch_add_explicit(&inside, 1, memory_order_acquire) & CLOSED);
    return true;
}

/* Returns whether the caller is counted, for leave. */
static bool enter(void) {
    uint32_t before = atomic_fetch_add_explicit(&inside, 1, memory_order_acquire);
    return HAK_LIKELY(!(before & CLOSED)) || enter_closed();
}

static void leave(bool counted) {
    if (counted) atomic_fetch_sub_explicit(&inside, 1, memory_order_release);
}

void hak_huge_close(void) {
    hak_or_acq_rel(&inside, CLOSED);
    for (unsigned i = 0; i < CLOSE_SPINS + CLOSE_MS && hak_load_acquire(&inside) != CLOSED; i++)
        if (i < CLOSE_SPINS)
            hak_cpu_relax();
        else
            hak_os_sleep_ms(1);
}

void hak_huge_open(void) {
    atomic_fetch_and_explicit(&inside, ~CLOSED, memory_order_release);
    hak_os_futex_wake(&inside, true);
}

void hak_huge_reset(void) { hak_store_relaxed(&inside, 0); }

/* Under the lock. Bytes in use lately, at most; sinks by an eighth of the distance at
 * every interval. */
static size_t recent_peak;
static uint32_t sunk_ms;      /* when it last did */
static uint32_t allocated_ms; /* the last request */

static void count(size_t blocks, size_t bytes) {
    HAK_COUNT(&hak_huge_stats.block_count, blocks);
    HAK_COUNT(&hak_huge_stats.bytes, bytes);
    recent_peak = hak_max(recent_peak, hak_load_relaxed(&hak_huge_stats.bytes));
}

/* ---- kept stretches, and their way back to the system ---- */

/* What was taken out under the lock, to be unmapped without it. */
typedef struct {
    hak_stretch_t stretches[BATCH_MAX];
    unsigned count;
} batch_t;

static void note_kept(void) { hak_store_relaxed(&hak_huge_stats.kept_bytes, hak_reuse_bytes()); }

/* Bytes that may be kept where `used` are in use. Under the lock. */
static size_t keep_most_beside(size_t used) {
    int64_t fixed = hak_option(HAK_OPTION_HUGE_CACHE);
    if (hak_option(HAK_OPTION_DISABLE_BATCH)) return 0;
    if (fixed >= 0) return (size_t)fixed;
    return hak_max(KEEP_LEAST, recent_peak + recent_peak / 2 - used);
}

static size_t keep_most(void) { return keep_most_beside(hak_load_relaxed(&hak_huge_stats.bytes)); }

/* True when `size` bytes in use can be kept and nothing has to go for them. Under the lock. */
static bool fits(size_t size) {
    size_t used = hak_load_relaxed(&hak_huge_stats.bytes);
    return hak_reuse_has_place() && hak_reuse_bytes() + size <= keep_most_beside(used - size);
}

/* Takes out what is too much, oldest first, and hardly more. Under the lock. */
static void trim(batch_t *batch, uint32_t now) {
    for (; batch->count < BATCH_MAX && hak_reuse_bytes() > keep_most(); batch->count++) {
        size_t excess = hak_align_up(hak_reuse_bytes() - keep_most(), HAK_LARGE_MAX);
        if (!hak_reuse_take_oldest(&batch->stretches[batch->count], excess, now, 0)) break;
    }
    note_kept();
}

/* Keeps a stretch; where there is no place for it, *other has made one. */
static bool keep_refused(const hak_stretch_t *stretch, hak_stretch_t *other) {
    uint32_t now = (uint32_t)hak_os_now_ms();
    hak_lock_acquire(&hak_huge_lock);
    hak_reuse_make_room();
    bool kept = hak_reuse_put(stretch->start, stretch->size, now);
    if (!kept && hak_reuse_take_oldest(other, SIZE_MAX, now, 0))
        hak_reuse_put(stretch->start, stretch->size, now);
    note_kept();
    hak_lock_release(&hak_huge_lock);
    return kept;
}

/* A mapping that the kernel will not cut up (it has too many) is kept, without pages if
 * possible, until there is room for it. More places are made long before the last one is
 * taken. If records have no memory either, the oldest makes room: most are mappings as a
 * whole, which can always be unmapped. One is lost when none of them can. */
static void unmap_failed(hak_stretch_t stretch) {
    hak_stretch_t other;
    hak_os_purge(stretch.start, stretch.size);
    for (unsigned i = 0; i <= HAK_REUSE_MAX && !keep_refused(&stretch, &other); i++) {
        if (hak_os_unmap(other.start, other.size)) {
            hak_commit_release(other.size);
            return;
        }
        stretch = other;
    }
}

/* Unmaps a batch; returns bytes. Without the lock. */
static size_t unmap_batch(const batch_t *batch) {
    size_t bytes = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        const hak_stretch_t *stretch = &batch->stretches[i];
        if (!hak_os_unmap(stretch->start, stretch->size)) {
            unmap_failed(*stretch);
            continue;
        }
        hak_add_relaxed(&hak_huge_stats.unmapped, 1);
        hak_commit_release(stretch->size);
        bytes += stretch->size;
    }
    return bytes;
}

/* Keeps a stretch that is nobody's any more, or adds it to the batch. Under the lock. */
static void keep(char *start, size_t size, batch_t *batch) {
    uint32_t now = (uint32_t)hak_os_now_ms();
    if (!hak_reuse_put(start, size, now) &&
        hak_reuse_take_oldest(&batch->stretches[0], SIZE_MAX, now, 0)) {
        batch->count = 1;
        hak_reuse_put(start, size, now); /* there is a place now */
    }
    trim(batch, now);
}

static void sink_peak(uint32_t now) {
    if (now - sunk_ms < SINK_INTERVAL_MS) return;
    sunk_ms = now;
    recent_peak -= (recent_peak - hak_load_relaxed(&hak_huge_stats.bytes)) / 8;
}

/* While requests go on, the age of a stretch says little: what the peak allows is kept,
 * and the peak sinks. */
static void take_out_old(batch_t *batch, uint32_t now, uint32_t delay_ms) {
    sink_peak(now);
    if (delay_ms && now - allocated_ms < delay_ms) {
        trim(batch, now);
        return;
    }
    while (batch->count < BATCH_MAX &&
           hak_reuse_take_oldest(&batch->stretches[batch->count], SIZE_MAX, now, delay_ms))
        batch->count++;
    note_kept();
}

static size_t purge(uint32_t delay_ms) {
    size_t bytes = 0;
    uint32_t now = (uint32_t)hak_os_now_ms();
    bool counted = enter();
    for (bool more = true; more;) {
        batch_t batch = {.count = 0};
        hak_lock_acquire(&hak_huge_lock);
        take_out_old(&batch, now, delay_ms);
        hak_lock_release(&hak_huge_lock);
        size_t gone = unmap_batch(&batch);
        bytes += gone;
        more = batch.count == BATCH_MAX && gone > 0;
    }
    leave(counted);
    return bytes;
}

/* Most programs have never had any; the first of another thread may be missed until the next
 * round. */
HAK_COMMON size_t hak_huge_purge(uint32_t delay_ms) {
    return hak_load_relaxed(&hak_huge_stats.mapped) ? purge(delay_ms) : 0;
}

/* Lengthens a mapping, in place or at another address. What is several mappings to the
 * kernel it may move, if not lengthen. NULL when it refuses. */
static char *extend(char *start, size_t old_size, size_t size) {
    char *moved = hak_os_remap(start, old_size, size, true);
    if (moved || !hak_os_moves_several()) return moved;
    moved = hak_os_map(size, hak_os_page_size());
    if (!moved) return NULL;
    hak_os_name(moved, size, "hakmem: huge");
    return hak_os_move(start, old_size, moved) ? moved : NULL;
}

/* ---- allocation ---- */

/* Enters a block that `size` bytes were found for. False when the table cannot grow. */
static bool enter_block(char *block, size_t size) {
    if (!make_room()) return false;
    put((uintptr_t)block, size);
    count(1, size);
    allocated_ms = (uint32_t)hak_os_now_ms();
    return true;
}

/* A kept stretch that is large enough, entered; NULL when there is none. Under the lock. */
static char *take_kept(size_t size, size_t align) {
    char *block = make_room() ? hak_reuse_take(size, align) : NULL;
    if (!block) return NULL;
    enter_block(block, size);
    HAK_COUNT(&hak_huge_stats.reused, 1);
    note_kept();
    return block;
}

static char *reuse(size_t size, size_t align) {
    hak_lock_acquire(&hak_huge_lock);
    char *block = take_kept(size, align);
    hak_lock_release(&hak_huge_lock);
    return block;
}

/* Looks again for a kept stretch that is large enough: since `reuse` found none, another thread
 * may have freed one. Where there is still none, *shorter becomes the largest that is too short, to
 * be lengthened. Both in one section: a stretch that is longer than wanted must not be lengthened,
 * for mremap would cut off its end. */
static char *reuse_or_take_out(size_t size, size_t align, hak_stretch_t *shorter) {
    shorter->size = 0;
    hak_lock_acquire(&hak_huge_lock);
    char *block = take_kept(size, align);
    if (!block && align <= hak_os_page_size() && hak_reuse_take_shorter(shorter, size)) note_kept();
    hak_lock_release(&hak_huge_lock);
    return block;
}

/* Keeps a stretch on, as old as it is; unmaps it where there is no place any more. */
static void put_back(const hak_stretch_t *stretch) {
    hak_lock_acquire(&hak_huge_lock);
    bool kept = hak_reuse_put(stretch->start, stretch->size, stretch->freed_ms);
    note_kept();
    hak_lock_release(&hak_huge_lock);
    batch_t batch = {.stretches = {*stretch}, .count = 1};
    if (!kept) unmap_batch(&batch);
}

/* Lengthens a stretch that was taken out: its pages need not be made anew. NULL when there is
 * none, or the kernel does not like it. */
static char *lengthen(const hak_stretch_t *stretch, size_t size) {
    char *block = NULL;
    if (!stretch->size) return NULL;
    if (stretch->size >= HAK_LARGE_MAX && hak_commit_charge(size - stretch->size)) {
        block = extend(stretch->start, stretch->size, size);
        if (!block) hak_commit_release(size - stretch->size);
    }
    if (block)
        hak_add_relaxed(&hak_huge_stats.grown, 1);
    else
        put_back(stretch);
    return block;
}

static char *map_fresh(size_t size, size_t align) {
    if (!hak_commit_charge(size)) return NULL;
    char *block = hak_os_map(size, align);
    if (!block) {
        hak_commit_release(size);
        return NULL;
    }
    hak_os_name(block, size, "hakmem: huge");
    hak_add_relaxed(&hak_huge_stats.mapped, 1);
    return block;
}

/* A mapping that was kept, or kept and lengthened, or a new one. *dirty: bytes that it had. */
static char *map_block(size_t size, size_t align, size_t *dirty) {
    hak_stretch_t shorter;
    batch_t batch = {.count = 0};
    char *block = reuse_or_take_out(size, align, &shorter);
    *dirty = size;
    if (block) return block;
    block = lengthen(&shorter, size);
    *dirty = block ? shorter.size : 0;
    if (!block) block = map_fresh(size, align);
    if (!block) return NULL;
    hak_lock_acquire(&hak_huge_lock);
    bool entered = enter_block(block, size);
    if (entered)
        trim(&batch, (uint32_t)hak_os_now_ms());
    else
        batch = (batch_t){.stretches = {{block, size, 0}}, .count = 1};
    hak_lock_release(&hak_huge_lock);
    unmap_batch(&batch);
    return entered ? block : NULL;
}

void *hak_huge_alloc(size_t size, size_t align, bool zero) {
    size_t page = hak_os_page_size();
    size = hak_align_up(size, page);
    align = hak_max(align, page);
    size_t dirty = size; /* bytes that may not be zero */
    char *block = reuse(size, align);
    if (!block) {
        bool counted = enter();
        block = map_block(size, align, &dirty);
        leave(counted);
    }
    if (block && zero) memset(block, 0, dirty);
    return block;
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

void hak_huge_each_range(hak_range_visitor_t visit, void *context) {
    hak_lock_acquire(&hak_huge_lock);
    for (size_t i = 0; i < table_size; i++)
        if (table[i].start)
            visit(context, HAK_RANGE_HUGE, (const void *)table[i].start, table[i].size);
    hak_reuse_each_range(visit, context);
    hak_lock_release(&hak_huge_lock);
}

/* Off the table first: once unmapped, the address may be another thread's. Under the lock. */
static void take_off(entry_t *entry) {
    count(-(size_t)1, -entry->size);
    remove_entry(entry);
}

static size_t free_and_unmap(char *block) {
    batch_t batch = {.count = 0};
    bool counted = enter();
    hak_lock_acquire(&hak_huge_lock);
    entry_t *entry = find((uintptr_t)block);
    size_t size = entry ? entry->size : 0;
    if (entry) {
        take_off(entry);
        keep(block, size, &batch);
    }
    hak_lock_release(&hak_huge_lock);
    unmap_batch(&batch);
    leave(counted);
    return size;
}

size_t hak_huge_free(void *block) {
    hak_lock_acquire(&hak_huge_lock);
    entry_t *entry = find((uintptr_t)block);
    size_t size = entry ? entry->size : 0;
    bool is_kept = entry && fits(size);
    if (is_kept) {
        take_off(entry);
        hak_reuse_put(block, size, (uint32_t)hak_os_now_ms());
        note_kept();
    }
    hak_lock_release(&hak_huge_lock);
    return entry && !is_kept ? free_and_unmap(block) : size;
}

/* ---- resize ---- */

/* New address of a block that grows by `more` bytes; where it stands, if what is
 * behind it is kept. NULL when the system refuses. Under the lock. */
static char *grow(char *block, size_t old_size, size_t more) {
    if (hak_reuse_take_at(block + old_size, more)) return block;
    if (!hak_commit_charge(more)) return NULL;
    char *moved = extend(block, old_size, old_size + more);
    if (!moved) hak_commit_release(more);
    return moved;
}

void *hak_huge_resize(void *block, size_t size) {
    batch_t batch = {.count = 0};
    size = hak_align_up(size, hak_os_page_size());
    bool counted = enter();
    hak_lock_acquire(&hak_huge_lock);
    entry_t *entry = find((uintptr_t)block);
    size_t old_size = entry ? entry->size : 0;
    char *moved = entry ? block : NULL;
    if (entry && size > old_size) moved = grow(block, old_size, size - old_size);
    if (moved) {
        remove_entry(entry);
        put((uintptr_t)moved, size);
        count(0, size - old_size);
        if (size < old_size) keep(moved + size, old_size - size, &batch);
        note_kept();
    }
    hak_lock_release(&hak_huge_lock);
    unmap_batch(&batch);
    leave(counted);
    return moved;
}
