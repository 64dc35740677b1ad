/* world.c: stand-ins for the layers below the shards, and the checks; world_ledger.c knows who holds which block. */
#include "world.h"

#include <string.h>

#include "error/log.h"
#include "commit/commit.h"
#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "meta/meta.h"
#include "options/options.h"
#include "os/cpu.h"
#include "os/numa_topology.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/stats.h"
#include "shard/flush.h"
#include "trace.h"
#include "world_ledger.h"

enum {
    BITMAPS_PER_THREAD = 3,
    GRAIN = 64, /* of the shadow of blocks' contents; all sizes are multiples */
    GRAINS = HAK_UNIT_SIZE / GRAIN,
    WARMS = 2,
    WARM_SIZE = 128, /* the counters, which are the thread's own, and one slot */
};

static const unsigned classes[] = {WORLD_ONE, WORLD_PAIR, WORLD_QUAD, WORLD_TWO_WORDS,
                                   WORLD_COUNTED};
enum { CLASS_COUNT = sizeof classes / sizeof *classes };

static hak_unit_t slabs[WORLD_UNITS] __attribute__((aligned(64)));
static hak_superslab_t superslab = {.units = slabs};
static char units[WORLD_UNITS][HAK_UNIT_SIZE] __attribute__((aligned(HAK_UNIT_SIZE)));

static uint64_t bitmaps[EXPLORE_THREADS_MAX][BITMAPS_PER_THREAD][8] __attribute__((aligned(64)));
static unsigned bitmap_count[EXPLORE_THREADS_MAX];

static struct {
    uint64_t turns; /* the lock of the free ones, as one atomic variable */
    void *freed[EXPLORE_THREADS_MAX * BITMAPS_PER_THREAD];
    unsigned count;
    bool serve; /* as bitmaps again */
} records __attribute__((aligned(64)));

static struct {
    uint64_t turns; /* the pool lock, as one atomic variable */
    hak_unit_t *stack[WORLD_UNITS];
    unsigned count;
} pool __attribute__((aligned(64)));

static char warms[WARMS][WARM_SIZE] __attribute__((aligned(64)));
static unsigned warm_count;

static char contents[WORLD_UNITS][GRAINS] __attribute__((aligned(64)));

static unsigned units_there; /* in the pool at the beginning */
static bool larson_guard;

const world_array_t world_arrays[] = {
    {"slab", slabs, WORLD_UNITS, sizeof *slabs},
    {"warm", warms, WARMS, WARM_SIZE},
    {"bitmap", bitmaps, sizeof bitmaps / 64, 64},
    {"content of unit", contents, WORLD_UNITS, GRAINS},
    {"pool", &pool, 1, sizeof pool},
    {"free bitmaps", &records, 1, sizeof records},
    {NULL, NULL, 0, 0},
};

/* ---- Stand-ins ------------------------------------------------------------------------------- */

/* Its end is 0: every pointer is looked up by hak_region_unit_of, unless it is known to be a block. */
hak_map_t hak_map = {.super_shift = 2};
_Atomic uint32_t hak_region_short;
_Atomic uint8_t hak_records = HAK_RECORDS_OFF;
_Static_assert(WORLD_UNITS == 1 << 2, "one superslab has all units");

hak_unit_t *hak_region_unit_of(const void *addr) {
    size_t offset = (size_t)((const char *)addr - units[0]);
    EXPLORE_CHECK(offset < sizeof units, "%p is looked up, which is no block", addr);
    return &slabs[offset / HAK_UNIT_SIZE];
}

static void (*as_slab_leaves)(void);
void world_at_leave(void (*call)(void)) { as_slab_leaves = call; }

void hak_region_set_class(const hak_unit_t *slab, unsigned count, unsigned class_index) {
    (void)slab, (void)count;
    if (class_index == HAK_CLASS_NONE && as_slab_leaves) as_slab_leaves();
}

void hak_region_each_superslab(void (*visit)(hak_superslab_t *super, void *context),
                               void *context) {
    visit(&superslab, context);
}

void *hak_meta_alloc(size_t size) {
    unsigned thread = explore_thread();
    if (size > sizeof bitmaps[0][0]) {
        EXPLORE_CHECK(size <= WARM_SIZE && warm_count < WARMS, "the arena is too small");
        trace_holds(warms[warm_count], WARM_SIZE, "hak_warm_t");
        return warms[warm_count++];
    }
    EXPLORE_CHECK(size <= sizeof bitmaps[0][0] && bitmap_count[thread] < BITMAPS_PER_THREAD,
                  "the arena is too small");
    trace_holds(bitmaps[thread], sizeof bitmaps[thread], "hak_slab_remote()[]");
    trace_holds(bitmaps[thread], sizeof bitmaps[thread], "hak_slab_remote_of()[]");
    return bitmaps[thread][bitmap_count[thread]++];
}

/* Of a bitmap that serves where a second free stands in another one. */
void *hak_meta_alloc_zeroed(size_t size) {
    EXPLORE_CHECK(size <= sizeof bitmaps[0][0], "a shard of %zu bytes that is not our own", size);
    return hak_meta_alloc(size);
}

void hak_meta_free_zeroed(void *block, size_t size) { memory_forbid(block, size); }

static bool needs_one_slab, has_seen_free[EXPLORE_THREADS_MAX];
void world_needs_one_slab(void) { needs_one_slab = true; }

static void take_turn(uint64_t *turns, const char *lock) {
    memory_atomic_begin(turns, sizeof *turns);
    ++*turns;
    memory_atomic_end(turns, lock, true, true, __ATOMIC_ACQ_REL, *turns - 1, *turns);
}

/* Which one serves is a choice, as among many. */
void *hak_meta_alloc_bitmap(size_t size) {
    EXPLORE_CHECK(!has_seen_free[explore_thread()], "a slab is made where blocks are free");
    if (!records.serve) return hak_meta_alloc(size);
    take_turn(&records.turns, "lock of bitmaps");
    return records.count && explore_choose(2) ? records.freed[--records.count]
                                              : hak_meta_alloc(size);
}

/* Only a shard with a room asks. */
void *hak_meta_reuse_bitmap(size_t size) {
    explore_fail("a bitmap of %zu bytes is asked for twice", size);
}

void hak_meta_free(void *block, size_t size) { memory_forbid(block, size); }

/* The second half has remote words for ever. */
void hak_meta_free_bitmap(void *block, size_t size) {
    if (!records.serve) {
        memory_forbid(block, size / 2);
    } else {
        take_turn(&records.turns, "lock of bitmaps");
        records.freed[records.count++] = block;
    }
}

static void enter_pool(void) { take_turn(&pool.turns, "pool lock"); }

hak_pool_stats_t hak_pool_stats;
hak_pool_about_t hak_pool_about;
size_t hak_pool_superslabs(void) { return hak_load_relaxed(&hak_pool_stats.stage3); }

size_t hak_commit_soft_near(void) { return 0; }
size_t hak_commit_bytes(void) { return 0; }

/* Nothing is taken ahead: the shards here have no stocks. */
unsigned hak_pool_take_units(unsigned want, hak_unit_t **out, bool *zeroed, unsigned more,
                             hak_unit_t **ahead, bool *grown) {
    unsigned taken = 0;
    *grown = false;
    EXPLORE_CHECK(more == 0, "%u units are to be taken ahead", more);
    *ahead = NULL;
    enter_pool();
    for (; taken < want && pool.count; taken++) {
        zeroed[taken] = false;
        out[taken] = pool.stack[--pool.count];
    }
    has_seen_free[explore_thread()] = needs_one_slab && hak_bin_of(0, WORLD_QUAD)->listed_count;
    return taken;
}

void hak_pool_give_ahead(hak_unit_t *list) {
    explore_fail("unit %p was taken ahead", (void *)list);
}
bool hak_pool_gives_whole(void) { return false; }
void hak_pool_prefault(char *start, size_t size, int level) {
    (void)start, (void)size, (void)level;
}

/* The lock is held over a whole list. */
static void put_in_pool(hak_unit_t *slab) {
    EXPLORE_CHECK(slab->owner == 0, "a slab that has an owner is given to the pool");
    for (unsigned i = 0; i < pool.count; i++)
        EXPLORE_CHECK(pool.stack[i] != slab, "a slab is given to the pool twice");
    EXPLORE_CHECK(slab->remote_words == 0, "a slab is given to the pool with remote blocks");
    EXPLORE_CHECK(!ledger_has(slab->base, HAK_UNIT_SIZE),
                  "a slab is given to the pool while a block of it is in use");
    pool.stack[pool.count++] = slab;
}

void hak_pool_give(hak_unit_t *slab, unsigned count) {
    enter_pool();
    EXPLORE_CHECK(count == 1, "%u units are given for a slab", count);
    put_in_pool(slab);
}

void hak_pool_give_unused(hak_unit_t *unit, bool zeroed) {
    (void)zeroed;
    hak_pool_give(unit, 1);
}

void hak_pool_give_list(hak_unit_t *list) {
    enter_pool();
    for (; list; list = list->next) put_in_pool(list);
}

int64_t hak_option(hak_option_t option) {
    if (option == HAK_OPTION_SHARDS) return WORLD_SHARDS;
    if (option == HAK_OPTION_TINY_PROFILE) return larson_guard;
    if (option == HAK_OPTION_SS_BUDGET) return 0;
    if (option == HAK_OPTION_TINY_WARM_LOG || option == HAK_OPTION_TINY_PAGEBOX_LOG) return 0;
    return 1; /* one other shard, drains of one slab */
}

#if HAKMEM_DEBUG
uint64_t hak_os_now_ns(void) { return 1; } /* no time passes */
#endif

unsigned hak_os_cpu_count(void) { return WORLD_SHARDS; }
unsigned hak_os_this_cpu(void) { return 0; }
bool hak_os_is_single_threaded(void) { return false; }
_Atomic unsigned hak_node_count; /* one node */
unsigned hak_node_home(unsigned place, unsigned homes) { return place % homes; }
hak_span_t hak_node_span(unsigned number, unsigned homes) {
    (void)number;
    return (hak_span_t){0, homes};
}
size_t hak_os_page_size(void) { return HAK_UNIT_SIZE / 4; } /* as large as a WORLD_QUAD block */

hak_superslab_t *hak_region_superslab_of(const hak_unit_t *slab) {
    (void)slab;
    return &superslab;
}

void world_write(const char *start, size_t size) {
    const size_t first = (size_t)(start - units[0]) / GRAIN,
                 last = (size_t)(start + size - 1 - units[0]) / GRAIN;
    memory_write(&contents[first / GRAINS][first % GRAINS], last - first + 1);
}

/* Whoever has a block of these pages loses its contents. */
bool hak_region_purge(hak_superslab_t *super, void *start, size_t size) {
    (void)super;
    EXPLORE_CHECK(!ledger_has(start, size), "pages are purged below a block in use");
    world_write(start, size);
    return true;
}

void hak_log(const char *format, ...) { explore_note("%s", format); }

static hak_warm_slot_t *binding_of(unsigned warm) {
    return ((hak_warm_t *)(void *)warms[warm])->slots;
}

static uintptr_t claims(void) {
    uintptr_t sum = 0;
    for (unsigned i = 0; i < warm_count; i++) sum += binding_of(i)->state & 1;
    return sum;
}

static bool has_fewer_claims(const void *before) { return claims() < *(const uintptr_t *)before; }

/* Only who waits for a claim to end sleeps. */
bool hak_os_sleep_ms(unsigned ms) {
    uintptr_t before = claims();
    (void)ms;
    explore_await(has_fewer_claims, &before);
    return true;
}

hak_warm_t *world_warm(void) { return hak_warm_make(0, 1); }

/* ---- Making the first state ------------------------------------------------------------------ */

void world_make(void) {
    hak_map.entries = (_Atomic uint16_t *)(void *)units;
    hak_map.units = (uintptr_t)slabs;
    for (unsigned shard = 0; shard < WORLD_SHARDS; shard++) hak_shard_open(shard);
    for (unsigned shard = 0; shard < WORLD_SHARDS; shard++)
        for (unsigned i = 0; i < CLASS_COUNT; i++)
            memory_track(hak_bin_of(shard, classes[i]), sizeof(hak_bin_t));
    memory_track(hak_bin_counts(0, WORLD_COUNTED), sizeof(hak_bin_counts_t));
    memory_track(hak_bin_carries[WORLD_COUNTED], sizeof hak_bin_carries[WORLD_COUNTED]);
    memory_track(slabs, WORLD_UNITS * sizeof *slabs);
    memory_track(bitmaps, sizeof bitmaps);
    memory_track(&pool.turns, sizeof pool.turns);
    memory_track(&records.turns, sizeof records.turns);
    memory_track(contents, sizeof contents);
}

void world_track_warm(void) {
    for (unsigned i = 0; i < WARMS; i++) memory_track(binding_of(i), sizeof(hak_warm_slot_t));
    memory_track(hak_warm_ring_of(0, WORLD_QUAD), sizeof(hak_warm_ring_t));
    memory_track(&hak_warm_seen, sizeof hak_warm_seen);
}

void world_reset(unsigned unit_count) {
    for (unsigned shard = 0; shard < WORLD_SHARDS; shard++) {
        memset(hak_bin_of(shard, 0), 0, (HAK_CLASS_COUNT + 1) * sizeof(hak_bin_t));
        memset(hak_bin_counts(shard, 0), 0, (HAK_CLASS_COUNT + 1) * sizeof(hak_bin_counts_t));
        memset(hak_bin_rare(shard, 0), 0, (HAK_CLASS_COUNT + 1) * sizeof(hak_bin_rare_t));
        memset(hak_warm_ring_of(shard, 0), 0, (HAK_CLASS_COUNT + 1) * sizeof(hak_warm_ring_t));
    }
    memset(hak_bin_carries, 0, (HAK_CLASS_COUNT + 1) * sizeof *hak_bin_carries);
    memset(slabs, 0, sizeof slabs);
    memset(bitmaps, 0, sizeof bitmaps);
    memset(bitmap_count, 0, sizeof bitmap_count);
    memset(&pool, 0, sizeof pool);
    memset(&records, 0, sizeof records);
    gates_reset(false);
    ledger_reset();
    warm_count = 0;
    hak_warm_seen = false;
    larson_guard = needs_one_slab = false;
    as_slab_leaves = NULL;
    memset(has_seen_free, 0, sizeof has_seen_free);
    for (unsigned i = 0; i < WORLD_UNITS; i++) slabs[i].base = units[i];
    units_there = unit_count;
    while (unit_count) pool.stack[pool.count++] = &slabs[--unit_count];
}

void world_guard(void) { larson_guard = true; }
void world_forks(void) { gates_reset(true); }
void world_reuses(void) { records.serve = true; }

/* ---- Checks ---------------------------------------------------------------------------------- */

void world_check_always(void) {
    unsigned seen[WORLD_UNITS] = {0};
    for (unsigned shard = 0; shard < WORLD_SHARDS; shard++) {
        for (unsigned i = 0; i < CLASS_COUNT; i++) {
            const hak_unit_t *slab = hak_bin_of(shard, classes[i])->pending;
            for (; slab; slab = slab->pending_next)
                EXPLORE_CHECK(++seen[slab - slabs] == 1, "slab %d is twice on the pending stacks",
                              (int)(slab - slabs));
        }
    }
}

static void check_blocks(const hak_unit_t *slab, const hak_class_t *info, int number) {
    for (unsigned index = 0; index < info->count; index++) {
        bool is_free_bit = hak_slab_bits(slab)[index / 64] >> index % 64 & 1;
        bool in_use =
            ledger_has(hak_slab_first(slab, info) + index * (size_t)info->size, info->size);
        EXPLORE_CHECK(is_free_bit != in_use, "block %u of slab %d is %s", index, number,
                      in_use ? "free although it is in use" : "lost: nobody's, and not free");
    }
}

static void check_slab(const hak_unit_t *slab) {
    int number = (int)(slab - slabs);
    const hak_class_t *info = &hak_classes[hak_owner_class(slab->owner)];
    const _Atomic uint64_t *remote = hak_slab_remote(slab, info->words);
    unsigned free_count = 0;
    check_blocks(slab, info, number);
    EXPLORE_CHECK(slab->remote_words == 0, "remote_words of slab %d is left at %#llx", number,
                  (unsigned long long)slab->remote_words);
    for (unsigned w = 0; w < info->words; w++) {
        free_count += (unsigned)__builtin_popcountll(hak_slab_bits(slab)[w]);
        EXPLORE_CHECK(remote[w] == 0, "remote word %u of slab %d is left at %#llx", w, number,
                      (unsigned long long)remote[w]);
        EXPLORE_CHECK((slab->words_free >> w & 1) == (hak_slab_bits(slab)[w] != 0),
                      "words_free of slab %d is wrong for word %u", number, w);
    }
    EXPLORE_CHECK(slab->free_count == free_count, "free_count of slab %d is %u, its bits say %u",
                  number, slab->free_count, free_count);
}

/* How often a slab stands in the list of its bin, or is the one that is kept empty. */
static unsigned places_in_bin(const hak_unit_t *slab) {
    const hak_bin_t *bin = hak_bin_of(hak_owner_shard(slab->owner), hak_owner_class(slab->owner));
    const hak_unit_t *before = NULL;
    unsigned places = bin->empty == slab;
    for (const hak_unit_t *at = bin->head; at; before = at, at = at->next) {
        EXPLORE_CHECK(at->prev == before, "the list of slabs is broken");
        EXPLORE_CHECK(places <= WORLD_UNITS, "the list of slabs has no end");
        places += at == slab;
    }
    EXPLORE_CHECK(bin->tail == before, "the list of slabs has a wrong tail");
    return places;
}

/* The sums of a class against its slabs. What a dead thread was about to count is missing in the
 * child of a fork. */
static void check_counts(unsigned class_index) {
    const hak_shard_stats_t counts = hak_shard_stats(class_index);
    uint64_t used = 0, slab_count = 0, carved = 0;
    for (unsigned i = 0; i < WORLD_UNITS; i++) {
        if (hak_owner_class(slabs[i].owner) != class_index) continue;
        slab_count++;
        used += hak_classes[class_index].count - slabs[i].free_count;
    }
    for (unsigned i = 0; class_index == WORLD_QUAD && i < warm_count; i++)
        carved += ((const hak_warm_t *)(const void *)warms[i])->counts[HAK_WARM_TAKEN];
    EXPLORE_CHECK(counts.slabs == slab_count, "class %u has %llu slabs, counted are %llu",
                  class_index, (unsigned long long)slab_count, (unsigned long long)counts.slabs);
    EXPLORE_CHECK(counts.used + carved == used, "class %u has %llu blocks in use, counted are %llu",
                  class_index, (unsigned long long)used,
                  (unsigned long long)(counts.used + carved));
    EXPLORE_CHECK(ledger_may_miss() || counts.remote == counts.counts[HAK_SHARD_DRAINED],
                  "%llu blocks of class %u were freed remotely, %llu were drained",
                  (unsigned long long)counts.remote, class_index,
                  (unsigned long long)counts.counts[HAK_SHARD_DRAINED]);
}

/* The second free of a block may count in one class, and be found in another one. */
static void check_sums(void) {
    uint64_t remote = 0, drained = ledger_missed();
    for (unsigned i = 0; i < CLASS_COUNT; i++) {
        const hak_shard_stats_t counts = hak_shard_stats(classes[i]);
        remote += counts.remote;
        drained += counts.counts[HAK_SHARD_DRAINED];
    }
    EXPLORE_CHECK(remote == drained, "%llu blocks were freed remotely, %llu were drained",
                  (unsigned long long)remote, (unsigned long long)drained);
}

void world_check_finally(void) {
    unsigned in_pool = 0;
    for (int i = 0; i < 3; i++) hak_shard_release_idle();
    EXPLORE_CHECK(hak_warm_slabs(WORLD_QUAD) == 0, "slabs stay bound");
    for (unsigned i = 0; i < warm_count; i++)
        EXPLORE_CHECK(binding_of(i)->state == 0, "slot %u keeps its slab", i);
    for (unsigned i = 0; i < WORLD_UNITS; i++) {
        unsigned places = 0;
        for (unsigned k = 0; k < pool.count; k++) places += pool.stack[k] == &slabs[i];
        in_pool += places;
        if (i >= units_there) continue;
        if (slabs[i].owner == 0) {
            EXPLORE_CHECK(places == 1, "slab %u has no owner and is not in the pool", i);
            continue;
        }
        EXPLORE_CHECK(places == 0, "slab %u has an owner and is in the pool", i);
        check_slab(&slabs[i]);
        EXPLORE_CHECK(places_in_bin(&slabs[i]) == (slabs[i].free_count > 0),
                      "slab %u has %u free blocks and %u places in its bin", i, slabs[i].free_count,
                      places_in_bin(&slabs[i]));
    }
    EXPLORE_CHECK(in_pool == pool.count, "the pool holds a slab twice");
    for (unsigned i = 0; i < CLASS_COUNT; i++) check_counts(classes[i]);
    check_sums();
    world_check_always();
    ledger_check_finally();
}
