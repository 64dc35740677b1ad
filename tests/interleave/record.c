/* record.c: explores the debug records of src/debug_record/record.h, on the real record.c.
 *
 *   record             every scenario must hold
 *   record --broken    the sources were broken on purpose: some scenario must fail */
#include "debug_record/record.h"

#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "meta/meta.h"
#include "options/environment.h"
#include "options/options.h"
#include "region/region.h"
#include "scenarios.h"
#include "trace.h"

enum { TABLE_WORDS = 1024, TABLES = 2, SIZE = 3000, OTHER_SIZE = 4000 };

static struct {
    hak_superslab_t super;
    _Atomic unsigned opened, closed;
} shared __attribute__((aligned(128)));

static _Atomic uint64_t tables[TABLES][TABLE_WORDS] __attribute__((aligned(64)));
static bool is_taken[TABLES];

/* Addresses only: nobody touches the blocks. */
#define HEAP ((char *)(uintptr_t)0x100000000000)
#define BLOCK (HEAP + 0x10000)
#define NEIGHBOUR (HEAP + 0x10c00)

/* ---- What records stand on ------------------------------------------------------------------- */

hak_map_t hak_map;

hak_unit_t *hak_region_unit_of(const void *addr) {
    (void)addr;
    explore_fail("a look beyond the only superslab");
}

hak_superslab_t *hak_region_superslab_of(const hak_unit_t *slab) {
    (void)slab;
    explore_fail("a look beyond the only superslab");
}

bool hak_options_loaded(void) { return true; }
int64_t hak_option(hak_option_t option) {
    EXPLORE_CHECK(option == HAK_OPTION_HDR_LIGHT || option == HAK_OPTION_HARDENED, "other options");
    return 0; /* full records, and not on the hardened path */
}

void *hak_meta_alloc(size_t size) {
    EXPLORE_CHECK(size == sizeof tables[0], "a table of %zu bytes", size);
    for (unsigned i = 0; i < TABLES; i++) {
        if (is_taken[i]) continue;
        is_taken[i] = true;
        return (void *)tables[i];
    }
    explore_fail("more than a table for each thread");
}

void hak_meta_free(void *block, size_t size) {
    (void)size;
    is_taken[block == (void *)tables[1]] = false;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(void) {
    gates_reset(false);
    hak_map.entries = (_Atomic uint16_t *)(void *)HEAP;
    hak_map.super_shift = 4;
    hak_map.unit_end = 16;
    hak_map.supers = (uintptr_t)&shared.super;
    atomic_store_explicit(&shared.super.records, NULL, memory_order_relaxed);
    atomic_store_explicit(&shared.opened, 0, memory_order_relaxed);
    atomic_store_explicit(&shared.closed, 0, memory_order_relaxed);
    for (unsigned i = 0; i < TABLES; i++) is_taken[i] = false;
    hak_records_settle();
}

static void open_block(const char *block, size_t size) {
    hak_record_open(block, size, block);
    hak_add_relaxed(&shared.opened, 1);
}

static void prepare_open(void) {
    prepare();
    open_block(BLOCK, SIZE);
}

static void open_one(void) { open_block(BLOCK, SIZE); }
static void open_neighbour(void) { open_block(NEIGHBOUR, OTHER_SIZE); }

static void close_one(void) {
    if (hak_record_close(BLOCK) == HAK_RECORD_IN_USE) hak_add_relaxed(&shared.closed, 1);
}

static unsigned tables_taken(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < TABLES; i++) count += is_taken[i];
    return count;
}

/* Each free that was let pass closed a record that somebody had opened. */
static void as_many_closed_as_opened(void) {
    unsigned in_use = hak_record_read(BLOCK).state == HAK_RECORD_IN_USE;
    EXPLORE_CHECK(shared.opened == shared.closed + in_use, "%u opened, %u closed, %u in use",
                  shared.opened, shared.closed, in_use);
}

static void both_are_there(void) {
    hak_record_t one = hak_record_read(BLOCK), other = hak_record_read(NEIGHBOUR);
    EXPLORE_CHECK(one.state == HAK_RECORD_IN_USE && one.size == SIZE && one.site == BLOCK,
                  "the first record is lost");
    EXPLORE_CHECK(other.state == HAK_RECORD_IN_USE && other.size == OTHER_SIZE,
                  "the second record is lost");
    EXPLORE_CHECK(tables_taken() == 1 && hak_record_bytes() % sizeof tables[0] == 0,
                  "%u tables for one superslab", tables_taken());
}

/* The child of a fork has the table, or its memory is free. */
static void prepare_fork(void) {
    prepare();
    gates_reset(true);
}
static void fork_beside(void) {
    gates_fork();
    EXPLORE_CHECK(tables_taken() == (atomic_load(&shared.super.records) != NULL),
                  "the child has lost a table");
}

static const char *describe(const volatile void *variable) {
    return variable == &shared.super.records ? "the superslab's table" : NULL;
}

#define COUNTED .finally = as_many_closed_as_opened, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"two frees of one block", prepare_open, {close_one, close_one}, COUNTED},
    {"three frees of one block", prepare_open, {close_one, close_one, close_one}, COUNTED},
    {"the first two blocks of a superslab",
     prepare,
     {open_one, open_neighbour},
     .finally = both_are_there,
     .describe = describe},
    {"a first block beside a fork", prepare_fork, {open_one, fork_beside}, .describe = describe},
};

int main(int argc, char **argv) {
    memory_track(&shared, sizeof shared);
    for (unsigned i = 0; i < TABLES; i++) { /* the lines that the two blocks' records lie in */
        unsigned span = (unsigned)((uintptr_t)BLOCK >> 11) % (TABLE_WORDS / 2);
        trace_holds(tables[i], sizeof tables[i], "hak_superslab.records[]");
        memory_track(&tables[i][span], HAK_LINE);
        memory_track(&tables[i][TABLE_WORDS / 2 + span], HAK_LINE);
    }
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
