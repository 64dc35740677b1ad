/* state.c: explores the states of blocks (src/hardened/state.h) and the blocks of size 0
 * (src/hardened/empty.h), and the canaries that are looked at meanwhile (src/hardened/verify.h), on the
 * real state.c, empty.c and verify.c.
 *
 *   state             every scenario must hold
 *   state --broken    the sources were broken on purpose: some scenario must fail */
#include "hardened/state.h"

#include "api/hardened_spot.h"
#include "explore.h"
#include "hardened/big.h"
#include "hardened/canary.h"
#include "hardened/verify.h"
#include "hardened/empty.h"
#include "large/huge.h"
#include "memory.h"
#include "meta/meta.h"
#include "os/os.h"
#include "region/region.h"
#include "scenarios.h"
#include "trace.h"

enum { RECORDS = 2, ROOM = 1408, ONE = 3, OTHER = 4, UNIT = 5, SIZE = 40, END = 64, LONG = 8192 };

static struct {
    hak_superslab_t super;
    _Atomic unsigned given, freed;
    void *_Atomic taken[2]; /* blocks of size 0 */
    _Atomic unsigned damaged;
    char block[LONG]; /* the only one of its slab, which has END bytes or all of them */
} shared __attribute__((aligned(128)));

/* Records of the two sizes that are made: the tables of the superslab, and the words of the unit. */
static _Atomic uint64_t tables[RECORDS][ROOM / 8] __attribute__((aligned(128)));
static _Atomic uint64_t words[RECORDS][ROOM / 8] __attribute__((aligned(128)));
static bool is_taken[2][RECORDS];

/* The near arrays of the units up to it. */
static hak_state_array_t near_arrays[UNIT + 1][HAK_STATE_NO_LEVEL + 1]
    __attribute__((aligned(128)));

static const hak_class_t info = {.size = 1024, .count = 64, .words = 1};

/* ---- What they stand on ---------------------------------------------------------------------- */

hak_map_t hak_map;

void *hak_meta_alloc(size_t size) {
    bool is_table = size == sizeof(hak_states_t);
    EXPLORE_CHECK(size <= ROOM, "a record of %zu bytes", size);
    for (unsigned i = 0; i < RECORDS; i++) {
        if (is_taken[is_table][i]) continue;
        is_taken[is_table][i] = true;
        return is_table ? (void *)tables[i] : (void *)words[i];
    }
    explore_fail("more than a record for each thread");
}

void hak_meta_free(void *block, size_t size) {
    bool is_table = size == sizeof(hak_states_t);
    is_taken[is_table][block == (is_table ? (void *)tables[1] : (void *)words[1])] = false;
}

/* Of verify.c: a superslab with one slab, and no other block. */
hak_hardened_t hak_hardened = {.on = true, .canary = true, .secret = 1, .factor = 3};
hak_class_t hak_classes[HAK_CLASS_LIMIT] = {
    [1] = {.size = END, .count = 1}, [2] = {.size = LONG, .count = 1}};
static hak_unit_t units[UNIT + 1] = {[UNIT] = {.owner = 1, .base = shared.block}};

hak_unit_t *hak_region_unit_of(const void *block) {
    explore_fail("%p is looked for elsewhere", block);
}

void hak_region_each_superslab(void (*visit)(hak_superslab_t *super, void *context),
                               void *context) {
    visit(&shared.super, context);
}
void hak_huge_each(hak_mapping_visitor_t visit, void *context) { (void)visit, (void)context; }
const void *hak_big_in_unit(const hak_unit_t *unit) { return unit->base; }
uint64_t hak_big_note(const void *block) { return block == NULL; }
bool hak_big_holds(const void *block, uint64_t note) { return block && note; }
void hak_check_failed(hak_check_t *check, const char *what, const void *object,
                      const char *equation, const uint64_t *sides) {
    (void)check, (void)what, (void)object, (void)equation, (void)sides;
    hak_add_relaxed(&shared.damaged, 1);
}

/* Of empty.c. */
extern _Atomic uintptr_t range;
extern _Atomic uint64_t used[4];

static _Atomic unsigned ranges;

void *hak_os_reserve(size_t size) {
    (void)size;
    return (void *)(uintptr_t)(0x100000000000 + (hak_add_relaxed(&ranges, 1) + 1) * 0x1000000);
}
bool hak_os_unmap(void *addr, size_t size) {
    (void)addr, (void)size;
    hak_add_relaxed(&ranges, -1u);
    return true;
}
void hak_os_name(void *addr, size_t size, const char *name) { (void)addr, (void)size, (void)name; }

/* An array of the class below has one page. Its other words are 0 all the time. */
size_t hak_os_page_size(void) { return 2 * HAK_BLOCKS_FEW * sizeof(uint16_t); }
bool hak_os_purge(void *addr, size_t size) {
    EXPLORE_CHECK(size == hak_os_page_size(), "%zu bytes are purged", size);
    hak_store_relaxed((hak_state_word_t *)addr + ONE, 0);
    return true;
}

/* Of the slab: the only block is free, and nobody has freed it from afar. */
static uint64_t bitmap[2];

/* ---- Blocks of a class ----------------------------------------------------------------------- */

static void prepare(void) {
    units[0].base = shared.block - (size_t)UNIT * HAK_UNIT_SIZE;
    shared.super.units = units;
    hak_map.states = (uintptr_t)near_arrays;
    hak_map.states_end = UNIT + 1;
    for (unsigned i = 0; i < HAK_STATE_LEVELS; i++)
        atomic_store_explicit(&near_arrays[UNIT][i], NULL, memory_order_relaxed);
    hak_map.super_shift = 4;
    hak_map.units = (uintptr_t)units;
    hak_map.unit_end = UNIT + 1;
    hak_hardened.knows_old = true;
    units[UNIT - 1].base = shared.block - HAK_UNIT_SIZE;
    units[UNIT].bits = bitmap;
    units[UNIT].owner = 1;
    units[UNIT].zeroed = units[UNIT - 1].zeroed = true;
    hak_map.supers = (uintptr_t)&shared.super;
    hak_map.entries = (void *)(shared.block - UNIT * HAK_UNIT_SIZE);
    atomic_store_explicit(&shared.damaged, 0, memory_order_relaxed);
    atomic_store_explicit(&shared.super.states, NULL, memory_order_relaxed);
    atomic_store_explicit(&shared.given, 0, memory_order_relaxed);
    atomic_store_explicit(&shared.freed, 0, memory_order_relaxed);
    atomic_store_explicit(&range, 0, memory_order_relaxed);
    atomic_store_explicit(&ranges, 0, memory_order_relaxed);
    for (unsigned i = 0; i < 4; i++) atomic_store_explicit(&used[i], 0, memory_order_relaxed);
    for (unsigned i = 0; i < RECORDS; i++) is_taken[0][i] = is_taken[1][i] = false;
}

/* A unit that is not near. */
static void prepare_far(void) {
    prepare();
    hak_map.states_end = UNIT;
}

static void give(uint32_t index) {
    hak_state_word_t *word = hak_state_make(UNIT, &info) + index;
    hak_state_t old = hak_state_of(hak_load_relaxed(word));
    EXPLORE_CHECK(old == HAK_STATE_NEVER, "a block that was never had has state %u", old);
    hak_store_release(word, hak_state_used(1000 + index, HAK_ORIGIN_NEW));
    hak_add_relaxed(&shared.given, 1);
}
static void give_one(void) { give(ONE); }
static void give_other(void) { give(OTHER); }

static void free_one(void) {
    hak_state_word_t *at = hak_state_word(UNIT, &info, ONE);
    uint16_t word = hak_load_relaxed(at);
    if (hak_state_of(word) == HAK_STATE_USED && hak_state_swap(at, &word, HAK_STATE_FREE))
        hak_add_relaxed(&shared.freed, 1);
}
static void resize_one(void) {
    hak_state_word_t *at = hak_state_word(UNIT, &info, ONE);
    uint16_t word = hak_load_relaxed(at);
    if (hak_state_of(word) == HAK_STATE_USED)
        hak_state_swap(at, &word, hak_state_used(900, HAK_ORIGIN_NEW));
}

static void prepare_given(void) {
    prepare();
    give(ONE);
}

static void prepare_freed(void) {
    prepare_given();
    free_one();
}
/* The unit gets another slab after its pages have gone. A free of the old block that comes late is one of the new
 * block; or of none. */
static void purge_and_give(void) {
    hak_state_purge(&shared.super, (uint32_t)1 << UNIT);
    give_one();
}
static void free_late(void) {
    hak_state_word_t *at = hak_state_word(UNIT, &info, ONE);
    uint16_t word = hak_load_relaxed(at);
    if (hak_state_claim(at, &word)) hak_add_relaxed(&shared.freed, 1);
}

/* The only block of the slab was allocated before the path was on. */
static void prepare_old(void) {
    prepare();
    units[UNIT - 1].owner = 0;
    bitmap[0] = 0;
    EXPLORE_CHECK(hak_state_note_old(), "no word");
}
static void free_old(void) {
    const hak_class_t *row = &hak_classes[1];
    hak_spot_t spot = {.info = row, .class_index = 1, .at = hak_state_word(UNIT, row, 0)};
    spot.word = hak_load_relaxed(spot.at);
    if (hak_spot_is_old(shared.block, &spot) && hak_state_claim_old(spot.at, spot.word))
        hak_add_relaxed(&shared.freed, 1);
}
static void old_is_freed_once(void) {
    uint16_t word = hak_load_relaxed(hak_state_word(UNIT, &hak_classes[1], 0));
    EXPLORE_CHECK(shared.freed == 1, "an old block is freed %u times", shared.freed);
    EXPLORE_CHECK(word == HAK_STATE_FRESH, "an old block that is freed is in state %#x", word);
}

/* The block is free in its slab; the words are there. Another thread frees it by mistake while a thread takes it from
 * the shard, as in hardened/quarantine.c. */
static void prepare_free(void) {
    prepare();
    bitmap[0] = 1;
    EXPLORE_CHECK(hak_state_make(UNIT, &hak_classes[1]) != NULL, "no word");
}
static void take_from_shard(void) {
    hak_state_word_t *at = hak_state_word(UNIT, &hak_classes[1], 0);
    hak_store_relaxed((_Atomic uint64_t *)(void *)bitmap, 0);
    hak_load_relaxed(at);
    hak_store_relaxed(at, HAK_STATE_FREE);
}
static void the_mistake_frees_nothing(void) {
    EXPLORE_CHECK(shared.freed == 0, "a block in hand is freed");
}

/* Two slabs of a superslab are made, both of zero memory. */
static void renew_one(void) { hak_state_renew(&units[UNIT], 1); }
static void renew_other(void) { hak_state_renew(&units[UNIT - 1], 1); }
static void both_are_clean(void) {
    EXPLORE_CHECK(hak_state_is_clean(UNIT) && hak_state_is_clean(UNIT - 1), "a slab is not clean");
    units[UNIT].zeroed = false;
    renew_one();
    EXPLORE_CHECK(!hak_state_is_clean(UNIT) && hak_state_is_clean(UNIT - 1), "a slab is clean");
}

static void freed_once(void) {
    uint16_t word = hak_load_relaxed(hak_state_word(UNIT, &info, ONE));
    unsigned in_use = hak_state_of(word) == HAK_STATE_USED;
    EXPLORE_CHECK(shared.given == shared.freed + in_use, "%u given, %u freed, %u in use",
                  shared.given, shared.freed, in_use);
}

static void both_are_there(void) {
    uint16_t one = hak_load_relaxed(hak_state_word(UNIT, &info, ONE));
    uint16_t other = hak_load_relaxed(hak_state_word(UNIT, &info, OTHER));
    EXPLORE_CHECK(hak_state_size(one) == 1000 + ONE && hak_state_of(one) == HAK_STATE_USED &&
                      hak_state_origin(one) == HAK_ORIGIN_NEW,
                  "the first state is lost");
    EXPLORE_CHECK(hak_state_size(other) == 1000 + OTHER, "the second state is lost");
    for (unsigned kind = 0; kind < 2; kind++)
        EXPLORE_CHECK(is_taken[kind][0] + is_taken[kind][1] == 1, "two records of one kind");
}

/* ---- Canaries are looked at ------------------------------------------------------------------ */

static void allocate(void) {
    hak_canary_put(shared.block, SIZE, END, false, true);
    hak_store_release(hak_state_make(UNIT, &hak_classes[1]), hak_state_used(SIZE, 0));
}
static void prepare_block(void) {
    prepare();
    allocate();
}
static void prepare_damaged(void) {
    prepare_block();
    shared.block[SIZE] ^= 1;
}
static void free_block(void) {
    hak_state_word_t *at = hak_state_word(UNIT, &hak_classes[1], 0);
    uint16_t word = hak_load_relaxed(at);
    EXPLORE_CHECK(hak_state_claim(at, &word), "a block in use cannot be freed");
    EXPLORE_CHECK(hak_state_size(word) == SIZE, "a block has %zu bytes", hak_state_size(word));
    memset(shared.block, 0, END);
    hak_add_relaxed(&shared.freed, 1);
}
static void free_and_allocate(void) {
    free_block();
    allocate();
}

/* A block whose size does not fit into its word. */
static void allocate_long(size_t size) {
    hak_canary_put(shared.block, size, LONG, false, true);
    hak_state_use(hak_state_make(UNIT, &hak_classes[2]), size, 0);
}
static void prepare_long(void) {
    prepare();
    units[UNIT].owner = 2;
    allocate_long(5000);
}
static void free_and_allocate_long(void) {
    hak_state_word_t *at = hak_state_word(UNIT, &hak_classes[2], 0);
    uint16_t word = hak_load_relaxed(at);
    EXPLORE_CHECK(hak_state_claim(at, &word), "a block in use cannot be freed");
    EXPLORE_CHECK(hak_state_size_at(at, word) == 5000, "another size");
    memset(shared.block + 5000, 0, LONG - 5000);
    allocate_long(6000);
}

/* What verify.c calls: see mutants.py. */
bool look_at_canary(const char *block, size_t used, size_t end);
static HAK_RACES bool canary_holds(const char *block, size_t used, size_t end) {
    return hak_canary_holds(block, used, end, true);
}
bool look_at_canary(const char *block, size_t used, size_t end) {
    hak_load_relaxed(&shared.damaged);
    bool holds = canary_holds(block, used, end);
    memory_learn(holds);
    return holds;
}
static void look(void) {
    hak_check_t check = {0};
    hak_hardened_check(&check);
}
static void nothing_is_found(void) {
    uint16_t word = hak_load_relaxed(hak_state_word(UNIT, &hak_classes[1], 0));
    EXPLORE_CHECK(shared.damaged == 0, "a right program is blamed");
    EXPLORE_CHECK(word == hak_state_used(SIZE, 0), "the block is in state %#x", word);
}
static void nothing_long_is_found(void) {
    hak_state_word_t *at = hak_state_word(UNIT, &hak_classes[2], 0);
    const uint16_t word = hak_load_relaxed(at);
    EXPLORE_CHECK(shared.damaged == 0, "a right program is blamed");
    EXPLORE_CHECK(word == hak_state_used(HAK_STATE_LONG, 0) && hak_state_size_at(at, word) == 6000,
                  "the block is in state %#x", word);
}
static void damage_is_found(void) {
    uint16_t word = hak_load_relaxed(hak_state_word(UNIT, &hak_classes[1], 0));
    EXPLORE_CHECK(word == hak_state_used(SIZE, 0), "the block is in state %#x", word);
    EXPLORE_CHECK(shared.damaged == 1, "damage is reported %u times", shared.damaged);
}
static void the_free_counts(void) {
    uint16_t word = hak_load_relaxed(hak_state_word(UNIT, &hak_classes[1], 0));
    EXPLORE_CHECK(shared.damaged <= 1, "damage is reported twice");
    EXPLORE_CHECK(shared.freed == 1 && word == HAK_STATE_FREE, "the block is in state %#x", word);
}

/* ---- Blocks of size 0 ------------------------------------------------------------------------ */

static void *take(void) {
    hak_random_t random = {0}; /* all threads choose the same place first */
    void *block = hak_empty_take(&random, 1, HAK_ORIGIN_MALLOC);
    EXPLORE_CHECK(block != NULL && hak_empty_has(block), "no block of size 0");
    return block;
}
static void take_first(void) { hak_store_relaxed(&shared.taken[0], take()); }
static void take_second(void) { hak_store_relaxed(&shared.taken[1], take()); }
static void prepare_taken(void) {
    prepare();
    take_first();
}
static void give_back(void) {
    if (hak_empty_give(hak_load_relaxed(&shared.taken[0]))) hak_add_relaxed(&shared.freed, 1);
}
static void all_differ(void) {
    void *first = hak_load_relaxed(&shared.taken[0]), *second = hak_load_relaxed(&shared.taken[1]);
    EXPLORE_CHECK(first != second, "a block of size 0 was given out twice");
    EXPLORE_CHECK(hak_empty_give(first) && hak_empty_give(second), "one is not in use");
    EXPLORE_CHECK(!hak_empty_give(first), "one can be freed twice");
    EXPLORE_CHECK(ranges == 1, "%u ranges", ranges);
}
static void given_back_once(void) {
    EXPLORE_CHECK(shared.freed == 1, "one block was freed %u times", shared.freed);
}

static void second_is_in_use(void) {
    void *second = hak_load_relaxed(&shared.taken[1]);
    EXPLORE_CHECK(shared.freed == 1 && hak_empty_is_used(second), "one free, two blocks gone");
    EXPLORE_CHECK(hak_empty_give(second), "the second block is not in use");
}

static const char *describe(const volatile void *variable) {
    return variable == &shared.super.states ? "the superslab's tables" : NULL;
}

#define CHECKED(check) .finally = check, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"two frees of one block", prepare_given, {free_one, free_one}, CHECKED(freed_once)},
    {"three frees of one block",
     prepare_given,
     {free_one, free_one, free_one},
     CHECKED(freed_once)},
    {"two frees and a resize",
     prepare_given,
     {free_one, resize_one, free_one},
     CHECKED(freed_once)},
    {"two frees of an old block", prepare_old, {free_old, free_old}, CHECKED(old_is_freed_once)},
    {"a wrong free beside a take",
     prepare_free,
     {take_from_shard, free_old},
     CHECKED(the_mistake_frees_nothing)},
    {"two slabs of a superslab", prepare, {renew_one, renew_other}, CHECKED(both_are_clean)},
    {"a late free beside a unit whose pages go",
     prepare_freed,
     {free_late, purge_and_give},
     CHECKED(freed_once)},
    {"the first two blocks of a superslab",
     prepare,
     {give_one, give_other},
     CHECKED(both_are_there)},
    {"the first two blocks of a superslab that is not near",
     prepare_far,
     {give_one, give_other},
     CHECKED(both_are_there)},
    {"a look at a block that is freed and allocated",
     prepare_block,
     {free_and_allocate, look},
     CHECKED(nothing_is_found)},
    {"a look at a long block that is freed and allocated",
     prepare_long,
     {free_and_allocate_long, look},
     CHECKED(nothing_long_is_found)},
    {"a look at a damaged block", prepare_damaged, {look}, CHECKED(damage_is_found)},
    {"a look at a damaged block that is freed",
     prepare_damaged,
     {free_block, look},
     CHECKED(the_free_counts)},
    {"the first blocks of size 0", prepare, {take_first, take_second}, CHECKED(all_differ)},
    {"two frees of a block of size 0",
     prepare_taken,
     {give_back, give_back},
     CHECKED(given_back_once)},
    {"a free beside a request of size 0",
     prepare_taken,
     {give_back, take_second},
     CHECKED(second_is_in_use)},
};

int main(int argc, char **argv) {
    memory_track(&shared, sizeof shared);
    memory_track(&range, sizeof range);
    memory_track(used, sizeof used);
    memory_track(bitmap, sizeof bitmap);
    memory_track(near_arrays, sizeof near_arrays);
    trace_holds(near_arrays, sizeof near_arrays, "hak_state_near()[]");
    for (unsigned i = 0; i < RECORDS; i++) {
        trace_holds(tables[i], sizeof tables[i], "hak_states_t");
        trace_holds(words[i], sizeof words[i], "hak_states.words[]");
        memory_track(tables[i], sizeof tables[i]);
        memory_track(words[i], sizeof words[i]);
    }
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
