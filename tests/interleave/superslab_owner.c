/* superslab_owner.c: explores the owner in a superslab's record (src/region/superslab.h, large/extent.c) on the real
 * heap.c and extent.c: a heap asks it whether the memory beside a block is its own, while superslabs come from the
 * pool and go back.
 *
 *   owner             every scenario must hold
 *   owner --broken    the sources were broken on purpose: some scenario must fail */
#include <string.h>

#include "explore.h"
#include "gates.h"
#include "large/heap.h"
#include "large/verify.h"
#include "memory.h"
#include "meta/meta.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "scenarios.h"
#include "trace.h"

enum {
    SUPERS = 3,
    SHIFT = HAK_SUPERSLAB_SHIFT_MIN,
    UNITS_EACH = 1 << SHIFT,
    UNITS = SUPERS * UNITS_EACH,
    GRAINS = 17, /* of the block beside a border */
    ALL = UNITS_EACH * HAK_UNIT_GRAINS,
};
enum { POOL = 2, SLABS }; /* or the number of the heap */

static char memory[SUPERS][(size_t)UNITS_EACH * HAK_UNIT_SIZE]
    __attribute__((aligned((size_t)UNITS_EACH * HAK_UNIT_SIZE)));
static hak_unit_t units[UNITS] HAK_ALIGNED(HAK_LINE);
static hak_superslab_t supers[SUPERS];
static struct {
    _Atomic unsigned turns; /* its lock */
} HAK_ALIGNED(HAK_LINE) pool;
static unsigned where[SUPERS]; /* under that lock */
hak_map_t hak_map;

#if HAKMEM_DEBUG
/* The debug build's times are off. */
int64_t hak_option(hak_option_t option) { return (void)option, 0; }
#endif

/* ---- What large heaps stand on --------------------------------------------------------------- */

hak_unit_t *hak_region_unit_of(const void *address) {
    size_t unit = ((uintptr_t)address - (uintptr_t)memory) >> HAK_UNIT_SHIFT;
    return unit < UNITS ? &units[unit] : NULL;
}

hak_superslab_t *hak_region_superslab_of(const hak_unit_t *unit) {
    return &supers[(unit - units) / UNITS_EACH];
}

void hak_region_set_class(const hak_unit_t *unit, unsigned count, unsigned class_index) {
    (void)unit, (void)count, (void)class_index;
}

bool hak_region_purge(hak_superslab_t *super, void *start, size_t size) {
    (void)super, (void)start, (void)size;
    return false;
}

static void enter_pool(void) { atomic_fetch_add_explicit(&pool.turns, 1, memory_order_acq_rel); }

static hak_superslab_t *leave_pool(unsigned to) {
    enter_pool();
    for (unsigned i = 0; i < SUPERS; i++) {
        if (where[i] != POOL) continue;
        where[i] = to;
        return &supers[i];
    }
    return NULL;
}

/* The heap is the one whose lock the caller holds. */
hak_superslab_t *hak_pool_take_superslabs(unsigned least, unsigned most, unsigned *taken) {
    EXPLORE_CHECK(least == 1 && most == 1, "%u to %u superslabs", least, most);
    hak_superslab_t *super = leave_pool(SLABS);
    *taken = super != NULL;
    return super;
}

void hak_pool_give_superslab(hak_superslab_t *super) {
    enter_pool();
    EXPLORE_CHECK(where[super - supers] != POOL, "a superslab is given back twice");
    where[super - supers] = POOL;
}

bool hak_commit_charge(size_t bytes) { return bytes != 0; }
void hak_commit_release(size_t bytes) { (void)bytes; }
uint64_t hak_os_now_ms(void) { return 1; }
uint64_t hak_os_now_ns(void) { return 0; }
size_t hak_os_page_size(void) { return HAK_GRAIN_SIZE; }
bool hak_os_in_memory(void *start, size_t size, unsigned char *in_memory) {
    (void)start, (void)size, (void)in_memory;
    return false;
}
_Atomic uint32_t hak_budget_notes;
void hak_tick_hurry(void) {}
void hak_lock_let_fork_in(hak_lock_t *lock) { (void)lock; }
void hak_check_failed(hak_check_t *check, const char *what, const void *object,
                      const char *equation, const uint64_t *sides) {
    (void)check, (void)sides;
    explore_fail("%s %p: %s", what, object, equation);
}
void *hak_meta_alloc_zeroed(size_t size) {
    (void)size;
    return NULL;
}
void hak_meta_free_zeroed(void *block, size_t size) { (void)block, (void)size; }

/* ---- Threads --------------------------------------------------------------------------------- */

static uint16_t owner_of(unsigned heap) { return hak_owner(heap, HAK_CLASS_LARGE); }

static char *last_block(unsigned super) {
    return memory[super] + sizeof memory[super] - (size_t)GRAINS * HAK_GRAIN_SIZE;
}

static void grow(unsigned number) {
    hak_heap_t *heap = hak_heap_at(number);
    HAK_HOLD(&heap->lock);
    if (!hak_heap_grow(number, ALL, ALL)) return;
    for (unsigned i = 0; i < SUPERS; i++)
        if (where[i] == SLABS &&
            hak_load_relaxed(&units[(size_t)i * UNITS_EACH].owner) == owner_of(number))
            where[i] = number;
}

static void lend(unsigned number) {
    hak_heap_t *heap = hak_heap_at(number);
    HAK_HOLD(&heap->lock);
    hak_heap_lend(heap);
}

/* A block behind which the next superslab begins. */
static void take_last(unsigned super) {
    hak_heap_t *heap = hak_heap_at(where[super]);
    EXPLORE_CHECK(hak_extents_take_at(&heap->extents, last_block(super), GRAINS) &&
                      hak_heap_use(heap, last_block(super), GRAINS),
                  "the end of superslab %u is not free", super);
}

static void free_last_of_0(void) {
    hak_heap_t *heap = hak_heap_at(0);
    HAK_HOLD(&heap->lock);
    hak_heap_free(heap, last_block(0), GRAINS);
}

static void grow_0(void) { grow(0); }
static void grow_1(void) { grow(1); }
static void lend_0(void) { lend(0); }
static void lend_1(void) { lend(1); }
static void lend_0_and_free(void) {
    lend_0();
    free_last_of_0();
}

/* The pool hands its units out as slabs: bitmaps lie where the lengths of extents were. */
static void make_slabs(void) {
    hak_superslab_t *super = leave_pool(SLABS);
    for (unsigned i = 0; super && i < UNITS_EACH; i++) super->units[i].words_free = 1;
}

/* The first superslab belongs to heap 0, and its last block is in use; the others are the pool's. */
static void prepare(void) {
    gates_reset(false);
    memset(units, 0, sizeof units);
    memset(supers, 0, sizeof supers);
    memset(hak_heap_at(0), 0, sizeof(hak_heap_t));
    memset(hak_heap_at(1), 0, sizeof(hak_heap_t));
    atomic_store_explicit(&pool.turns, 0, memory_order_relaxed);
    for (unsigned i = 0; i < UNITS; i++) units[i].base = memory[0] + (size_t)i * HAK_UNIT_SIZE;
    for (unsigned i = 0; i < SUPERS; i++) {
        supers[i].units = &units[(size_t)i * UNITS_EACH];
        where[i] = POOL;
    }
    grow(0);
    take_last(0);
}

/* The second one is its own as well, or the other heap's. */
static void prepare_own(void) {
    prepare();
    grow(0);
}
static void prepare_other(void) {
    prepare();
    grow(1);
}

static void add_extent(const hak_unit_t *unit, void *sum) {
    char *start;
    *(size_t *)sum += hak_extent_in(unit, &start);
}

static size_t free_grains(unsigned number) {
    size_t sum = 0;
    hak_check_t check = {0};
    hak_extents_check(&check, &hak_heap_at(number)->extents, add_extent, &sum);
    return sum;
}

/* Each record names the heap that has the superslab, and all of its memory is free there. */
static void each_has_its_owner(void) {
    size_t grains[2] = {0, 0};
    for (unsigned i = 0; i < SUPERS; i++) {
        const bool is_large = where[i] < POOL;
        const uint16_t owner = hak_load_relaxed(&supers[i].heap_owner);
        EXPLORE_CHECK(owner == (is_large ? owner_of(where[i]) : 0),
                      "the record of superslab %u names the owner %u", i, owner);
        if (is_large) grains[where[i]] += ALL - supers[i].used_grains;
    }
    for (unsigned i = 0; i < 2; i++)
        EXPLORE_CHECK(free_grains(i) == grains[i], "heap %u has %zu free grains, not %zu", i,
                      free_grains(i), grains[i]);
}

/* What was freed joins the memory behind it if that is the same heap's. */
static void they_join(void) {
    const uint32_t last = units[UNITS_EACH - 1].extent_last;
    each_has_its_owner();
    EXPLORE_CHECK((last == 0) == (where[1] == 0), "the end of superslab 0 has an extent's end %u",
                  last);
}

static const char *describe(const volatile void *variable) {
    for (unsigned i = 0; i < SUPERS; i++)
        if (variable == &supers[i].heap_owner) return "the owner in a superslab's record";
    return variable == &pool.turns             ? "the pool"
           : variable == &hak_heap_at(0)->lock ? "the lock of heap 0"
           : variable == &hak_heap_at(1)->lock ? "the lock of heap 1"
                                               : NULL;
}

#define RULES .finally = each_has_its_owner, .describe = describe
#define JOIN_RULES .finally = they_join, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"a block is freed beside a superslab that another heap lends",
     prepare_other,
     {free_last_of_0, lend_1},
     JOIN_RULES},
    {"the same, and the pool makes slabs of it",
     prepare_other,
     {free_last_of_0, lend_1, make_slabs},
     JOIN_RULES},
    {"a heap lends a superslab and frees beside it, and the pool makes slabs",
     prepare_own,
     {lend_0_and_free, make_slabs},
     JOIN_RULES},
    {"a superslab goes from one heap to another", prepare_own, {lend_0, grow_1}, RULES},
    {"a block is freed beside it meanwhile", prepare_own, {lend_0_and_free, grow_1}, JOIN_RULES},
    {"a heap grows while the other one lends",
     prepare_other,
     {grow_0, lend_1, free_last_of_0},
     RULES},
};

int main(int argc, char **argv) {
    hak_map.super_shift = SHIFT;
    for (unsigned i = 0; i < 2; i++) {
        hak_heap_open(i);
        memory_track(hak_heap_at(i), sizeof(hak_heap_t));
        trace_holds(hak_heap_at(i), sizeof(hak_heap_t), "hak_heap_t");
    }
    memory_track(supers, sizeof supers);
    memory_track(units, sizeof units);
    memory_track(&pool, sizeof pool);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
