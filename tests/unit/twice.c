/* twice.c: of several blocks that one call finds free already, each is reported. The program itself lives on shard 0; the
 * tests work on shards 2 and 3. */
#include "shard_batches.h"

#include <stdio.h>

#include "cache/cpu_depot.h"

enum { SMALL = 5, FOUR = 63, SHARE = 32 * 1024, WORDS = 3 };

/* One block in each of the first words of a slab, and two in the last of these. */
static void take_strewn(void **strewn) {
    CHECK(hak_shard_take(HOME, SMALL, 1023, top, NULL) == 1023, "no slab of small blocks");
    hak_unit_t *slab = slab_of(top[1]);
    for (unsigned i = 0; i < WORDS; i++)
        strewn[i] = hak_slab_first(slab, &hak_classes[SMALL]) + (size_t)64 * i * 64;
    strewn[WORDS] = (char *)strewn[WORDS - 1] + 64;
}

static void flush_twice(unsigned first, unsigned second) {
    void *strewn[WORDS + 1];
    take_strewn(strewn);
    hak_shard_flush(first, SMALL, strewn, WORDS + 1);
    if (first != HOME) hak_shard_release_idle();
    hak_shard_flush(second, SMALL, strewn, WORDS + 1);
    hak_shard_release_idle();
    const hak_unit_t *slab = slab_of(strewn[0]);
    CHECK(slab->free_count == WORDS + 2, "%u blocks are free", slab->free_count);
    check_slab(slab);
}

static void at_home(const void *unused) {
    (void)unused;
    flush_twice(HOME, HOME);
}
static void from_afar(const void *unused) {
    (void)unused;
    flush_twice(AWAY, AWAY);
}
static void from_both(const void *unused) {
    (void)unused;
    flush_twice(AWAY, HOME);
}

/* Each block comes back once and again before a drain looks. */
static void among_others(const void *unused) {
    (void)unused;
    void *strewn[WORDS + 1], *batch[3 * (WORDS + 1)];
    take_strewn(strewn);
    for (unsigned i = 0; i <= WORDS; i++) {
        batch[3 * i] = batch[3 * i + 1] = strewn[i];
        batch[3 * i + 2] = (char *)strewn[i] + 10 * 64;
    }
    hak_shard_flush(HOME, SMALL, batch, 3 * (WORDS + 1));
    CHECK(slab_of(batch[0])->free_count == 2 * (WORDS + 1) + 1, "%u blocks are free",
          slab_of(batch[0])->free_count);
}

/* Blocks of slabs that have colours. */
static void with_colours(const void *unused) {
    (void)unused;
    void *blocks[8];
    for (unsigned i = 0; i < 8; i++)
        CHECK(hak_shard_take(HOME, FOUR, 1, top, NULL) == 1 && (blocks[i] = top[1]), "no block");
    CHECK(slab_of(blocks[0]) != slab_of(blocks[7]), "one slab");
    void *batch[] = {blocks[0], blocks[1], blocks[0], blocks[1], blocks[7], blocks[6], blocks[7]};
    fprintf(stderr, "%p %p %p\n", blocks[0], blocks[1], blocks[7]);
    hak_shard_flush(HOME, FOUR, batch, 7);
}

/* Threads without a cache leave the gate before anything is told. */
static void in_a_depot(const void *unused) {
    (void)unused;
    void *strewn[WORDS + 1];
    take_strewn(strewn);
    hak_depot_set_share(SHARE, true);
    for (unsigned i = 0; i < 2; i++)
        CHECK(hak_depot_put(SMALL, strewn, WORDS + 1) == WORDS + 1, "no depot");
    hak_walk_t walk = {0};
    hak_budget_t budget = HAK_BUDGET_ALL;
    unsigned patience = 0;
    CHECK(hak_depot_sweep(&walk, true, &patience, &budget), "the sweep has no end");
}

static const struct {
    const char *what;
    void (*run)(const void *);
    unsigned reports;
} rows[] = {{"at home", at_home, WORDS + 1},
            {"from afar", from_afar, WORDS + 1},
            {"from afar and at home", from_both, WORDS + 1},
            {"among others", among_others, WORDS + 1},
            {"with colours", with_colours, 3},
            {"in a depot", in_a_depot, WORDS + 1}};

static unsigned count_of(const char *text, const char *part) {
    unsigned count = 0;
    for (; (text = strstr(text, part)) != NULL; text++) count++;
    return count;
}

static void each_is_reported(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct child_end end;
        void *blocks[3];
        child_run(rows[i].run, NULL, SECONDS, &end);
        REQUIRE(end.in_time && end.status == 0, "%s: status %#x, %s", rows[i].what,
                (unsigned)end.status, end.err);
        const unsigned reports = count_of(end.err, "free(): double free: ");
        REQUIRE(reports == rows[i].reports, "%s: %u reports, not %u: %s", rows[i].what, reports,
                rows[i].reports, end.err);
        if (sscanf(end.err, "%p %p %p\n", &blocks[0], &blocks[1], &blocks[2]) != 3) continue;
        for (unsigned k = 0; k < 3; k++) {
            char name[40];
            snprintf(name, sizeof name, "double free: %p is", blocks[k]);
            REQUIRE(count_of(end.err, name) == 1, "%s: no line on %p: %s", rows[i].what, blocks[k],
                    end.err);
        }
    }
}

int main(int argc, char **argv) {
    (void)argc;
    begin_with_four_shards(argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_reported)};
    return cmocka_run_group_tests_name("twice", tests, NULL, NULL);
}
