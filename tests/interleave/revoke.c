/* revoke.c: explores how the blocks of a thread that rests are taken (src/cache/revoke.h has the
 * protocol), on the real revoke.c. The owner's fast paths are the steps of src/api/malloc.h.
 *
 *   revoke             every scenario must hold
 *   revoke --broken    the source was broken on purpose: some scenario must fail */
#include "cache/revoke.c"

#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "scenarios.h"

enum {
    CLASS = 3, /* with blocks from the start, as the next */
    OTHER = 5,
    SLOTS = 8,
    BLOCKS = 8, /* four in each class */
    RECORD = 2048,
    CAPACITY = 100,
};

/* The cache of the owner, alone in its lines; its stacks. */
static struct {
    hak_cache_t cache;
    hak_cache_counts_t counts[HAK_BAND_COUNT];
} memory __attribute__((aligned(64)));
static void *stacks[2][SLOTS] __attribute__((aligned(64)));
static hak_cache_t *const owner = &memory.cache;

/* The scenario's own, which is not tracked. */
static struct {
    bool given[BLOCKS], held[BLOCKS]; /* by the shards; by the program */
    char records[2][RECORD];
    bool used[2];
    bool refuses; /* the system has the barrier no more */
} model __attribute__((aligned(64)));

static char blocks[BLOCKS];

const uint8_t hak_bands[HAK_CLASS_LIMIT];
_Atomic(hak_cache_t *) hak_cache_newest;

static unsigned number_of(const void *block) {
    const unsigned number = (unsigned)((const char *)block - blocks);
    EXPLORE_CHECK(number < BLOCKS, "what is handed out is no block");
    return number;
}

static unsigned class_of(const void *block) { return number_of(block) < 4 ? CLASS : OTHER; }

/* ---- Stand-ins ------------------------------------------------------------------------------- */

bool hak_os_barrier(void) {
    if (!model.refuses) memory_fence_all();
    return !model.refuses;
}

bool hak_gate_is_fenced(void) { return false; }
bool hak_gate_is_lost(const hak_gate_post_t *post) {
    (void)post;
    return false;
}

void *hak_meta_alloc(size_t size) {
    EXPLORE_CHECK(size <= RECORD, "a record of %zu bytes", size);
    for (unsigned i = 0; i < 2; i++) {
        if (model.used[i]) continue;
        model.used[i] = true;
        return model.records[i];
    }
    return NULL;
}

void hak_meta_free(void *record, size_t size) {
    (void)size;
    model.used[(char *)record == model.records[1]] = false;
}

void hak_shard_give(unsigned home, unsigned class_index, void *const *given, unsigned count) {
    (void)home;
    for (unsigned i = 0; i < count; i++) {
        const unsigned number = number_of(given[i]);
        EXPLORE_CHECK(class_of(given[i]) == class_index, "block %u is given as another class's",
                      number);
        EXPLORE_CHECK(!model.held[number], "block %u is given, and the program has it", number);
        EXPLORE_CHECK(!model.given[number], "block %u is given twice", number);
        model.given[number] = true;
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare_magazine(unsigned class_index, unsigned stack, unsigned count) {
    hak_magazine_t *magazine = &owner->magazines[class_index];
    for (unsigned i = 1; i <= count; i++) stacks[stack][i] = &blocks[stack * 4 + i - 1];
    magazine->base = stacks[stack];
    magazine->slots = SLOTS;
    atomic_store_explicit(&magazine->top, magazine->base + count, memory_order_relaxed);
}

static void prepare_with(unsigned count, unsigned of_other) {
    memset(&memory, 0, sizeof memory);
    memset(stacks, 0, sizeof stacks);
    memset(&model, 0, sizeof model);
    gates_reset(false);
    prepare_magazine(CLASS, 0, count);
    prepare_magazine(OTHER, 1, of_other);
    for (unsigned i = count; i < 4; i++) model.held[i] = true;
    for (unsigned i = of_other; i < 4; i++) model.held[4 + i] = true;
    owner->capacity[HAK_TINY] = CAPACITY;
    owner->charged = true;
    charged[HAK_TINY] = CAPACITY;
    charged[HAK_MID] = 0;
    budgets[HAK_TINY] = 0;
    hand = NULL;
    hak_cache_newest = owner;
}

static void prepare_two(void) { prepare_with(2, 0); }
static void prepare_three(void) { prepare_with(3, 0); }
static void prepare_both(void) { prepare_with(2, 2); }
static void prepare_refused(void) {
    prepare_with(3, 0);
    model.refuses = true;
}

static void got(void *block) {
    const unsigned number = number_of(block);
    EXPLORE_CHECK(!model.given[number], "block %u is handed out, and the shards have it", number);
    EXPLORE_CHECK(!model.held[number], "block %u is handed out twice", number);
    model.held[number] = true;
}

/* malloc: the fast path, else a slow call that finds nothing more in the shards. */
static void take_of(unsigned class_index) {
    void *block = hak_cache_pop(owner, class_index);
    if (!block) {
        if (hak_revoke_enter(owner)) block = hak_cache_pop(owner, class_index);
        hak_revoke_leave(owner);
    }
    if (block) got(block);
}
static void take_one(void) { take_of(CLASS); }

/* free: the fast path. */
static void put(unsigned number) {
    hak_magazine_t *magazine = &owner->magazines[number < 4 ? CLASS : OTHER];
    void **top = hak_load_relaxed(&magazine->top);
    if (!model.held[number]) return;
    model.held[number] = false;
    hak_store_relaxed(&magazine->top, top + 1);
    hak_store_relaxed(hak_slot(top + 1), &blocks[number]);
}

static void take_two(void) {
    take_one();
    take_one();
}
static void take_three(void) {
    take_two();
    take_one();
}
static void take_and_put(void) {
    take_one();
    put(3);
    take_one();
}
static void take_put_two(void) {
    take_two();
    put(3);
    put(2);
    take_one();
}
static void put_two(void) {
    put(3);
    put(2);
}

/* A slow call that gives the oldest block away, as hak_cache_overflow does: outside the check of
 * busy nobody may look at this magazine. */
static void flush_one(void) {
    hak_magazine_t *magazine = &owner->magazines[CLASS];
    hak_revoke_enter(owner);
    const size_t count = (size_t)(hak_load_relaxed(&magazine->top) - magazine->base);
    if (count) {
        void *block = magazine->base[1];
        hak_revoke_leave_for(owner, CLASS);
        hak_shard_give(0, CLASS, &block, 1);
        hak_revoke_enter(owner);
        memmove(magazine->base + 1, magazine->base + 2, (count - 1) * sizeof(void *));
        hak_store_relaxed(&magazine->top, magazine->base + count - 1);
    }
    hak_revoke_leave(owner);
}
static void flush_and_take(void) {
    flush_one();
    take_of(OTHER);
}

static void revoke_once(void) { revoke_some(NULL); }

/* The caller counts as it does for statistics: under the stack lock. */
static void count_blocks(void) {
    hak_lock_acquire(&owner->stack_lock);
    void **top = hak_load_relaxed(&owner->magazines[CLASS].top);
    void **floor = hak_revoke_floor(owner, CLASS, top);
    hak_lock_release(&owner->stack_lock);
    EXPLORE_CHECK(floor <= top && top - floor <= 4, "%td blocks are counted", top - floor);
}

/* Every block is in one place, and the sum of what is charged is right: before the next slow call, and
 * after it. */
static void check_blocks(void) {
    unsigned places[BLOCKS] = {0};
    for (unsigned i = 0; i < BLOCKS; i++) places[i] += model.given[i] + model.held[i];
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        const hak_magazine_t *magazine = &owner->magazines[i];
        if (!magazine->slots) continue;
        void **top = hak_load_relaxed(&magazine->top);
        for (void **at = hak_revoke_floor(owner, i, top) + 1; at <= top; at++) {
            EXPLORE_CHECK(*at != NULL, "a hole in a stack");
            places[number_of(*at)]++;
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        EXPLORE_CHECK(places[i] == 1, "block %u is in %u places", i, places[i]);
    size_t sum = hak_load_relaxed(&charged[HAK_TINY]);
    EXPLORE_CHECK(sum == (owner->charged ? CAPACITY : 0), "%zu bytes are charged", sum);
    EXPLORE_CHECK(owner->revoke_lock.state == 0 && owner->busy == 0, "it did not end");
}

static void is_whole(void) {
    check_blocks();
    hak_revoke_enter(owner);
    hak_revoke_leave(owner);
    check_blocks();
    EXPLORE_CHECK(owner->charged && !owner->revoked[0], "a slow call leaves a mark");
    EXPLORE_CHECK(!model.used[0] && !model.used[1], "a record is lost");
}

static void is_whole_and_taken(void) {
    is_whole();
    EXPLORE_CHECK(model.given[0] && model.given[1] && !model.given[2], "it took too few or many");
}

static const char *describe(const volatile void *variable) {
    const hak_magazine_t *magazine = &owner->magazines[CLASS];
    if (variable == &magazine->top) return "top";
    if (variable == &owner->busy) return "busy";
    if (variable == &owner->revoke_lock.state) return "revoke_lock";
    if (variable == &stacks[0][1]) return "slot 1";
    if (variable == &stacks[0][2]) return "slot 2";
    return variable == &stacks[0][3] ? "slot 3" : NULL;
}

#define RULES .finally = is_whole, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"a cache at rest",
     prepare_three,
     {revoke_once},
     .finally = is_whole_and_taken,
     .describe = describe},
    {"without the barrier", prepare_refused, {revoke_once, take_two}, RULES},
    {"takes", prepare_two, {revoke_once, take_two}, RULES},
    {"takes of more", prepare_three, {revoke_once, take_three}, RULES},
    {"a take and a free", prepare_three, {revoke_once, take_and_put}, RULES},
    {"takes, frees and a take", prepare_two, {revoke_once, take_put_two}, RULES},
    {"frees", prepare_two, {revoke_once, put_two}, RULES},
    {"a slow call", prepare_two, {revoke_once, flush_one}, RULES},
    {"a slow call, and another class", prepare_both, {revoke_once, flush_and_take}, RULES},
    {"two revokers", prepare_two, {revoke_once, revoke_once, take_one}, RULES},
    {"statistics", prepare_two, {revoke_once, take_two, count_blocks}, RULES},
};

int main(int argc, char **argv) {
    memory_track(&memory, sizeof memory);
    memory_track(stacks, sizeof stacks);
    memory_track(charged, sizeof charged);
    memory_track(&hand, sizeof hand);
    memory_delay(&owner->busy, sizeof owner->busy);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
