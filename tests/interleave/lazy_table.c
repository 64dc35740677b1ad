/* lazy_table.c: explores the protocol of src/meta/lazy_table.h, on the real lazy_table.c.
 *
 *   made             every scenario must hold
 *   made --broken    the sources were broken on purpose: some scenario must fail */
#include "meta/lazy_table.h"

#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "meta/meta.h"
#include "scenarios.h"
#include "trace.h"

enum { RECORDS = 3, FIRST = 0, SECOND = 1, THIRD = 2 };

typedef struct {
    unsigned zero;         /* written by the maker only, before anybody else knows of the record */
    _Atomic unsigned used; /* threads that have opened it */
} HAK_ALIGNED(HAK_LINE) record_t;

static hak_lazy_table_t table;
static record_t records[RECORDS], own;
static bool is_taken[RECORDS];
static struct {
    _Atomic unsigned opened; /* a thread has the second record, and uses it */
} HAK_ALIGNED(HAK_LINE) shared;

/* ---- What the table stands on ---------------------------------------------------------------- */

void *hak_meta_alloc_zeroed(size_t size) {
    EXPLORE_CHECK(size == sizeof(record_t), "a record of %zu bytes", size);
    for (unsigned i = 0; i < RECORDS; i++) {
        if (is_taken[i]) continue;
        is_taken[i] = true;
        memory_write(&records[i].zero, sizeof records[i].zero);
        records[i].zero = 0;
        return &records[i];
    }
    return NULL;
}

/* Only from there the next record comes; what is given back otherwise stays taken. */
void hak_meta_free(void *block, size_t size) { memory_forbid(block, size); }

void hak_meta_free_zeroed(void *block, size_t size) {
    EXPLORE_CHECK(block != (void *)&own, "static memory is given back");
    memory_forbid(block, size);
    is_taken[(record_t *)block - records] = false;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare(void) {
    gates_reset(false);
    atomic_store_explicit(&table.end, 0, memory_order_relaxed);
    for (unsigned i = 0; i <= THIRD; i++)
        atomic_store_explicit(&table.places[i], NULL, memory_order_relaxed);
    for (unsigned i = 0; i < RECORDS; i++) {
        is_taken[i] = false;
        atomic_store_explicit(&records[i].used, 0, memory_order_relaxed);
    }
    atomic_store_explicit(&own.used, 0, memory_order_relaxed);
    atomic_store_explicit(&shared.opened, 0, memory_order_relaxed);
}

static void use(record_t *record) {
    memory_read(&record->zero, sizeof record->zero);
    EXPLORE_CHECK(record->zero == 0, "a record with something in it");
    hak_add_relaxed(&record->used, 1);
}

static void open_number(unsigned number, void *memory) {
    record_t *record = hak_lazy_table_open(&table, number, memory, sizeof(record_t));
    EXPLORE_CHECK(record != NULL, "no record, with memory left");
    use(record);
}

static void open_own(void) { open_number(FIRST, &own); }
static void open_third(void) { open_number(THIRD, NULL); }
static void open_second(void) {
    open_number(SECOND, NULL);
    hak_store_release(&shared.opened, 1);
}

static void look(void) {
    record_t *record = hak_lazy_table_at(&table, SECOND);
    if (record) use(record);
}

/* Whoever is told of a record finds it. */
static void walk(void) {
    bool told = hak_load_acquire(&shared.opened), found = false;
    for (unsigned i = hak_lazy_table_next(&table, 0); i <= THIRD;
         i = hak_lazy_table_next(&table, i + 1)) {
        memory_read(&((record_t *)hak_lazy_table_at(&table, i))->zero, sizeof(unsigned));
        found |= i == SECOND;
    }
    EXPLORE_CHECK(found || !told, "a walk passes over a record in use");
}

static unsigned taken(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < RECORDS; i++) count += is_taken[i];
    return count;
}

/* In the child of a fork a record is in the table, or its memory is free. */
static void prepare_fork(void) {
    prepare();
    gates_reset(true);
}
static void fork_beside(void) {
    gates_fork();
    EXPLORE_CHECK(taken() == (hak_lazy_table_at(&table, SECOND) != NULL),
                  "the child has lost the memory of a record");
}

static record_t *record_at(unsigned number) { return hak_lazy_table_at(&table, number); }

static void both_have_one(void) {
    EXPLORE_CHECK(taken() == 1 && record_at(SECOND)->used == 2, "%u records, %u use the one",
                  taken(), record_at(SECOND)->used);
    EXPLORE_CHECK(hak_lazy_table_after(&table, SECOND) == SECOND, "a second record is made");
}

static void both_have_own(void) {
    EXPLORE_CHECK(taken() == 0 && own.used == 2, "%u records, %u use the own one", taken(),
                  own.used);
}

static void both_are_found(void) {
    EXPLORE_CHECK(hak_lazy_table_next(&table, 0) == SECOND &&
                      hak_lazy_table_after(&table, SECOND) == THIRD &&
                      hak_lazy_table_after(&table, THIRD) == SECOND,
                  "a walk passes over a record");
}

static const char *describe(const volatile void *variable) {
    return variable == &table.end              ? "end"
           : variable == &table.places[SECOND] ? "the second place"
           : variable == &shared.opened        ? "the word that tells"
                                               : NULL;
}

static const explore_scenario_t scenarios[] = {
    {"two threads open a record",
     prepare,
     {open_second, open_second},
     .finally = both_have_one,
     .describe = describe},
    {"two threads open a record of static memory",
     prepare,
     {open_own, open_own},
     .finally = both_have_own,
     .describe = describe},
    {"a look at a record that is made", prepare, {open_second, look}, .describe = describe},
    {"two threads open a record, a third one walks",
     prepare,
     {open_second, open_second, walk},
     .finally = both_have_one,
     .describe = describe},
    {"two records are made at once",
     prepare,
     {open_second, open_third},
     .finally = both_are_found,
     .describe = describe},
    {"a record is made beside a fork",
     prepare_fork,
     {open_second, fork_beside},
     .describe = describe},
};

int main(int argc, char **argv) {
    memory_track(&table, HAK_LINE);
    memory_track(records, sizeof records);
    memory_track(&own, sizeof own);
    memory_track(&shared, sizeof shared);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
