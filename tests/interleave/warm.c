/* warm.c: explores the protocol of src/shard/warm_slab.h on the real sources of src/shard/.
 *
 *   warm             every scenario must hold; with --heavy, the heavy ones too
 *   warm --broken    the sources were broken on purpose: some scenario must fail
 *
 * The thread that the slabs are bound to is the first one of each row; nobody else carves. */
#include "explore.h"
#include "region/region.h"
#include "shard/stats.h"
#include "shard/sparse.h"
#include "scenarios.h"
#include "world.h"
#include "../support/purge.h"

static hak_warm_t *warm, *other_warm;

/* Blocks of the warm slab, those in use first. */
static void *block[4];

/* Blocks of another slab of the bin, if it has one. */
static void *other[4];

/* A slab of four blocks of shard 0, bound: two are free, block[0] and block[1] are in use. The
 * blocks of `more` other slabs are in use, too. */
static void prepare_slabs(unsigned more, void **others, unsigned spare) {
    world_reset(1 + more + spare);
    warm = world_warm();
    EXPLORE_CHECK(world_take(0, WORLD_QUAD, 4, block) == 4, "no slab to begin with");
    for (unsigned i = 0; i < more; i++)
        EXPLORE_CHECK(world_take(0, WORLD_QUAD, 4, others + 4 * i) == 4, "no slab to begin with");
    for (unsigned i = 1; i < 4; i++) world_free(0, WORLD_QUAD, block[i]);
    EXPLORE_CHECK(world_refill(warm, 1, block + 1) == 1, "no block to begin with");
    EXPLORE_CHECK(hak_warm_slabs(WORLD_QUAD) == 1, "no slab is bound");
    hak_shard_release_idle(); /* the next one takes the slab back, unless it is carved before */
}

static void prepare_bound(unsigned spare) { prepare_slabs(0, NULL, spare); }
static void prepare(void) { prepare_bound(0); }
static void prepare_and_spare(void) { prepare_bound(1); }
static void prepare_to_fork(void) {
    prepare();
    world_forks();
}

/* The same, and an empty slab that the bin keeps, so that the bound one is released when it is
 * wholly free. */
static void prepare_and_empty(void) {
    void *more[4];
    prepare_slabs(1, more, 0);
    for (unsigned i = 0; i < 4; i++) world_free(0, WORLD_QUAD, more[i]);
}

/* A slab that is all in use and bound. */
static void prepare_used_up(void) {
    prepare_bound(1);
    EXPLORE_CHECK(world_refill(warm, 2, block + 2) == 2, "no blocks to begin with");
}

/* Block 1 is free, and what a carve takes before any other. */
static void prepare_one_free(void) {
    prepare_used_up();
    world_free(0, WORLD_QUAD, block[1]);
}

/* Two slabs that are all in use; the first one is bound. */
static void prepare_two_slabs(void) {
    prepare_slabs(1, other, 1);
    EXPLORE_CHECK(world_refill(warm, 2, block + 2) == 2, "no blocks to begin with");
}

static void prepare_freed_afar(void) {
    prepare();
    world_free(1, WORLD_QUAD, block[1]);
}

/* What a carve would take first is freed once more, from the other shard. */
static void prepare_freed_again_afar(void) {
    prepare();
    world_free_again(1, WORLD_QUAD, block[2]);
}

/* The same of two blocks, of which a carve would take both. */
static void prepare_two_freed_again_afar(void) {
    prepare_freed_again_afar();
    world_free_again(1, WORLD_QUAD, block[3]);
}

static void prepare_two_threads(void) {
    void *more[4];
    prepare_bound(2);
    other_warm = world_warm();
    EXPLORE_CHECK(world_refill(warm, 2, block + 2) == 2, "no blocks to begin with");
    EXPLORE_CHECK(world_refill(other_warm, 4, more) == 4, "no blocks to begin with");
    EXPLORE_CHECK(hak_warm_slabs(WORLD_QUAD) <= 2, "more is bound than there is room for");
    for (unsigned i = 1; i < 4; i++) world_free(0, WORLD_QUAD, more[i]);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void carve_one(void) {
    void *taken[1];
    world_carve(warm, 1, taken);
}

static void carve_twice(void) {
    carve_one();
    carve_one();
}

static void carve_and_return(void) {
    void *taken[1];
    if (world_carve(warm, 1, taken)) world_free(0, WORLD_QUAD, taken[0]);
}

static void refill(void) {
    void *taken[2];
    world_refill(warm, 2, taken);
}

static void carve_two(void) {
    void *taken[2];
    world_carve(warm, 2, taken);
}

static void carve_locked(void) {
    void *taken[1];
    world_carve_locked(warm, 1, taken);
}

static void carve_and_exit(void) {
    carve_one();
    hak_warm_release(warm, 0, WORLD_QUAD);
}

static void refill_other(void) {
    void *taken[2];
    world_refill(other_warm, 2, taken);
}

/* ---- Others ---------------------------------------------------------------------------------- */

static void free_0_locally(void) { world_free(0, WORLD_QUAD, block[0]); }
static void free_0(void) { world_free(1, WORLD_QUAD, block[0]); }
static void free_1_locally(void) { world_free(0, WORLD_QUAD, block[1]); }
static void free_1(void) { world_free(1, WORLD_QUAD, block[1]); }
static void free_both_locally(void) {
    free_0_locally();
    free_1_locally();
}
static void free_0_and_2(unsigned twice) {
    void *batch[] = {block[0], block[2]};
    world_free_batch(0, WORLD_QUAD, batch, 2, twice);
}
static void free_apart_locally(void) { free_0_and_2(2); }
static void sweep(void) { hak_shard_release_idle(); }

static void take_there(void) {
    void *taken[1];
    world_take(1, WORLD_QUAD, 1, taken);
}

static void take_here(void) {
    void *taken[1];
    world_take(0, WORLD_QUAD, 1, taken);
}

static void purge(void) { purge_sparse(); }

/* What the statistics do. The slab has blocks in use all the while. */
static void collect(void) {
    const hak_shard_stats_t counts = hak_shard_stats(WORLD_QUAD);
    EXPLORE_CHECK(counts.slabs == 1, "%llu slabs are counted", (unsigned long long)counts.slabs);
}

static void adopt_as_pair(void) {
    void *taken[1];
    if (world_take(1, WORLD_PAIR, 1, taken)) world_free(0, WORLD_PAIR, taken[0]);
}

static void fork_and_go_on(void) {
    world_fork();
    free_1();
    take_here();
}

static void free_3_twice(void) {
    world_free(0, WORLD_QUAD, block[3]);
    world_free_again(0, WORLD_QUAD, block[3]);
}

static void free_3_from_two_shards(void) {
    world_free(1, WORLD_QUAD, block[3]);
    world_free_again(0, WORLD_QUAD, block[3]);
    world_check_told();
}

static void free_0_from_two_shards_apart(void) {
    free_0();
    free_0_and_2(0);
    world_check_told();
}

static void free_0_twice_apart(void) {
    free_0_locally();
    free_0_and_2(0);
}

/* A block of each of two slabs, then one of the first that is free already, and one more of the second: lone blocks are
 * given two in a turn. */
static void free_in_turn_again(void) {
    void *batch[] = {block[1], other[0], block[0], other[2]};
    world_free_batch(0, WORLD_QUAD, batch, 4, 2);
}

/* The second slab is not full. */
static void free_0_from_two_shards_in_turn(void) {
    world_free(0, WORLD_QUAD, other[1]);
    free_0();
    free_in_turn_again();
    world_check_told();
}

/* The second slab is full; then a block of it is freed again. */
static void free_0_twice_in_turn(void) {
    void *more[] = {block[2], other[0]};
    free_0_locally();
    free_in_turn_again();
    world_free_batch(0, WORLD_QUAD, more, 2, 1);
}

/* The second slab is not full, so the double free is the second of two lone blocks. */
static void free_0_twice_among_free(void) {
    world_free(0, WORLD_QUAD, other[1]);
    free_0_locally();
    free_in_turn_again();
}

#define RULES \
    .always = world_check_always, .finally = world_check_finally, .describe = world_describe

/* The cheap ones first: most mutants are found there. */
static const explore_scenario_t scenarios[] = {
    {"pages go back beside a carve", prepare, {carve_and_return, purge}, RULES},
    {"a double free in a warm slab", prepare_one_free, {carve_one, free_3_twice}, RULES},
    {"a double free in a warm slab, from two shards",
     prepare_used_up,
     {carve_one, free_3_from_two_shards},
     RULES},
    {"a double free in a warm slab, at the head of a batch",
     prepare_one_free,
     {carve_twice, free_0_from_two_shards_apart},
     RULES},
    {"a double free from home at the head of a batch",
     prepare_one_free,
     {sweep, free_0_twice_apart},
     RULES},
    {"a double free in a batch of two slabs in turn, from two shards",
     prepare_two_slabs,
     {carve_one, free_0_from_two_shards_in_turn},
     RULES},
    {"a double free in a batch of two slabs in turn, from home",
     prepare_two_slabs,
     {sweep, free_0_twice_in_turn},
     RULES},
    {"a double free in a batch of two slabs in turn, both of them listed",
     prepare_two_slabs,
     {sweep, free_0_twice_among_free},
     RULES},
    {"a carve where a free block was freed again from afar",
     prepare_freed_again_afar,
     {carve_one, free_0, sweep},
     RULES},
    {"a carve under the lock where a free block was freed again from afar",
     prepare_freed_again_afar,
     {carve_locked, free_0, sweep},
     RULES},
    {"a carve where two free blocks were freed again from afar",
     prepare_two_freed_again_afar,
     {carve_two, free_0, sweep},
     RULES},
    {"two threads with warm slabs of one bin", prepare_two_threads, {refill, refill_other}, RULES},
    {"a carve and a batch of blocks that lie apart",
     prepare_one_free,
     {carve_one, free_apart_locally},
     RULES},
    {"a thread ends while its slab is given to", prepare, {carve_and_exit, free_0_locally}, RULES},
    {"a thread ends while its slab is taken back", prepare, {carve_and_exit, sweep}, RULES},
    {"a carve and a sweep that takes the slab back", prepare, {carve_twice, sweep}, RULES},
    {"a carve and a free from home", prepare, {carve_twice, free_0_locally}, RULES},
    {"the statistics beside a carve", prepare, {carve_one, collect}, RULES},
    {"the statistics beside a free from home", prepare, {free_0_locally, collect}, RULES},
    {"a fork among a carve and a free",
     prepare_to_fork,
     {carve_one, free_0, fork_and_go_on},
     RULES},
    {"a refill and a take", prepare_and_spare, {refill, take_here}, RULES},
    {"a refill and a take of another shard", prepare_and_spare, {refill, take_there}, RULES},
    {"a carve, a free from home, one from afar",
     prepare,
     {carve_one, free_0_locally, free_1},
     RULES},
    {"a carve and two frees of its slab's word",
     prepare,
     {carve_one, free_0_locally, free_1_locally},
     RULES},
    {"a carve and a drain", prepare_freed_afar, {carve_one, free_0, sweep}, RULES},
    {"the last frees of a warm slab",
     prepare_and_empty,
     {carve_one, free_both_locally, adopt_as_pair},
     RULES},
    {"two carves, a free from home, one from afar",
     prepare,
     {carve_twice, free_0_locally, free_1},
     RULES,
     .heavy = true},
    {"a carve, a sweep and a free", prepare, {carve_one, sweep, free_0}, RULES, .heavy = true},
    {"a carve that is given back, a sweep and a free",
     prepare,
     {carve_and_return, sweep, free_0},
     RULES,
     .heavy = true},
    {"a carve, a take of another shard and a free",
     prepare,
     {carve_one, take_there, free_0_locally},
     RULES,
     .heavy = true},
    {"two threads with warm slabs of one bin, and a free",
     prepare_two_threads,
     {refill, refill_other, free_0_locally},
     RULES,
     .heavy = true},
    {"a thread ends among frees",
     prepare,
     {carve_and_exit, free_0_locally, free_1},
     RULES,
     .heavy = true},
    {"the statistics beside a carve and a free",
     prepare,
     {carve_one, collect, free_0_locally},
     RULES,
     .heavy = true},
    {"a fork among a carve and a free from home",
     prepare_to_fork,
     {carve_twice, free_0_locally, fork_and_go_on},
     RULES,
     .heavy = true},
};

int main(int argc, char **argv) {
    world_make();
    world_track_warm();
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
