/* world_ledger.c: who holds which block, and the calls that scenarios make by it. */
#include "world_ledger.h"

#include <string.h>

#include "error/error.h"
#include "explore.h"
#include "gates.h"
#include "region/region.h"
#include "shard/flush.h"
#include "world.h"

enum { LIVE_MAX = 256 };

static struct {
    char *start;
    size_t size;
} live[LIVE_MAX];
static unsigned live_count;
static struct {
    void *block;
    size_t size;
} freeing[EXPLORE_THREADS_MAX]; /* in a call of world_free */

static unsigned reports, reports_expected;
static bool may_miss;

void ledger_reset(void) {
    live_count = reports = reports_expected = 0;
    may_miss = false;
    memset(freeing, 0, sizeof freeing);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

bool ledger_has(const char *start, size_t size) {
    for (unsigned i = 0; i < live_count; i++)
        if (start < live[i].start + live[i].size && live[i].start < start + size) return true;
    return false;
}

static void enter_live(char *start, size_t size) {
    EXPLORE_CHECK(!ledger_has(start, size), "a block in use is handed out");
    EXPLORE_CHECK(live_count < LIVE_MAX, "the ledger is full");
    live[live_count].start = start;
    live[live_count++].size = size;
}

static void remove_live(const char *start) {
    for (unsigned i = 0; i < live_count; i++)
        if (live[i].start == start) live[i] = live[--live_count];
}

/* The holder writes to the first and the last byte of a block. */
static void use_block(const char *block, size_t size) {
    world_write(block, 1);
    world_write(block + size - 1, 1);
}

/* What a call has handed out. */
static unsigned enter_taken(unsigned class_index, unsigned want, unsigned taken, void **top,
                            void **blocks) {
    size_t size = hak_classes[class_index].size;
    EXPLORE_CHECK(taken <= want, "%u blocks are handed out for %u", taken, want);
    for (unsigned i = 0; i < taken; i++) {
        blocks[i] = top[taken - i]; /* the lowest address is the last */
        enter_live(blocks[i], size);
        use_block(blocks[i], size);
    }
    return taken;
}

unsigned world_take(unsigned home, unsigned class_index, unsigned want, void **blocks) {
    void *top[LIVE_MAX + 1];
    unsigned taken = hak_shard_take(home, class_index, want, top, NULL);
    return enter_taken(class_index, want, taken, top, blocks);
}

unsigned world_take_last(unsigned home, unsigned class_index, void **block) {
    void *top[2] = {NULL, hak_shard_take_last(home, class_index, NULL)};
    return enter_taken(class_index, 1, top[1] != NULL, top, block);
}

static unsigned carve(hak_warm_t *warm, unsigned want, void **blocks, bool locked) {
    void *top[LIVE_MAX + 1];
    unsigned taken = hak_warm_take(warm, 0, WORLD_QUAD, want, top, locked);
    return enter_taken(WORLD_QUAD, want, taken, top, blocks);
}

unsigned world_carve(hak_warm_t *warm, unsigned want, void **blocks) {
    return carve(warm, want, blocks, false);
}

unsigned world_carve_locked(hak_warm_t *warm, unsigned want, void **blocks) {
    return carve(warm, want, blocks, true);
}

unsigned world_refill(hak_warm_t *warm, unsigned want, void **blocks) {
    void *top[LIVE_MAX + 1];
    unsigned taken = world_carve(warm, want, blocks);
    if (taken) return taken;
    taken = hak_shard_take_warm(0, WORLD_QUAD, want, top, warm);
    return enter_taken(WORLD_QUAD, want, taken, top, blocks);
}

void world_free(unsigned home, unsigned class_index, void *block) {
    unsigned thread = explore_thread();
    use_block(block, hak_classes[class_index].size);
    remove_live(block);
    freeing[thread].block = block;
    freeing[thread].size = hak_classes[class_index].size;
    hak_shard_flush(home, class_index, &block, 1);
    freeing[thread].block = NULL;
}

void world_free_again(unsigned home, unsigned class_index, void *block) {
    reports_expected++;
    hak_shard_flush(home, class_index, &block, 1);
}

void world_check_told(void) {
    EXPLORE_CHECK(reports == reports_expected,
                  "%u double frees are told by the call, there were %u", reports, reports_expected);
}

void world_free_batch(unsigned home, unsigned class_index, void **blocks, unsigned count,
                      unsigned twice) {
    reports_expected += twice < count;
    for (unsigned i = 0; i < count; i++) {
        if (i == twice) continue;
        use_block(blocks[i], hak_classes[class_index].size);
        remove_live(blocks[i]);
    }
    hak_shard_flush(home, class_index, blocks, count);
}

/* True when the bits say that a block was given back, merged or not. */
static bool was_given(char *block) {
    hak_unit_t *slab = hak_region_unit_of(block);
    if (!slab->owner) return true;
    const hak_class_t *info = &hak_classes[hak_owner_class(slab->owner)];
    unsigned index = hak_block_index(hak_block_offset((uintptr_t)block, info), info->reciprocal);
    uint64_t bits =
        hak_slab_bits(slab)[index / 64] | hak_slab_remote(slab, info->words)[index / 64];
    return bits >> index % 64 & 1;
}

/* A block whose free had not come to F1 stays in use in the child. */
void world_fork(void) {
    gates_fork();
    for (unsigned i = 1; i < EXPLORE_THREADS_MAX; i++)
        if (freeing[i].block && !was_given(freeing[i].block))
            enter_live(freeing[i].block, freeing[i].size);
}

/* ---- Reports --------------------------------------------------------------------------------- */

void hak_error_double_free(const char *function, const void *block, size_t size) {
    (void)function, (void)size;
    explore_note("double free of %p is reported", block);
    reports++;
}

void world_may_miss(void) { may_miss = true; }

bool ledger_may_miss(void) { return may_miss; }
unsigned ledger_missed(void) { return may_miss ? reports_expected - reports : 0; }

void ledger_check_finally(void) {
    for (unsigned i = 0; i < live_count; i++)
        EXPLORE_CHECK(hak_region_unit_of(live[i].start)->owner, "a block in use has no slab");
    EXPLORE_CHECK(reports + ledger_missed() == reports_expected && ledger_missed() <= 1,
                  "%u double frees are reported, there were %u", reports, reports_expected);
}
