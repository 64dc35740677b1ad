/* lends.c: explores the bits of bins that lend (hak_bin_lends in src/shard/bin.h), and the bins of which a shard tells
 * the pool, on the real table.c.
 *
 *   lends             every scenario must hold
 *   lends --broken    the sources were broken on purpose: some scenario must fail */
#include "shard/table.c" /* the bits are its own */

#include <string.h>

#include "explore.h"
#include "memory.h"
#include "scenarios.h"

/* Two classes whose bits lie in one word. */
enum { SHARD = HAK_SHARDS_PLAIN, CLASS = HAK_CLASS_1024, OTHER = HAK_CLASS_2048 };
_Static_assert(CLASS / 64 == OTHER / 64, "one word");

static record_t record;

/* ---- What the table stands on ---------------------------------------------------------------- */

hak_pool_stats_t hak_pool_stats;

void *hak_meta_alloc_zeroed(size_t size) {
    EXPLORE_CHECK(size == sizeof record, "a record of %zu bytes", size);
    return &record;
}

void hak_meta_free_zeroed(void *block, size_t size) {
    explore_fail("%p, of %zu bytes, is given back", block, size);
}

void *hak_meta_alloc(size_t size) { explore_fail("%zu bytes are wanted", size); }

void *hak_room_cut(hak_room_place_t *place, size_t size) {
    explore_fail("%zu bytes of room %p are wanted", size, (void *)place);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static hak_bin_t *bin(unsigned class_index) { return &record.bins[class_index]; }

/* The blocks with which a bin lends. */
static size_t enough(unsigned class_index) {
    const size_t size = hak_classes[class_index].size;
    return (LENDS_LEAST + size - 1) / size;
}

static bool has_bit(unsigned class_index) {
    return atomic_load(&record.lends[class_index / 64]) >> class_index % 64 & 1;
}

static size_t spare(unsigned class_index) { return atomic_load(&bin(class_index)->spare); }

/* Blocks come back. */
static void give(unsigned class_index, size_t blocks) {
    hak_lock_acquire_inside(&bin(class_index)->lock);
    HAK_ADD_OWNED(&bin(class_index)->spare, blocks);
    hak_bin_look_at_spare(bin(class_index), SHARD, class_index);
    hak_lock_release_inside(&bin(class_index)->lock);
}

/* A thread of another shard asks, and takes as many as there are, up to `blocks`. */
static void take(unsigned class_index, size_t blocks) {
    if (!hak_bin_lends(SHARD, class_index)) return;
    hak_lock_acquire_inside(&bin(class_index)->lock);
    HAK_ADD_OWNED(&bin(class_index)->spare,
                  -hak_min(blocks, hak_load_relaxed(&bin(class_index)->spare)));
    hak_lock_release_inside(&bin(class_index)->lock);
}

static void give_enough(void) { give(CLASS, enough(CLASS)); }
static void give_others(void) { give(OTHER, enough(OTHER)); }
static void take_enough(void) { take(CLASS, enough(CLASS)); }
static void ask_others(void) { take(OTHER, 0); }

static void prepare_with(size_t blocks) {
    memset(&record, 0, sizeof record);
    memset(&hak_shard_table, 0, sizeof hak_shard_table);
    hak_shard_open(SHARD);
    if (blocks) give(CLASS, blocks);
}

static void prepare(void) { prepare_with(0); }
static void prepare_enough(void) { prepare_with(enough(CLASS)); }
static void prepare_plenty(void) { prepare_with(3 * enough(CLASS)); }

/* Its own threads have used up what the other class had: nobody has noticed so far. */
static void prepare_used_up(void) {
    prepare();
    give_others();
    hak_store_relaxed(&bin(OTHER)->spare, 0);
}

static void both_lend(void) {
    EXPLORE_CHECK(has_bit(CLASS) && has_bit(OTHER), "the bit of a class is lost");
}

static void one_lends_and_the_other_one_does_not(void) {
    EXPLORE_CHECK(has_bit(CLASS), "the bit of a class is lost");
    EXPLORE_CHECK(!has_bit(OTHER), "a bin that has nothing lends");
}

/* It has had enough all the time. */
static void it_still_lends(void) {
    EXPLORE_CHECK(spare(CLASS) == enough(CLASS), "%zu blocks are left", spare(CLASS));
    EXPLORE_CHECK(has_bit(CLASS), "a bin with %zu blocks does not lend", spare(CLASS));
}

static void the_next_one_forgets_it(void) {
    EXPLORE_CHECK(spare(CLASS) == 0, "%zu blocks are left", spare(CLASS));
    EXPLORE_CHECK(!hak_bin_lends(SHARD, CLASS) && !has_bit(CLASS), "a bin without blocks lends");
}

/* The bit may be cleared though blocks have come meanwhile; it is set when the next ones come. */
static void it_lends_after_the_next_flush(void) {
    const bool lends = hak_bin_lends(SHARD, CLASS);
    EXPLORE_CHECK(!lends || spare(CLASS) >= enough(CLASS), "a bin with %zu blocks lends",
                  spare(CLASS));
    give_enough();
    EXPLORE_CHECK(hak_bin_lends(SHARD, CLASS), "a bin with %zu blocks does not lend", spare(CLASS));
}

/* So many bins of the first word of classes have a slab, and so many of the second one, beside the two that get theirs. */
enum { FIRST = 1, SECOND = 64 };

static void prepare_bins(unsigned first, unsigned second) {
    prepare();
    hak_store_relaxed(&hak_pool_stats.other_bins, 0);
    for (unsigned i = 0; i < first; i++) hak_bin_add_class(SHARD, FIRST + 2 + i);
    for (unsigned i = 0; i < second; i++) hak_bin_add_class(SHARD, SECOND + 1 + i);
}

static void prepare_all_but_two(void) { prepare_bins(BINS_TOLD - 2, 0); }
static void prepare_all_but_one(void) { prepare_bins(BINS_TOLD - 1, 0); }
static void prepare_all_but_one_twice(void) { prepare_bins(BINS_TOLD - 1, BINS_TOLD - 1); }

static void add_a_bin(void) { hak_bin_add_class(SHARD, FIRST); }
static void add_another_bin(void) { hak_bin_add_class(SHARD, FIRST + 1); }
static void add_one_of_the_second_word(void) { hak_bin_add_class(SHARD, SECOND); }

static void bins_are_told_once(void) {
    const size_t told = atomic_load(&hak_pool_stats.other_bins), bins = hak_shard_bins_told(SHARD);
    EXPLORE_CHECK(bins >= BINS_TOLD && told == bins, "the pool knows of %zu bins of %zu", told,
                  bins);
}

static const char *describe(const volatile void *variable) {
    return variable == &record.lends[CLASS / 64]    ? "the bits"
           : variable == &record.classes[0]         ? "the classes"
           : variable == &hak_pool_stats.other_bins ? "the pool's bins"
           : variable == &bin(CLASS)->spare         ? "the blocks of one class"
           : variable == &bin(OTHER)->spare         ? "the blocks of the other class"
                                                    : NULL;
}

static const explore_scenario_t scenarios[] = {
    {"blocks of two classes come back",
     prepare,
     {give_enough, give_others},
     .finally = both_lend,
     .describe = describe},
    {"blocks of one class come back, those of another one are gone",
     prepare_used_up,
     {give_enough, ask_others},
     .finally = one_lends_and_the_other_one_does_not,
     .describe = describe},
    {"two take, and as many are left",
     prepare_plenty,
     {take_enough, take_enough},
     .finally = it_still_lends,
     .describe = describe},
    {"two want the same blocks",
     prepare_enough,
     {take_enough, take_enough},
     .finally = the_next_one_forgets_it,
     .describe = describe},
    {"blocks are taken, others come back, and somebody asks",
     prepare_enough,
     {take_enough, give_enough, take_enough},
     .finally = it_lends_after_the_next_flush,
     .describe = describe},
    {"two bins get their first slab, and one of them is the eighth",
     prepare_all_but_two,
     {add_a_bin, add_another_bin},
     .finally = bins_are_told_once,
     .describe = describe},
    {"two bins get their first slab, and one of them is the ninth",
     prepare_all_but_one,
     {add_a_bin, add_another_bin},
     .finally = bins_are_told_once,
     .describe = describe},
    {"the eighth bin of each word gets its first slab",
     prepare_all_but_one_twice,
     {add_a_bin, add_one_of_the_second_word},
     .finally = bins_are_told_once,
     .describe = describe},
};

int main(int argc, char **argv) {
    memory_track(&record, sizeof record);
    memory_track(&hak_shard_table, sizeof hak_shard_table);
    memory_track(&hak_pool_stats, sizeof hak_pool_stats);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
