/* huge.c: explores how huge blocks come, go and are resized (src/large/huge.h has the protocol):
 * the table, the kept stretches, the way to and from the system, and the gate of a fork, on the
 * real sources.
 *
 *   huge             every scenario must hold
 *   huge --broken    the source was broken on purpose: some scenario must fail
 *
 * Addresses are a model: units of 1 MiB that are a hole, ours, or another library's, which may take
 * a unit in the moment it is given back. No byte of them exists. */
#include <string.h>

#include "explore.h"
#include "futex.h"
#include "gates.h"
#include "memory.h"
#include "os/os.h"
#include "scenarios.h"

/* The sums are not tracked: they make no steps. */
#include "large/huge.h"
#include "../support/purge.h"

/* A part for the explorer and every second thread, and one for the others. */
#include "cache/cache.h"
static hak_cache_t caches[EXPLORE_THREADS_MAX];
#define hak_cache (&caches[explore_thread()])

#include "large/huge.c" /* its words are its own, and have to be tracked */
#include "large/huge_kept.c"
#include "large/huge_table.c"
#include "large/huge_stretches.c"

#include "huge_model.h"

/* ---- The first states ------------------------------------------------------------------------ */

static void begin_with_a_small_table(void) {
    hak_huge_stats_t *stats = &hak_huge_stats;
    futex_reset(false);
    memset(&model, 0, sizeof model);
    memset(&kernel, 0, sizeof kernel);
    memset(tables, 0, sizeof tables);
    memset(blocks, 0, sizeof blocks);
    memset((void *)stats, 0, sizeof *stats);
    model.cache = -1;
    memset(hak_huge_table, 0, sizeof hak_huge_table);
    memset(hak_kept_parts, 0, sizeof hak_kept_parts);
    hak_store_relaxed(&has_strays, false);
    hak_store_relaxed(&parts_used, HAK_KEPT_PARTS);
    hak_store_relaxed(&purged_next, 0);
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++)
        hak_stretches_use_places(&hak_kept_parts[i], places[i]);
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) caches[i].shard = (uint8_t)i;
    hak_store_relaxed(&hak_budget_notes, 0);
    gates_reset(false);
}

static void begin(void) {
    begin_with_a_small_table();
    for (unsigned i = 0; i < HAK_HUGE_TABLE_MAX; i++)
        hak_huge_table_use(&hak_huge_table[i],
                           &(hak_slots_t){tables[model.tables++], TABLE_SLOTS, 0});
}

/* A block of four units. */
static void one_long(void) {
    begin();
    make(0, 4, false);
}
static void one_long_foreign(void) {
    one_long();
    model.foreign = 1;
}
static void one_of_three_limited(void) {
    begin();
    make(0, 3, false);
    model.limit = 4 * UNIT;
    model.may_refuse = true;
}
/* Two blocks, and one unit kept in between. */
static void one_kept(void) {
    begin();
    make(0, 1, false);
    make(4, 1, false);
    make(1, 1, false);
    release(4);
}
static void one_kept_that_moves(void) {
    one_kept();
    model.moves = true;
    model.foreign = 1;
}
static void one_kept_refused(void) {
    one_kept();
    model.refused_remaps = 1;
}
static void one_kept_refused_move(void) {
    one_kept();
    model.refused_remaps = model.refused_moves = 1;
    model.moves_several = model.may_refuse = true;
    model.foreign = 1;
}
/* A unit is kept, and two units elsewhere: a block of four needs both. */
static void two_kept(void) {
    begin();
    make(0, 1, false);
    make(4, 1, false);
    make(1, 1, false);
    make(2, 2, false);
    make(3, 1, false);
    release(4);
    release(2);
    model.moves_several = true;
    model.foreign = 1;
}
static void two_kept_refused_move(void) {
    two_kept();
    model.refused_moves = 1;
}
static void two_blocks(void) {
    begin();
    make(0, 2, false);
    make(1, 1, false);
}
static void two_that_move(void) {
    two_blocks();
    model.moves = true;
    model.foreign = 1;
}
static void two_not_kept(void) {
    two_blocks();
    model.cache = 0;
    model.foreign = 1;
}
static void two_not_unmapped(void) {
    two_blocks();
    model.cache = 0;
    model.refused_unmaps = 1;
}
static void two_refused(void) {
    two_blocks();
    model.refused_remaps = 1;
    model.may_refuse = true;
}
static void two_and_one_kept(void) {
    two_blocks();
    make(4, 2, false);
    release(1);
}

/* The second part has no places yet: the threads 1 and 3 use it. */
static void two_without_places(void) {
    two_blocks();
    make(2, 1, false);
    hak_kept_parts[1] = (hak_stretches_t){.lock = {0}};
}
static void two_without_memory_for_places(void) {
    two_without_places();
    model.has_no_records = true;
}

/* A stretch of the explorer's part, which every second thread does not call its own. */
static void one_kept_in_hand(void) {
    two_blocks();
    make(4, 3, false);
    release(4);
}

/* What moves comes to addresses of a table without slots, for which there is no memory. */
static void one_that_strays(void) {
    begin_with_a_small_table();
    make(0, 1, false);
    make(1, 3, false); /* what is behind these is the other table's */
    EXPLORE_CHECK(!hak_huge_table_of((uintptr_t)address_of(4))->current.size, "it has slots");
    model.moves = model.has_no_records = true;
}
static void grow_0_by_one(void) { resize(0, 2); }
static void look_for_none(void) {
    EXPLORE_CHECK(hak_huge_size(address_of(12)) == 0, "what is no block has a size");
}
static void grow_and_free_0(void) {
    resize(0, 2);
    release(0);
}
static void two_in_a_small_table(void) {
    begin_with_a_small_table();
    make(0, 2, false);
    make(1, 1, false);
    model.moves = true;
}

static void one_in_a_small_table(void) {
    begin_with_a_small_table();
    make(0, 2, false);
    model.moves = true;
}

static unsigned of_former; /* the block that is among the former slots of its table */

static bool note_former(const hak_mapping_t *mapping) {
    for (of_former = 0; of_former < BLOCKS; of_former++)
        if (mapping->start && (uintptr_t)blocks[of_former].start == mapping->start) return true;
    return false;
}

/* Of three blocks of a table that has just grown, one is among its former slots yet. */
static void three_in_a_grown_table(void) {
    begin_with_a_small_table();
    make(0, 1, false);
    make(1, 1, false);
    make(2, 2, false); /* what is behind these is the other table's */
    const hak_slots_t *former = &hak_huge_table[1].former;
    EXPLORE_CHECK(former->used == 1, "%u blocks are among former slots", former->used);
    for (unsigned i = 0; i < former->size && !note_former(&former->slots[i]); i++) continue;
    EXPLORE_CHECK(of_former < BLOCKS, "which block is among the former slots?");
    model.moves = true;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void free_0(void) { release(0); }
static void free_1(void) { release(1); }
static void zeroed_2(void) { make(2, 2, true); }
static void zeroed_2_long(void) { make(2, 4, true); }
static void zeroed_3(void) { make(3, 1, true); }
static void zeroed_3_long(void) { make(3, 3, true); }
static void plain_3(void) { make(3, 1, false); }
static void plain_2(void) { make(2, 1, false); }
static void plain_4(void) { make(4, 1, false); }
static void free_0_and_long(void) { release(0), make(4, 3, true); }
static void larger_table(void) {
    EXPLORE_CHECK(make_room(&hak_huge_table[0]), "no memory for a table");
}
static void grow_0(void) { resize(0, 4); }
static void grow_former(void) { resize(of_former, 3); }
static void free_former(void) { release(of_former); }
static void grow_1(void) { resize(1, 3); }
static void shrink_0(void) { resize(0, 1); }
static void purge_all(void) { purge_huge(0); }

/* The program's mistakes: of the ends of a block that it gave up, one counts. */
static unsigned ends;
static void given_up(void) {
    leave_units(0, 0);
    ends = 0;
}
static void one_given_up(void) {
    two_blocks();
    given_up();
}
static void one_given_up_that_moves(void) {
    two_that_move();
    given_up();
}
static bool free_0_again(void) {
    bool counts = hak_huge_free(blocks[0].start) != 0;
    ends += counts;
    return counts;
}
static void one_free_of_0(void) { free_0_again(); }
static void grow_0_again(void) {
    char *start = hak_huge_resize(blocks[0].start, 4 * (size_t)UNIT);
    if (start) ends += hak_huge_free(start) != 0;
}
/* The other free or resize may be under way. */
static void known_free_of_0(void) {
    size_t size;
    if (free_0_again()) return;
    EXPLORE_CHECK(hak_huge_was_freed(blocks[0].start, &size), "what is freed twice is foreign");
    EXPLORE_CHECK(size == 2 * UNIT, "a block of %zu bytes is freed twice", size);
}
static void finally_freed(void) {
    size_t size;
    finally();
    EXPLORE_CHECK(ends == 1, "%u ends of a block are right", ends);
    EXPLORE_CHECK(hak_huge_was_freed(blocks[0].start, &size), "a block that ended is forgotten");
}

/* In the child, where nobody else is: what is mapped is known. */
static void fork_child(void) {
    gates_fork();
    EXPLORE_CHECK(is_free(), "the child has a lock that is held");
    model.forked = true;
    unsigned char seen[UNITS] = {0};
    unsigned known = look(seen), ours = 0;
    for (unsigned i = 0; i < UNITS; i++) ours += model.units[i].kind == OURS;
    EXPLORE_CHECK(known == ours, "the child has %u units and knows of %u", ours, known);
    EXPLORE_CHECK(model.committed == ours * (size_t)UNIT, "%zu bytes are charged for %u units",
                  model.committed, ours);
    /* What other threads held is nobody's; they may have been about to use or to leave it. */
    for (unsigned i = 0; i < UNITS; i++) model.units[i].holder = 0;
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i].units = 0;
    model.may_refuse = false;
    model.refused_unmaps = 0;
    make(3, 1, true);
    release(3);
    purge_huge(0);
    EXPLORE_CHECK(hak_huge_stats.kept_bytes == 0, "%zu bytes stay in the child",
                  (size_t)hak_huge_stats.kept_bytes);
}

static void finally_forked(void) { EXPLORE_CHECK(model.forked, "no child"); }

/* In the parent everything goes on. */
static void fork_parent(void) {
    gates_close();
    EXPLORE_CHECK(in_hand() == 0 && is_free(), "a fork while a block is in hand");
    gates_open();
}

static void one_kept_and_a_fork(void) {
    one_kept_that_moves();
    gates_reset(true);
}
static void two_kept_and_a_fork(void) {
    two_kept();
    gates_reset(true);
}
static void two_and_a_fork(void) {
    two_that_move();
    gates_reset(true);
}
static void three_and_a_fork(void) {
    two_and_one_kept();
    gates_reset(true);
}
static void none_kept_and_a_fork(void) {
    two_not_kept();
    gates_reset(true);
}

static const char *describe(const volatile void *variable) {
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++)
        if (variable == &hak_kept_parts[i].lock)
            return i ? "a part's lock" : "the first part's lock";
    for (unsigned i = 0; i < HAK_KEPT_PARTS; i++)
        if (variable == &hak_kept_parts[i].longest) return "the longest stretch of a part";
    for (unsigned i = 0; i < HAK_HUGE_TABLE_MAX; i++)
        if (variable == &hak_huge_table[i].lock)
            return i ? "a table's lock" : "the first table's lock";
    return variable == &kernel.calls     ? "the system"
           : variable == &kernel.charges ? "the limit"
           : variable == &has_strays     ? "whether there are strays"
           : variable == &table_count    ? "the number of tables"
           : variable == &parts_used     ? "the number of parts"
           : variable == &purged_next    ? "the next part to purge"
                                         : NULL;
}

#define RULES .always = always, .finally = finally, .describe = describe
#define RULES_OF_MISTAKES .always = always, .finally = finally_freed, .describe = describe
#define RULES_OF_FORK .always = always, .finally = finally_forked, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"a request, and a free of a longer one", one_long, {zeroed_2, free_0}, RULES},
    {"the same beside another library", one_long_foreign, {zeroed_2, free_0}, RULES},
    {"two requests for one kept stretch", one_kept, {plain_2, zeroed_3}, RULES},
    {"a kept stretch is lengthened, a neighbour freed",
     one_kept_that_moves,
     {free_0, zeroed_3_long},
     RULES},
    {"the same, refused", one_kept_refused, {free_0, zeroed_3_long}, RULES},
    {"the same, refused half-way", one_kept_refused_move, {free_0, zeroed_3_long}, RULES},
    {"kept pages come to the end of a longer block", two_kept, {free_0, zeroed_2_long}, RULES},
    {"the same, refused", two_kept_refused_move, {free_0, zeroed_2_long}, RULES},
    {"the same, and a request for these pages", two_kept, {plain_4, zeroed_2_long}, RULES},
    {"the same, and a second longer block", two_kept, {free_0_and_long, zeroed_2_long}, RULES},
    {"a resize and a request", two_that_move, {grow_0, zeroed_2}, RULES},
    {"two resizes", two_that_move, {grow_0, grow_1}, RULES},
    {"a resize in place, and a free", two_blocks, {grow_0, free_1}, RULES},
    {"a resize, a free and a purge", two_that_move, {grow_0, free_1, purge_all}, RULES},
    {"a resize that is refused, and a purge", two_refused, {grow_0, free_1, purge_all}, RULES},
    {"a block becomes shorter, and a request", two_blocks, {shrink_0, zeroed_3}, RULES},
    {"the same where nothing is kept", two_not_kept, {shrink_0, zeroed_3}, RULES},
    {"frees where nothing is kept", two_not_kept, {free_0, free_1}, RULES},
    {"a free and a request where nothing is kept", two_not_kept, {free_0, zeroed_3}, RULES},
    {"the system takes nothing back", two_not_unmapped, {free_0, free_1}, RULES},
    {"the same, and a request", two_not_unmapped, {free_0, zeroed_3}, RULES},
    {"purges, and a free", two_and_one_kept, {purge_all, purge_all, free_0}, RULES},
    {"a purge, a request and a free", two_and_one_kept, {purge_all, zeroed_3, free_0}, RULES},
    {"two give a part its first places", two_without_places, {free_0, plain_3, free_1}, RULES},
    {"a part finds no memory for places", two_without_memory_for_places, {free_0, free_1}, RULES},
    {"two requests for what a third one kept", one_kept_in_hand, {plain_3, zeroed_2}, RULES},
    {"a block strays", one_that_strays, {grow_0_by_one, free_1}, RULES},
    {"a block strays, and an unknown one is looked for",
     one_that_strays,
     {grow_0_by_one, look_for_none},
     RULES},
    {"a block that strayed is freed", one_that_strays, {grow_and_free_0, free_1}, RULES},
    {"two make a larger table", two_in_a_small_table, {larger_table, plain_2}, RULES},
    {"the table grows under a resize and a request",
     two_in_a_small_table,
     {grow_0, zeroed_3},
     RULES},
    {"former slots become empty by a request and a free",
     three_in_a_grown_table,
     {zeroed_3, free_former},
     RULES},
    {"the same by two frees", three_in_a_grown_table, {free_0, free_1}, RULES},
    {"the same by a resize", three_in_a_grown_table, {grow_former, plain_3}, RULES},
    {"a table grows whose blocks are in hand", one_in_a_small_table, {grow_0, plain_2}, RULES},
    {"a block is freed twice at once",
     one_given_up,
     {known_free_of_0, known_free_of_0},
     RULES_OF_MISTAKES},
    {"a block is freed while it is resized, and the second free looks for it",
     one_given_up_that_moves,
     {grow_0_again, known_free_of_0},
     RULES_OF_MISTAKES},
    {"a block is freed while it is resized",
     one_given_up_that_moves,
     {grow_0_again, one_free_of_0, free_1},
     RULES_OF_MISTAKES},
    {"a fork beside a request", one_kept_and_a_fork, {fork_child, zeroed_3_long}, RULES_OF_FORK},
    {"a fork while kept pages come to a longer block",
     two_kept_and_a_fork,
     {fork_child, zeroed_2_long},
     RULES_OF_FORK},
    {"a fork beside a resize", two_and_a_fork, {fork_child, grow_0}, RULES_OF_FORK},
    {"a fork beside a purge and a free",
     three_and_a_fork,
     {fork_child, purge_all, free_0},
     RULES_OF_FORK},
    {"a fork beside a free that is not kept",
     none_kept_and_a_fork,
     {fork_child, free_0},
     RULES_OF_FORK},
    {"a fork, and its parent goes on", two_and_a_fork, {fork_parent, grow_0}, RULES},
    {"the same, and a free", none_kept_and_a_fork, {fork_parent, free_0}, RULES},
    /* Those with many states come last: most mutants are found before. */
    {"two requests and a free, with a limit",
     one_of_three_limited,
     {zeroed_2, zeroed_3, free_0},
     RULES},
    {"a resize, a request and a free", two_that_move, {grow_0, zeroed_2, free_1}, RULES},
    {"two requests, and a free", one_long_foreign, {zeroed_2, zeroed_3, free_0}, RULES},
};

int main(int argc, char **argv) {
    memory_track(&kernel, sizeof kernel);
    memory_track(hak_kept_parts, sizeof hak_kept_parts);
    memory_track(hak_huge_table, sizeof hak_huge_table);
    memory_track(&has_strays, sizeof has_strays);
    memory_track(&hak_huge_stats.moved, sizeof hak_huge_stats.moved);
    memory_track(places, sizeof places);
    memory_track(tables, sizeof tables);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
