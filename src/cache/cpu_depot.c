/* cpu_depot.c: the stacks of the CPUs. A CPU's depots are made when the first thread puts a block there, and
 * their memory stays. */
#include "cache/cpu_depot.h"

#include <string.h>

#include "classes/classes.h"
#include "debug/call_paths.h"
#include "meta/lazy_table.h"
#include "os/os.h"
#include "shard/flush.h"

enum {
    SHARE_SMALL = 512 * 1024, /* of tiny blocks of a thread, below which depots are open */
    BYTES_MOST = 64 * 1024,   /* of blocks in a depot, but... */
    SLOTS_LEAST = 8,          /* ...so many blocks in any case, and... */
    SLOTS_MOST = 128,         /* ...not more than these */
    SWEPT_MOST = 64,          /* blocks that a sweep takes under one lock */
    MOVED_MOST = 64,          /* blocks that a thread without a cache moves at once, at most */
    REFILL_PART = 8,          /* it takes 1/REFILL_PART of a depot from the shard... */
    FLUSH_PART = 2,           /* ...and gives 1/FLUSH_PART to the shard */
};

_Atomic uint32_t hak_depot_novice_calls HAK_READ_OFTEN;

/* By CPU: a row of depots, by class. */
static hak_lazy_table_t rows HAK_APART;

void hak_depot_set_share(size_t tiny_bytes, bool has_more_threads) {
    const bool opens = has_more_threads && tiny_bytes < SHARE_SMALL;
    if (hak_load_relaxed(&hak_pool_crowded) != opens) hak_store_relaxed(&hak_pool_crowded, opens);
}

hak_depot_t *hak_depot_row(unsigned cpu) { return hak_lazy_table_at(&rows, cpu); }

static size_t slots_of(unsigned class_index) {
    return hak_max(hak_min(BYTES_MOST / hak_classes[class_index].size, SLOTS_MOST), SLOTS_LEAST);
}

static bool make_stack(hak_depot_t *depot, unsigned cpu, unsigned class_index) {
    const size_t slots = slots_of(class_index);
    depot->blocks = hak_shard_record(cpu, slots * sizeof(void *));
    if (depot->blocks) depot->slots = (uint32_t)slots;
    return depot->blocks != NULL;
}

/* The depot of a class and a CPU; NULL without memory. */
static hak_depot_t *open_on(unsigned cpu, unsigned class_index) {
    hak_depot_t *row = hak_depot_row(cpu);
    if (HAK_UNLIKELY(!row))
        row = hak_lazy_table_open(&rows, cpu, NULL, HAK_CLASS_LIMIT * sizeof(hak_depot_t));
    return row ? &row[class_index] : NULL;
}

HAK_BEHIND size_t hak_depot_put(unsigned cpu, unsigned class_index, void *const *blocks,
                                size_t count) {
    hak_depot_t *depot = open_on(cpu, class_index);
    if (!depot || !hak_lock_try(&depot->lock)) return 0;
    size_t held = hak_load_relaxed(&depot->count), kept = 0;
    if (HAK_LIKELY(depot->slots) || make_stack(depot, cpu, class_index)) {
        kept = hak_min(count, depot->slots - held);
        memcpy(depot->blocks + held, blocks, kept * sizeof(void *));
        hak_store_relaxed(&depot->count, (uint32_t)(held + kept));
        depot->is_used = true;
    }
    hak_lock_release_tried(&depot->lock);
    return kept;
}

/* Lock held. */
static size_t take(hak_depot_t *depot, void **top, size_t want) {
    size_t held = hak_load_relaxed(&depot->count), taken = hak_min(want, held);
    if (!taken) return 0;
    memcpy(top + 1, depot->blocks + held - taken, taken * sizeof(void *));
    hak_store_relaxed(&depot->count, (uint32_t)(held - taken));
    return taken;
}

/* The depot of a class and a CPU; NULL if it has no block. */
static hak_depot_t *filled_on(unsigned cpu, unsigned class_index) {
    hak_depot_t *row = hak_depot_row(cpu);
    hak_depot_t *depot = row ? &row[class_index] : NULL;
    return depot && hak_load_relaxed(&depot->count) ? depot : NULL;
}

/* Blocks have been taken. Lock held. */
static void note_taken(hak_depot_t *depot, size_t taken) {
    HAK_ADD_OWNED(&depot->taken, taken);
    depot->is_used = true;
}

HAK_BEHIND size_t hak_depot_take(unsigned cpu, unsigned class_index, void **top, size_t want) {
    hak_depot_t *depot = filled_on(cpu, class_index);
    if (!depot || !hak_lock_try(&depot->lock)) return 0;
    size_t taken = take(depot, top, want);
    note_taken(depot, taken);
    hak_lock_release_tried(&depot->lock);
    return taken;
}

/* Takes one block; NULL if there is none. *is_held: there are blocks, but another thread has the lock. Inside the gate. */
HAK_FAST_PATH void *take_one(unsigned cpu, unsigned class_index, bool *is_held) {
    hak_depot_t *depot = filled_on(cpu, class_index);
    void *block = NULL;
    *is_held = false;
    if (!depot) return NULL;
    *is_held = !hak_lock_try_apart(&depot->lock);
    if (*is_held) return NULL;
    const uint32_t held = hak_load_relaxed(&depot->count);
    if (HAK_LIKELY(held > 0)) {
        block = depot->blocks[held - 1];
        hak_store_relaxed(&depot->count, held - 1);
        note_taken(depot, 1);
    }
    hak_lock_release_tried_apart(&depot->lock);
    return block;
}

HAK_BEHIND unsigned hak_depot_shard(void) { return hak_shard_open(hak_shard_here()); }

/* Blocks that a thread without a cache moves between a depot and a shard: a part of the depot. */
static unsigned part_of(unsigned class_index, size_t part) {
    return (unsigned)hak_min(hak_max(slots_of(class_index) / part, 1), MOVED_MOST);
}

/* The blocks that a call moves between a depot and a shard, and those that were already free. The thread reports the
 * latter when it is outside the gate. */
typedef struct {
    hak_twice_t twice; /* already free, found by a take */
    void **found;      /* the same, found by a give: the first... */
    unsigned bad;      /* ...so many of this array */
    void *blocks[1 + MOVED_MOST];
} moved_t;
_Static_assert(SWEPT_MOST <= MOVED_MOST, "a sweep has room");

/* Gives `count` blocks to a shard. Inside the gate. */
static HAK_BEHIND void give_to_shard(moved_t *moved, unsigned home, unsigned class_index,
                                     void **blocks, size_t count) {
    moved->found = blocks;
    moved->bad = hak_shard_flush_all_inside(home, class_index, blocks, (unsigned)count);
}

static HAK_BEHIND void report_moved(const moved_t *moved, unsigned class_index) {
    hak_shard_report_twice(&moved->twice, class_index);
    hak_shard_report_all(moved->found, moved->bad, class_index);
}

HAK_FAST_PATH void report(const moved_t *moved, unsigned class_index) {
    if (HAK_UNLIKELY(moved->twice.bits || moved->bad)) report_moved(moved, class_index);
}

HAK_FAST_PATH void begin(moved_t *moved) { moved->twice.bits = moved->bad = 0; }

/* Inside the gate. */
static HAK_BEHIND void *get_on(unsigned cpu, unsigned class_index, moved_t *moved) {
    void **const blocks = moved->blocks;
    bool is_held;
    void *const one = take_one(cpu, class_index, &is_held);
    if (HAK_WAY_FOUND(HAK_WAY_REFILL_DEPOT, one != NULL)) return one;
    const unsigned home = hak_shard_open(cpu);
    const unsigned want = is_held ? 1 : part_of(class_index, REFILL_PART);
    const size_t taken = hak_shard_take_inside(home, class_index, want, blocks, &moved->twice);
    if (!taken) return NULL;
    void *const block = blocks[taken];
    const size_t more = taken - 1,
                 kept = more ? hak_depot_put(cpu, class_index, blocks + 1, more) : 0;
    if (kept < more) give_to_shard(moved, home, class_index, blocks + 1 + kept, more - kept);
    return block;
}

/* Reports what was found, and first gives the block back that was to be returned: the program's handler of SIGABRT may
 * jump away. */
static HAK_BEHIND void untake(moved_t *moved, unsigned cpu, unsigned class_index, void *block) {
    void *one[] = {NULL, block};
    hak_shard_untake(hak_shard_open(cpu), class_index, one, block != NULL, &moved->twice);
    hak_shard_report_all(moved->found, moved->bad, class_index);
}

HAK_BEHIND void *hak_depot_get(unsigned class_index) {
    moved_t moved;
    const unsigned cpu = hak_shard_here();
    for (;;) {
        begin(&moved);
        hak_gate_enter_on(cpu);
        void *const block = get_on(cpu, class_index, &moved);
        hak_gate_leave();
        if (HAK_LIKELY(!moved.twice.bits && !moved.bad)) return block;
        untake(&moved, cpu, class_index, block);
    }
}

/* Lock held. */
static bool has_on_top(const hak_depot_t *depot, const void *block) {
    const size_t held = hak_load_relaxed(&depot->count);
    return (held > 0 && depot->blocks[held - 1] == block) ||
           (held > 1 && depot->blocks[held - 2] == block);
}

/* Takes the oldest blocks of a full depot. Lock held. */
static size_t make_room(hak_depot_t *depot, unsigned class_index, void **blocks) {
    const size_t held = hak_load_relaxed(&depot->count);
    if (held < depot->slots) return 0;
    const unsigned count = part_of(class_index, FLUSH_PART);
    memcpy(blocks, depot->blocks, count * sizeof(void *));
    memmove(depot->blocks, depot->blocks + count, (held - count) * sizeof(void *));
    hak_store_relaxed(&depot->count, (uint32_t)(held - count));
    return count;
}

/* Puts one block, and stores in *count how many blocks of `blocks` must go to the shard: that block, if the depot
 * cannot keep it, or the blocks that made room for it. Lock held. */
static bool put_one(hak_depot_t *depot, unsigned cpu, unsigned class_index, void **blocks,
                    size_t *count) {
    void *block = blocks[0];
    if (has_on_top(depot, block)) return false;
    if (HAK_UNLIKELY(!depot->slots) && !make_stack(depot, cpu, class_index)) return true;
    *count = make_room(depot, class_index, blocks);
    const uint32_t held = hak_load_relaxed(&depot->count);
    depot->blocks[held] = block;
    hak_store_relaxed(&depot->count, held + 1);
    depot->is_used = true;
    return true;
}

/* Inside the gate. */
static HAK_BEHIND bool give_on(unsigned cpu, unsigned class_index, void *block, moved_t *moved) {
    size_t count = 1;
    moved->blocks[0] = block;
    hak_depot_t *depot = open_on(cpu, class_index);
    if (depot && hak_lock_try_apart(&depot->lock)) {
        const bool is_new = put_one(depot, cpu, class_index, moved->blocks, &count);
        hak_lock_release_tried_apart(&depot->lock);
        if (HAK_UNLIKELY(!is_new)) return false;
    }
    if (count) give_to_shard(moved, hak_shard_open(cpu), class_index, moved->blocks, count);
    return true;
}

HAK_BEHIND bool hak_depot_give(unsigned class_index, void *block) {
    moved_t moved;
    const unsigned cpu = hak_shard_here();
    begin(&moved);
    hak_gate_enter_on(cpu);
    const bool is_new = give_on(cpu, class_index, block, &moved);
    hak_gate_leave();
    report(&moved, class_index);
    return is_new;
}

/* Gives up to `most` blocks of the depot that the walk has come to; *taken: how many. False when another
 * thread has the lock. */
static bool sweep(const hak_walk_t *walk, hak_depot_t *depot, unsigned most, bool all,
                  unsigned *taken) {
    moved_t moved;
    const unsigned class_index = walk->class_index + 1;
    begin(&moved);
    hak_gate_enter();
    const bool locked = hak_lock_try(&depot->lock);
    if (locked) {
        if (all || !depot->is_used) *taken = (unsigned)take(depot, moved.blocks, most);
        depot->is_used = false;
        hak_lock_release_tried(&depot->lock);
    }
    if (*taken) {
        const unsigned home = hak_shard_open(walk->shard % hak_shard_homes());
        give_to_shard(&moved, home, class_index, moved.blocks + 1, *taken);
    }
    hak_gate_leave();
    report(&moved, class_index);
    return locked;
}

/* A depot whose lock is held is not idle. A sweep of all depots waits for it, but not for ever: the holder may have
 * lost its CPU to many other threads. */
static unsigned sweep_patiently(const hak_walk_t *walk, hak_depot_t *depot, unsigned most, bool all,
                                unsigned *patience) {
    unsigned taken = 0;
    for (; !sweep(walk, depot, most, all, &taken) && *patience; --*patience) hak_os_sleep_ms(1);
    return taken;
}

bool hak_depot_sweep(hak_walk_t *walk, bool all, unsigned *patience, hak_budget_t *budget) {
    while ((walk->shard = hak_lazy_table_next(&rows, walk->shard)) < HAK_LAZY_TABLE_MOST) {
        hak_depot_t *row = hak_depot_row(walk->shard);
        while (walk->class_index < HAK_CLASS_COUNT) {
            if (hak_budget_is_spent(budget)) return false;
            hak_depot_t *depot = &row[walk->class_index + 1];
            unsigned most = hak_min(budget->looks, SWEPT_MOST), taken = 0;
            if (hak_load_relaxed(&depot->count)) {
                taken = sweep_patiently(walk, depot, most, all, patience);
                hak_budget_look(budget, 1 + taken); /* they may be of so many slabs */
            }
            if (taken < most) walk->class_index++;
        }
        hak_budget_look(budget, 1); /* a row: as a shard in hak_shard_release_piece */
        walk->class_index = 0;
        walk->shard++;
    }
    return true;
}

size_t hak_depot_count(unsigned class_index) {
    size_t count = 0;
    for (unsigned cpu = 0; (cpu = hak_lazy_table_next(&rows, cpu)) < HAK_LAZY_TABLE_MOST; cpu++)
        count += hak_load_relaxed(&hak_depot_row(cpu)[class_index].count);
    return count;
}

uint64_t hak_depot_taken(void) {
    uint64_t taken = 0;
    for (unsigned cpu = 0; (cpu = hak_lazy_table_next(&rows, cpu)) < HAK_LAZY_TABLE_MOST; cpu++)
        for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
            taken += hak_load_relaxed(&hak_depot_row(cpu)[i].taken);
    return taken;
}
