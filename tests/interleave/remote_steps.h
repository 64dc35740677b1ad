/* remote_steps.h: how the slabs of remote.c's scenarios stand at first, and what the threads do. */
#pragma once

#include "explore.h"
#include "memory.h"
#include "scenarios.h"
#include "world.h"
#include "shard/stats.h"
#include "shard/sparse.h"
#include "../support/purge.h"

/* Blocks that prepare took: of the slab that the scenario is about. */
static void *block[68];

/* A slab of shard 0 with no free block, and `spare` more units in the pool. */
static void prepare_full_slab(unsigned class_index, unsigned count, unsigned spare) {
    world_reset(1 + spare);
    EXPLORE_CHECK(world_take(0, class_index, count, block) == count, "no slab to begin with");
}

/* The same, and an empty slab that its bin keeps, so that a second one is released. */
static void prepare_full_and_empty(unsigned class_index, unsigned count, unsigned spare) {
    void *other[4];
    world_reset(2 + spare);
    EXPLORE_CHECK(world_take(0, class_index, count, other) == count &&
                      world_take(0, class_index, count, block) == count,
                  "no slabs to begin with");
    for (unsigned i = 0; i < count; i++) world_free(0, class_index, other[i]);
}

static void prepare_pair(void) { prepare_full_slab(WORLD_PAIR, 2, 0); }
static void prepare_pair_and_empty(void) { prepare_full_and_empty(WORLD_PAIR, 2, 0); }
static void prepare_one_and_units(void) { prepare_full_slab(WORLD_ONE, 1, 2); }
/* Two slabs whose blocks are in use, and an empty one that the bin keeps. */
static void prepare_two_pairs_beside_empty(void) {
    void *other[2];
    world_reset(3);
    EXPLORE_CHECK(world_take(0, WORLD_PAIR, 2, other) == 2 &&
                      world_take(0, WORLD_PAIR, 2, block) == 2 &&
                      world_take(0, WORLD_PAIR, 2, block + 2) == 2,
                  "no slabs to begin with");
    for (unsigned i = 0; i < 2; i++) world_free(0, WORLD_PAIR, other[i]);
}
/* Of two slabs one block is left; an empty one is kept, so that both will be released. */
static void prepare_two_pairs_and_empty(void) {
    prepare_two_pairs_beside_empty();
    for (unsigned i = 0; i < 4; i += 2) world_free(1, WORLD_PAIR, block[i]);
}
static void prepare_pairs(unsigned count, unsigned spare) {
    world_reset(count + spare);
    for (unsigned i = 0; i < 2 * count; i += 2)
        EXPLORE_CHECK(world_take(0, WORLD_PAIR, 2, block + i) == 2, "no slabs to begin with");
}
static void prepare_two_pairs(void) { prepare_pairs(2, 0); }
static void prepare_three_pairs(void) { prepare_pairs(3, 0); }
static void prepare_quad(void) { prepare_full_slab(WORLD_QUAD, 4, 0); }
static void prepare_quad_freed_afar(void) {
    prepare_full_slab(WORLD_QUAD, 4, 1);
    world_free(1, WORLD_QUAD, block[0]);
}
static void prepare_pair_freed_afar(void) {
    prepare_full_and_empty(WORLD_PAIR, 2, 0);
    world_free(1, WORLD_PAIR, block[0]);
}
/* The same; a block of a slab that has another life may be freed without a word. */
static void prepare_pair_that_moves(void) {
    prepare_pair_and_empty();
    world_may_miss();
}
/* The same, where the slab's record may be another slab's by then. */
static void prepare_record_that_moves(void) {
    prepare_pair_that_moves();
    world_reuses();
}
/* The same, with a unit in the pool, so that the other slab need not be of the same unit. */
static void prepare_record_and_units_that_move(void) {
    prepare_full_and_empty(WORLD_PAIR, 2, 1);
    world_may_miss();
    world_reuses();
}
/* What a second free has come to, for those who wait for it. */
static const _Atomic uint64_t *second_free_remote;
static bool second_free_is_over;

static void note_second_free(void) {
    const hak_unit_t *slab = hak_region_unit_of(block[0]);
    second_free_remote = hak_slab_remote(slab, hak_classes[WORLD_PAIR].words);
    second_free_is_over = false;
}

/* One block of a slab is free, and an empty slab is kept. */
static void prepare_half_free_pair(void) {
    prepare_pair_and_empty();
    world_free(0, WORLD_PAIR, block[0]);
    note_second_free();
}
/* The same, and what who lets it go and the freer look at may be seen late. */
static void prepare_half_free_pair_seen_late(void) {
    hak_unit_t *slab;
    prepare_half_free_pair();
    slab = hak_region_unit_of(block[0]);
    memory_keep_old(&slab->bits);
    memory_keep_old(&slab->owner);
    memory_keep_old(&slab->remote_words);
    memory_keep_old(second_free_remote);
}
static void prepare_half_free_pair_that_moves(void) {
    prepare_half_free_pair_seen_late();
    world_may_miss();
}
/* A slab is empty and kept, and a unit is left for who may not have that. */
static void prepare_empty_pair_guarded(void) {
    prepare_full_slab(WORLD_PAIR, 2, 1);
    for (unsigned i = 0; i < 2; i++) world_free(0, WORLD_PAIR, block[i]);
    note_second_free();
    world_guard();
}
/* The same; the second free comes to F1 before the slab that has left enters another bin. */
static void await_second_free(void);
static void prepare_empty_pair_that_moves(void) {
    prepare_empty_pair_guarded();
    world_at_leave(await_second_free);
}
/* One block of a slab is free, an empty slab is kept, and the record of one that leaves may serve again. */
static void prepare_half_free_record(void) {
    prepare_half_free_pair();
    world_reuses();
}
/* Shard 1 is at work in the class, and may take no used block of shard 0. */
static void prepare_guarded(void) {
    prepare_full_and_empty(WORLD_PAIR, 2, 0);
    world_guard();
}
/* Two slabs are pending. A bounded drain takes the first, which has one block; the second has a free one that was
 * freed again. */
static void prepare_freed_again_behind(void) {
    prepare_two_pairs();
    world_free(0, WORLD_PAIR, block[2]);
    world_free_again(1, WORLD_PAIR, block[2]);
    world_free(1, WORLD_PAIR, block[0]);
}
/* The same, and an empty slab that the bin keeps, so that the second may leave. */
static void prepare_freed_again_and_empty(void) {
    prepare_two_pairs_beside_empty();
    world_free(0, WORLD_PAIR, block[2]);
    world_free_again(1, WORLD_PAIR, block[2]);
    world_free(1, WORLD_PAIR, block[0]);
}
/* A free block of each of three slabs was freed again. A bounded drain meets the first; the take behind it begins with
 * the third, and ends there. */
static void free_three_again(void) {
    for (unsigned i = 0; i < 6; i += 2) world_free(0, WORLD_PAIR, block[i]);
    for (unsigned i = 6; i; i -= 2) world_free_again(1, WORLD_PAIR, block[i - 2]);
}
static void prepare_three_freed_again(void) {
    prepare_three_pairs();
    free_three_again();
}
/* The same, with a unit in the pool. */
static void prepare_three_freed_again_and_unit(void) {
    prepare_pairs(3, 1);
    free_three_again();
}
/* The same, to fork. */
static void prepare_quad_to_fork(void) {
    prepare_quad();
    world_forks();
}
static void prepare_pair_to_fork(void) {
    prepare_pair_freed_afar();
    world_forks();
}
static void prepare_empty_to_fork(void) {
    prepare_pair_and_empty();
    world_forks();
}
static void prepare_guarded_to_fork(void) {
    prepare_guarded();
    world_forks();
}
static void prepare_three_units(void) { world_reset(3); }
static void prepare_units(void) {
    prepare_three_units();
    world_needs_one_slab();
}
static void prepare_units_to_fork(void) {
    prepare_one_and_units();
    world_forks();
}
static void prepare_two_words(void) { prepare_full_slab(WORLD_TWO_WORDS, 68, 0); }

/* The next lock of the bin's makes its counter go round. */
static void prepare_counter_about_to_turn(void) {
    prepare_full_slab(WORLD_COUNTED, 32, 0);
    hak_store_relaxed(&hak_bin_counts(0, WORLD_COUNTED)->counts[HAK_SHARD_LOCKS], UINT16_MAX);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void free_pair_0(void) { world_free(1, WORLD_PAIR, block[0]); }
static void free_pair_1(void) { world_free(1, WORLD_PAIR, block[1]); }
static void free_pair_2(void) { world_free(1, WORLD_PAIR, block[2]); }
static void free_pair_2_and_4(void) {
    free_pair_2();
    world_free(1, WORLD_PAIR, block[4]);
}
static void free_pair_1_locally(void) { world_free(0, WORLD_PAIR, block[1]); }
static void free_quad_0(void) { world_free(1, WORLD_QUAD, block[0]); }
static void free_quad_1(void) { world_free(1, WORLD_QUAD, block[1]); }
static void free_quad_2(void) { world_free(1, WORLD_QUAD, block[2]); }
static void free_word_0(void) { world_free(1, WORLD_TWO_WORDS, block[0]); }
static void free_word_1(void) { world_free(1, WORLD_TWO_WORDS, block[67]); }
static void free_word_0_more(void) { world_free(1, WORLD_TWO_WORDS, block[1]); }

static void free_two_words_apart(void) {
    void *batch[] = {block[0], block[40]};
    world_free_batch(0, WORLD_TWO_WORDS, batch, 2, 2);
}

static void take_pair(void) {
    void *taken[1];
    world_take(0, WORLD_PAIR, 1, taken);
}

static void take_two_of_pairs(void) {
    void *taken[2];
    EXPLORE_CHECK(world_take(0, WORLD_PAIR, 2, taken) >= 1, "no memory");
}

static void take_two_and_return_them(void) {
    void *taken[2];
    const unsigned count = world_take(0, WORLD_PAIR, 2, taken);
    for (unsigned i = 0; i < count; i++) world_free(0, WORLD_PAIR, taken[i]);
}

/* A program that goes on after three reports gets a block. */
static void take_three_times(void) {
    void *taken[1];
    for (unsigned i = 0; i < 3; i++)
        EXPLORE_CHECK(world_take(0, WORLD_PAIR, 1, taken) == 1, "no block, though some are free");
}

static void take_last(void) {
    void *taken[1];
    EXPLORE_CHECK(world_take_last(0, WORLD_PAIR, taken) == 1, "no block, though some are free");
}

static void take_two_words(void) {
    void *taken[1];
    world_take(0, WORLD_TWO_WORDS, 1, taken);
}

static void sweep(void) { hak_shard_release_idle(); }
static void purge(void) { purge_sparse(); }

/* Takes a block, if it gets one, and gives it to the other shard. */
static void take_and_return_pair(void) {
    void *taken[1];
    if (world_take(0, WORLD_PAIR, 1, taken)) world_free(1, WORLD_PAIR, taken[0]);
}

/* Two slabs come from the pool at once. */
static void take_two_and_return_one(void) {
    void *taken[4];
    unsigned count = world_take(0, WORLD_ONE, 4, taken);
    if (count) world_free(1, WORLD_ONE, taken[count - 1]);
}

static void free_one(void) { world_free(1, WORLD_ONE, block[0]); }

static void free_pair_3(void) { world_free(1, WORLD_PAIR, block[3]); }

static void take_and_return_quad(void) {
    void *taken[1];
    if (world_take(0, WORLD_QUAD, 1, taken)) world_free(0, WORLD_QUAD, taken[0]);
}

/* In shard 1. */
static void adopt_pair(void) {
    void *taken[1];
    if (world_take(1, WORLD_PAIR, 1, taken)) world_free(1, WORLD_PAIR, taken[0]);
}

static void adopt_as_quad(void) {
    void *taken[1];
    if (world_take(1, WORLD_QUAD, 1, taken)) world_free(0, WORLD_QUAD, taken[0]);
}

/* As a cache does before its first refill. */
static void touch_quads(void) { hak_shard_touch(1, WORLD_QUAD); }

static void take_one_and_adopt_as_quad(void) {
    void *taken[1];
    (void)world_take(0, WORLD_ONE, 1, taken);
    adopt_as_quad();
}

static void take_quad(void) {
    void *taken[1];
    EXPLORE_CHECK(world_take(0, WORLD_QUAD, 1, taken) == 1, "no memory");
}

static void take_one_of_pair(void) {
    void *taken[1];
    EXPLORE_CHECK(world_take(0, WORLD_PAIR, 1, taken) == 1, "no memory");
}

/* In the child of a fork: the slab that was half freed into is used on. */
static void fork_and_go_on(void) {
    world_fork();
    world_free(1, WORLD_QUAD, block[2]);
    adopt_as_quad();
}

static void free_pair_locally(void) {
    world_free(0, WORLD_PAIR, block[0]);
    world_free(0, WORLD_PAIR, block[1]);
}

static void only_fork(void) { world_fork(); }

static void free_quad_0_twice(void) { world_free_again(1, WORLD_QUAD, block[0]); }
static void free_pair_0_twice(void) { world_free_again(1, WORLD_PAIR, block[0]); }
static void free_pair_1_twice(void) { world_free_again(1, WORLD_PAIR, block[1]); }
static void free_pair_1_twice_locally(void) {
    free_pair_1_locally();
    world_free_again(0, WORLD_PAIR, block[1]);
}
static void free_quad_0_twice_locally(void) { world_free_again(0, WORLD_QUAD, block[0]); }

/* Takes begin when the second free is where they can see it: before that they would hand the block out, and the free that
 * comes then is the new owner's. */
static bool has_second_free_f1(const void *unused) {
    (void)unused;
    return second_free_is_over || *second_free_remote;
}
static void await_second_free(void) { explore_await(has_second_free_f1, NULL); }
static bool has_second_free_f2(const void *unused) {
    (void)unused;
    return second_free_is_over || hak_region_unit_of(block[0])->remote_words;
}
static void free_pair_0_twice_and_tell(void) {
    free_pair_0_twice();
    second_free_is_over = true;
}
static void take_two_after_f2(void) {
    void *taken[2];
    explore_await(has_second_free_f2, NULL);
    (void)world_take(0, WORLD_PAIR, 2, taken);
}
static void adopt_two_after_f1(void) {
    void *taken[2];
    explore_await(has_second_free_f1, NULL);
    (void)world_take(1, WORLD_PAIR, 2, taken);
}

/* The slab's new owner frees the blocks by way of another shard. */
static void adopt_two_and_free_them(void) {
    void *taken[2];
    const unsigned count = world_take(1, WORLD_PAIR, 2, taken);
    for (unsigned i = 0; i < count; i++) world_free(0, WORLD_PAIR, taken[i]);
}
/* Where the slab stays, both blocks are handed out, though one may be on its way. They come back from afar. */
static void free_pair_1_and_take_both_after_f1(void) {
    void *taken[2];
    free_pair_1_locally();
    explore_await(has_second_free_f1, NULL);
    const unsigned count = world_take(0, WORLD_PAIR, 2, taken);
    for (unsigned i = 0; i < count; i++) world_free(1, WORLD_PAIR, taken[i]);
}

/* The slab leaves. When the second free has its F1, the unit is a slab of another class, with that record if it serves
 * again, and its blocks come back from afar. */
static void free_pair_1_and_quads_after_f1(void) {
    void *taken[4];
    free_pair_1_locally();
    explore_await(has_second_free_f1, NULL);
    const unsigned count = world_take(1, WORLD_QUAD, 4, taken);
    for (unsigned i = 0; i < count; i++) world_free(0, WORLD_QUAD, taken[i]);
}

/* Two words of one slab have a block that was free already. */
static void free_both_words_twice(void) {
    world_free_again(1, WORLD_TWO_WORDS, block[0]);
    world_free_again(1, WORLD_TWO_WORDS, block[67]);
}
static void prepare_two_words_freed(void) {
    prepare_two_words();
    world_free(0, WORLD_TWO_WORDS, block[0]);
    world_free(0, WORLD_TWO_WORDS, block[67]);
}

/* A drain meets the slab where it has another owner, or none, by then. */
static void free_pair_0_twice_and_sweep(void) {
    free_pair_0_twice();
    sweep();
}

/* A program that goes on after the report finds its class as it was. */
static void free_quad_0_twice_and_take(void) {
    void *taken[1];
    free_quad_0_twice_locally();
    EXPLORE_CHECK(world_take(0, WORLD_QUAD, 1, taken) == 1, "no block, with a unit in the pool");
}

/* The slab looks wholly free before its remote block is merged. */
static void free_pair_0_again_and_1(void) {
    world_free_again(0, WORLD_PAIR, block[0]);
    world_free(0, WORLD_PAIR, block[1]);
}

/* The statistics never show a smaller number than what was. */
static void sum_up(void) {
    const hak_shard_stats_t counts = hak_shard_stats(WORLD_COUNTED);
    EXPLORE_CHECK(counts.counts[HAK_SHARD_LOCKS] >= UINT16_MAX, "%llu locks are counted",
                  (unsigned long long)counts.counts[HAK_SHARD_LOCKS]);
}

static void free_counted(void) { world_free(0, WORLD_COUNTED, block[0]); }

/* Behind or right, and never ahead. */
static void read_costs(void) {
    hak_shard_costs_t costs[HAK_BAND_MID] = {{0}};
    unsigned at = 0;
    EXPLORE_CHECK(hak_shard_add_costs(costs, &at), "two shards are more than a piece");
    uint64_t locks = costs[hak_bands[WORLD_COUNTED]].locks;
    EXPLORE_CHECK(locks == 0 || locks == UINT16_MAX || locks == UINT16_MAX + 1,
                  "a number of locks that never was");
}
