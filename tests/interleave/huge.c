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

/* Apart, so that the statistics, which are written under the lock, make no steps. */
#include "large/huge.h"
#include "../support/purge.h"
extern hak_lock_t hak_huge_lock HAK_ALIGNED(64);
extern hak_huge_stats_t hak_huge_stats HAK_ALIGNED(64);

static void zero_block(char *start, size_t size);
#define memset(to, value, size) zero_block(to, size) /* of a block: its contents are a model */
#include "large/huge.c" /* its words are its own, and have to be tracked */
#undef memset
#define count kept_count
#include "large/reuse.c"
#undef count
#include "large/mappings.c"

enum {
    UNITS = 14,
    UNIT = 1 << 20, /* the least that is lengthened */
    BLOCKS = 5,
    TABLES = 6,
    TABLE_SLOTS = 16,
};

typedef enum { HOLE, OURS, FOREIGN } unit_kind_t;

typedef struct {
    unit_kind_t kind;
    unsigned contents; /* 0: zero */
    unsigned holder;   /* 0, or the block's number plus 1 */
} unit_t;

/* The system's, and what a scenario sets. In lines of its own: it is no part of what is checked. */
static struct HAK_ALIGNED(64) {
    unit_t units[UNITS];
    bool moves;              /* what is lengthened moves always */
    unsigned refused_remaps; /* the first ones */
    unsigned refused_unmaps;
    bool moves_several;
    unsigned refused_moves;
    unsigned foreign;        /* ranges that another library takes when they are given back */
    int64_t cache;           /* HUGE_CACHE */
    size_t committed, limit; /* 0: none */
    bool may_refuse;         /* requests */
    bool forked;
    unsigned tables; /* made so far */
} model;

static struct {
    uint64_t calls; /* of the system */
    char rest[56];
    uint64_t charges; /* and releases, where there is a limit */
    char rest_of_line[56];
} kernel HAK_ALIGNED(64);

static hak_mapping_t tables[TABLES][TABLE_SLOTS] HAK_ALIGNED(64);

_Atomic uint32_t hak_budget_notes HAK_ALIGNED(64); /* for whoever purges next */
void hak_tick_hurry(void) {}                       /* who has noted looks at the end of its call */

/* The program's. */
static struct {
    char *start;
    unsigned units;
} blocks[BLOCKS];

/* ---- The system ------------------------------------------------------------------------------ */

static char *address_of(unsigned unit) {
    return (char *)((uintptr_t)1 << 40) + unit * (size_t)UNIT;
}

static unsigned unit_of(const char *address) {
    return (unsigned)((size_t)(address - address_of(0)) / UNIT);
}

/* A step that orders no memory: nothing may rely on the kernel for that. */
static __attribute__((no_sanitize("thread"))) void step(uint64_t *calls, const char *name) {
    memory_atomic_begin(calls, sizeof *calls);
    uint64_t before = (*calls)++;
    memory_atomic_end(calls, name, true, true, __ATOMIC_RELAXED, before, *calls);
}

static void call(const char *name) { step(&kernel.calls, name); }

static bool refuses(unsigned *left) {
    if (*left) return (*left)--, true;
    return false;
}

/* The units of a range, each of which must be ours. */
static void check_ours(const char *what, const char *start, size_t size) {
    EXPLORE_CHECK(size > 0 && size % UNIT == 0 && unit_of(start) + size / UNIT <= UNITS,
                  "%s of %zu bytes at unit %u", what, size, unit_of(start));
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++)
        EXPLORE_CHECK(model.units[i].kind == OURS, "%s of unit %u, which is %s", what, i,
                      model.units[i].kind == HOLE ? "a hole" : "another library's");
}

static bool is_hole(unsigned first, size_t length) {
    if (first + length > UNITS) return false;
    for (unsigned i = first; i < first + length; i++)
        if (model.units[i].kind != HOLE) return false;
    return true;
}

static unsigned find_hole(size_t length) {
    unsigned first = 0;
    while (first < UNITS && !is_hole(first, length)) first++;
    return first;
}

static void set(unsigned first, size_t length, unit_t unit) {
    for (unsigned i = first; i < first + length; i++) model.units[i] = unit;
}

static void give_back(unsigned first, size_t length) {
    bool taken = model.foreign > 0 && explore_choose(2);
    model.foreign -= taken;
    set(first, length, (unit_t){taken ? FOREIGN : HOLE, 0, 0});
}

void *hak_os_map(size_t size, size_t align) {
    (void)align;
    call("map");
    unsigned first = find_hole(size / UNIT);
    if (first == UNITS) return NULL;
    set(first, size / UNIT, (unit_t){OURS, 0, 0});
    return address_of(first);
}

bool hak_os_unmap(void *start, size_t size) {
    call("unmap");
    check_ours("an unmap", start, size);
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++)
        EXPLORE_CHECK(!model.units[i].holder, "unit %u is unmapped, a block of the program", i);
    if (refuses(&model.refused_unmaps)) return false;
    give_back(unit_of(start), size / UNIT);
    return true;
}

static void move_units(unsigned from, size_t length, unsigned to) {
    for (unsigned i = 0; i < length; i++) model.units[to + i] = model.units[from + i];
    give_back(from, length);
}

void *hak_os_remap(void *start, size_t old_size, size_t size, bool may_move) {
    unsigned first = unit_of(start);
    size_t old_length = old_size / UNIT, length = size / UNIT;
    call("remap");
    check_ours("a remap", start, old_size);
    if (refuses(&model.refused_remaps)) return NULL;
    if (length < old_length) give_back(first + (unsigned)length, old_length - length);
    if (length <= old_length) return start;
    if (!model.moves && is_hole(first + (unsigned)old_length, length - old_length)) {
        set(first + (unsigned)old_length, length - old_length, (unit_t){OURS, 0, 0});
        return start;
    }
    unsigned to = find_hole(length);
    if (to == UNITS || !may_move) return NULL;
    set(to, length, (unit_t){OURS, 0, 0});
    move_units(first, old_length, to);
    return address_of(to);
}

bool hak_os_moves_several(void) { return model.moves_several; }

/* One that is refused loses its target. */
bool hak_os_move(void *start, size_t size, void *to) {
    call("move");
    check_ours("a move", start, size);
    check_ours("the target of a move", to, size);
    if (refuses(&model.refused_moves)) {
        give_back(unit_of(to), size / UNIT);
        return false;
    }
    move_units(unit_of(start), size / UNIT, unit_of(to));
    return true;
}

bool hak_os_purge(void *start, size_t size) {
    call("purge");
    check_ours("a purge", start, size);
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++)
        model.units[i].contents = 0;
    return true;
}

void hak_os_name(void *start, size_t size, const char *name) {
    (void)start, (void)size, (void)name;
}
size_t hak_os_page_size(void) { return 4096; }
uint64_t hak_os_now_ms(void) { return 1000; }
uint64_t hak_os_now_ns(void) { return 0; } /* of the debug build's times, which are off */

bool hak_commit_charge(size_t bytes_more) {
    if (model.limit) step(&kernel.charges, "charge");
    if (model.limit && bytes_more > model.limit - model.committed) return false;
    model.committed += bytes_more;
    return true;
}

void hak_commit_release(size_t bytes_less) {
    if (model.limit) step(&kernel.charges, "release");
    EXPLORE_CHECK(bytes_less <= model.committed, "%zu bytes are released of %zu", bytes_less,
                  model.committed);
    model.committed -= bytes_less;
}

int64_t hak_option(hak_option_t option) {
    return option == HAK_OPTION_HUGE_CACHE ? model.cache : 0;
}

/* Tables, and places for more stretches, for which there is no memory. */
void *hak_meta_alloc(size_t size) {
    if (size > sizeof tables[0]) return NULL;
    call("records");
    EXPLORE_CHECK(model.tables < TABLES, "too many tables");
    return tables[model.tables++];
}
void hak_meta_free(void *block, size_t size) { (void)block, (void)size; }

static void zero_block(char *start, size_t size) {
    if (size) check_ours("zeroing", start, size);
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++) {
        EXPLORE_CHECK(!model.units[i].holder, "unit %u of another block is zeroed", i);
        model.units[i].contents = 0;
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

static void check_contents(unsigned block) {
    for (unsigned i = 0; i < blocks[block].units; i++) {
        const unit_t *unit = &model.units[unit_of(blocks[block].start) + i];
        EXPLORE_CHECK(unit->kind == OURS && unit->holder == block + 1 &&
                          unit->contents == block + 1,
                      "unit %u of block %u has lost its contents", i, block);
    }
}

static void take_units(unsigned block, char *start, unsigned length, bool zeroed) {
    check_ours("a block", start, length * (size_t)UNIT);
    for (unsigned i = unit_of(start); i < unit_of(start) + length; i++) {
        unit_t *unit = &model.units[i];
        EXPLORE_CHECK(!unit->holder || unit->holder == block + 1, "unit %u is handed out twice", i);
        EXPLORE_CHECK(!zeroed || unit->contents == 0, "unit %u of a zeroed block is not", i);
        unit->holder = unit->contents = block + 1;
    }
    blocks[block].start = start;
    blocks[block].units = length;
}

static void leave_units(unsigned block, unsigned from) {
    for (unsigned i = from; i < blocks[block].units; i++)
        model.units[unit_of(blocks[block].start) + i].holder = 0;
    blocks[block].units = from;
}

static void make(unsigned block, unsigned length, bool zeroed) {
    char *start = hak_huge_alloc(length * (size_t)UNIT, 1, zeroed);
    EXPLORE_CHECK(start || model.may_refuse, "no memory for block %u", block);
    if (start) take_units(block, start, length, zeroed);
}

static void release(unsigned block) {
    if (!blocks[block].units) return;
    size_t size = blocks[block].units * (size_t)UNIT;
    check_contents(block);
    leave_units(block, 0);
    EXPLORE_CHECK(hak_huge_free(blocks[block].start) == size, "block %u is unknown", block);
}

static void resize(unsigned block, unsigned length) {
    unsigned old_length = blocks[block].units;
    char *start = blocks[block].start;
    check_contents(block);
    if (length < old_length) leave_units(block, length);
    start = hak_huge_resize(start, length * (size_t)UNIT);
    EXPLORE_CHECK(start || model.may_refuse, "block %u is not resized", block);
    if (!start) return check_contents(block);
    blocks[block].start = start;
    check_contents(block); /* what it had */
    take_units(block, start, length, false);
}

/* ---- What must hold -------------------------------------------------------------------------- */

static __attribute__((no_sanitize("thread"))) void see(unsigned char *seen, const char *start,
                                                       size_t size, const char *what) {
    EXPLORE_CHECK(unit_of(start) + size / UNIT <= UNITS, "%s at unit %u", what, unit_of(start));
    for (unsigned i = unit_of(start); i < unit_of(start) + size / UNIT; i++) {
        EXPLORE_CHECK(model.units[i].kind == OURS, "%s has unit %u, which is not ours", what, i);
        EXPLORE_CHECK(!seen[i]++, "unit %u is in two places", i);
    }
}

static __attribute__((no_sanitize("thread"))) void see_table(unsigned char *seen,
                                                             const table_t *table) {
    for (size_t i = 0; table->used && i < table->size; i++)
        if (table->slots[i].start)
            see(seen, (const char *)table->slots[i].start, table->slots[i].size, "a block");
}

/* While nobody has the lock, what is known is ours, and in one place. */
static __attribute__((no_sanitize("thread"))) unsigned look(unsigned char *seen) {
    size_t kept_sum = 0;
    unsigned sum = 0;
    see_table(seen, &current);
    see_table(seen, &former);
    for (unsigned i = 0; i < kept_count; i++) {
        see(seen, kept[i].start, kept[i].size, "a kept stretch");
        kept_sum += kept[i].size;
    }
    EXPLORE_CHECK(kept_sum == bytes, "%zu bytes are kept, counted %zu", kept_sum, bytes);
    for (unsigned i = 0; i < UNITS; i++) sum += seen[i];
    return sum;
}

static __attribute__((no_sanitize("thread"))) void always(void) {
    unsigned char seen[UNITS] = {0};
    if (*(volatile uint32_t *)&hak_huge_lock.state == 0) look(seen);
}

/* Everything is known, and counted; then everything that is kept goes back. */
static void finally(void) {
    unsigned char seen[UNITS] = {0};
    unsigned known = look(seen), ours = 0, held = 0, live = 0;
    for (unsigned i = 0; i < UNITS; i++) {
        ours += model.units[i].kind == OURS;
        held += model.units[i].holder != 0;
        EXPLORE_CHECK(model.units[i].kind != FOREIGN || model.units[i].contents == 0,
                      "another library's unit %u is changed", i);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i].units) check_contents(i);
        live += blocks[i].units > 0;
    }
    EXPLORE_CHECK(known == ours, "%u units are ours, %u are known", ours, known);
    EXPLORE_CHECK(model.committed == ours * (size_t)UNIT, "%zu bytes are charged for %u units",
                  model.committed, ours);
    EXPLORE_CHECK(hak_huge_stats.block_count == live && hak_huge_stats.bytes == held * (size_t)UNIT,
                  "%zu blocks of %zu bytes", (size_t)hak_huge_stats.block_count,
                  (size_t)hak_huge_stats.bytes);
    EXPLORE_CHECK(hak_huge_stats.kept_bytes == bytes, "%zu bytes kept in the statistics",
                  (size_t)hak_huge_stats.kept_bytes);
    EXPLORE_CHECK(in_hand == 0, "%zu blocks are in hand", in_hand);
    hak_store_relaxed(&hak_huge_stats.mapped, 1);
    while (purge_huge(0)) {
    }
    EXPLORE_CHECK(bytes == 0 && model.committed == held * (size_t)UNIT, "%zu bytes stay", bytes);
    for (unsigned i = 0; i < BLOCKS; i++) release(i);
}

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
    current = former = (table_t){0};
    next_out = in_hand = 0;
    kept = first_kept;
    kept_count = 0;
    most = HAK_REUSE_MAX;
    bytes = recent_peak = 0;
    sunk_ms = allocated_ms = 0;
    hak_store_relaxed(&hak_budget_notes, 0);
    hak_lock_reset(&hak_huge_lock);
    gates_reset(false);
}

static void begin(void) {
    begin_with_a_small_table();
    hak_mappings_use(tables[model.tables++], TABLE_SLOTS);
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

static void two_in_a_small_table(void) {
    begin_with_a_small_table();
    make(0, 2, false);
    make(1, 1, false);
    model.moves = true;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void free_0(void) { release(0); }
static void free_1(void) { release(1); }
static void zeroed_2(void) { make(2, 2, true); }
static void zeroed_3(void) { make(3, 1, true); }
static void zeroed_3_long(void) { make(3, 3, true); }
static void plain_2(void) { make(2, 1, false); }
static void larger_table(void) { EXPLORE_CHECK(make_room(), "no memory for a table"); }
static void grow_0(void) { resize(0, 4); }
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
static void free_0_again(void) { ends += hak_huge_free(blocks[0].start) != 0; }
static void grow_0_again(void) {
    char *start = hak_huge_resize(blocks[0].start, 4 * (size_t)UNIT);
    if (start) ends += hak_huge_free(start) != 0;
}
static void finally_freed(void) {
    finally();
    EXPLORE_CHECK(ends == 1, "%u ends of a block are right", ends);
}

/* In the child, where nobody else is: what is mapped is known. */
static void fork_child(void) {
    gates_fork();
    EXPLORE_CHECK(hak_huge_lock.state == 0, "the child has a lock that is held");
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
    EXPLORE_CHECK(bytes == 0, "%zu bytes stay in the child", bytes);
}

static void finally_forked(void) { EXPLORE_CHECK(model.forked, "no child"); }

/* In the parent everything goes on. */
static void fork_parent(void) {
    gates_close();
    EXPLORE_CHECK(in_hand == 0 && hak_huge_lock.state == 0, "a fork while a block is in hand");
    gates_open();
}

static void one_kept_and_a_fork(void) {
    one_kept_that_moves();
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
    return variable == &hak_huge_lock           ? "the lock"
           : variable == &kernel.calls          ? "the system"
           : variable == &kernel.charges        ? "the limit"
           : variable == &kept_count            ? "the count of kept stretches"
           : variable == &hak_huge_stats.mapped ? "the count of mappings"
           : variable == &bytes                 ? "the bytes kept"
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
     {zeroed_3_long, free_0},
     RULES},
    {"the same, refused", one_kept_refused, {zeroed_3_long, free_0}, RULES},
    {"the same, refused half-way", one_kept_refused_move, {zeroed_3_long, free_0}, RULES},
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
    {"two make a larger table", two_in_a_small_table, {larger_table, plain_2}, RULES},
    {"the table grows under a resize and a request",
     two_in_a_small_table,
     {grow_0, zeroed_3},
     RULES},
    {"a block is freed twice at once",
     one_given_up,
     {free_0_again, free_0_again},
     RULES_OF_MISTAKES},
    {"a block is freed while it is resized",
     one_given_up_that_moves,
     {grow_0_again, free_0_again, free_1},
     RULES_OF_MISTAKES},
    {"a fork beside a request", one_kept_and_a_fork, {fork_child, zeroed_3_long}, RULES_OF_FORK},
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
    memory_track(&hak_huge_lock, sizeof hak_huge_lock);
    memory_track(&kernel, sizeof kernel);
    memory_track(&recent_peak, sizeof recent_peak);
    memory_track(&sunk_ms, sizeof sunk_ms);
    memory_track(&allocated_ms, sizeof allocated_ms);
    memory_track(&kept, sizeof kept);
    memory_track(&kept_count, sizeof kept_count);
    memory_track(&most, sizeof most);
    memory_track(&bytes, sizeof bytes);
    memory_track(first_kept, sizeof first_kept);
    memory_track(&current, sizeof current);
    memory_track(&former, sizeof former);
    memory_track(&next_out, sizeof next_out);
    memory_track(&in_hand, sizeof in_hand);
    memory_track(tables, sizeof tables);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
