/* twice.c: what is freed twice, or was never allocated, is reported: one block, and of several that one call finds free
 * already each. The program itself lives on shard 0; the tests work on shards 2 and 3. */
#include "cache/cache.h" /* before a global `top` */

#include "shard_batches.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

#include "cache/cpu_depot.h"
#include "cache/idle.h"
#include "hakmem.h"
#include "shard/remote.h"

enum {
    SMALLEST = HAK_CLASS_8,
    SMALL = HAK_CLASS_64,
    FOUR = HAK_CLASS_14336,
    SHARE = 32 * 1024,
    WORDS = 3,
    SLABS = 3,
    CALLER = 0, /* the shard of this thread's CPU */
};

/* ---- Several blocks ------------------------------------------------------------------------------- */

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

/* All 64 blocks of a word, one of them again, and some of the next word. */
static void behind_a_word(const void *unused) {
    (void)unused;
    enum { NEXT = 10 };
    char *batch[64 + 1 + NEXT];
    CHECK(hak_shard_take(HOME, SMALL, 1023, top, NULL) == 1023, "no slab of small blocks");
    hak_unit_t *slab = slab_of(top[1]);
    char *first = hak_slab_first(slab, &hak_classes[SMALL]);
    for (size_t i = 0; i < 64; i++) batch[i] = first + 64 * (i * 5 % 64);
    batch[64] = batch[3];
    for (size_t i = 64; i < 64 + NEXT; i++) batch[1 + i] = first + 64 * i;
    hak_shard_flush(HOME, SMALL, (void **)batch, 64 + 1 + NEXT);
    CHECK(slab->free_count == 64 + NEXT + 1, "%u blocks are free", slab->free_count);
    check_slab(slab);
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
        CHECK(hak_depot_put(hak_shard_here(), SMALL, strewn, WORDS + 1) == WORDS + 1, "no depot");
    hak_walk_t walk = {0};
    hak_budget_t budget = HAK_BUDGET_ALL;
    unsigned patience = 0;
    CHECK(hak_depot_sweep(&walk, true, &patience, &budget), "the sweep has no end");
}

/* A free block of each of three slabs is freed again. The drain meets the first one, and the take behind it begins with the
 * third one, and ends there. */
static void out_of_a_depot(const void *unused) {
    (void)unused;
    void *blocks[SLABS];
    hak_depot_set_share(SHARE, true);
    for (unsigned i = 0; i < SLABS; i++) {
        CHECK(hak_shard_take(CALLER, FOUR, 4, top, NULL) == 4, "no slab of four blocks");
        blocks[i] = top[1];
    }
    for (unsigned i = 0; i < SLABS; i++) hak_shard_flush(CALLER, FOUR, &blocks[i], 1);
    for (unsigned i = SLABS; i; i--) hak_shard_flush(AWAY, FOUR, &blocks[i - 1], 1);
    CHECK(hak_depot_get(FOUR), "no block, though some are free");
    hak_shard_release_idle();
}

/* One of the two frees has given back the block's slab, which then got another class, while the block of the other free
 * waited in a magazine. In the debug build the check after the next slow call of the magazine meets it, in others its
 * flush. */
static void in_a_magazine(const void *unused) {
    (void)unused;
    enum { FREED = 400 };
    void *freed[FREED];
    hakmem_free(hakmem_malloc(1000)); /* from now on the thread has a cache */
    CHECK(hak_shard_take(HOME, SMALL, 1, top, NULL) == 1, "no block");
    void *block = top[1];
    hakmem_free(block);
    hak_shard_flush(HOME, SMALL, &block, 1);
    release_all();
    CHECK(hak_shard_take(HOME, FOUR, 1, top, NULL) == 1, "no block of the other class");
    CHECK(hak_owner_class(slab_of(block)->owner) == FOUR, "another unit got the class");
    CHECK(hak_cache->magazines[SMALL].base[1] == block, "the block is not in the magazine");
    for (unsigned i = 0; i < FREED; i++) {
        CHECK(hak_shard_take(HOME, SMALL, 1, top, NULL) == 1, "no block");
        freed[i] = top[1];
    }
    /* The next slow call doubles the stack, and the check after it looks at the oldest block. */
    hak_cache->streak[SMALL] = 1;
    hak_cache->slow_count = UINT32_MAX;
    for (unsigned i = 0; i < FREED; i++) hakmem_free(freed[i]);
    hak_cache_flush_all(hak_cache);
    CHECK(hakmem_verify() == 0, "a violation");
}

static const struct {
    const char *what;
    void (*run)(const void *);
    unsigned reports;
} rows[] = {{"at home", at_home, WORDS + 1},
            {"from afar", from_afar, WORDS + 1},
            {"from afar and at home", from_both, WORDS + 1},
            {"among others", among_others, WORDS + 1},
            {"behind a word", behind_a_word, 1},
            {"with colours", with_colours, 3},
            {"in a depot", in_a_depot, WORDS + 1},
            {"out of a depot", out_of_a_depot, SLABS},
            {"in a magazine", in_a_magazine, 1}};

static sigjmp_buf back;

static void jump_back(int signal_number) {
    (void)signal_number;
    siglongjmp(back, 1);
}

static void jump_at_a_report(void) {
    CHECK(hakmem_option_set("HAKMEM_ON_ERROR", "abort") == 0, "the option cannot be set");
    signal(SIGABRT, jump_back);
}

static void out_of_a_flush(const void *unused) {
    (void)unused;
    CHECK(hak_shard_take(HOME, FOUR, 4, top, NULL) == 4, "no slab of four blocks");
    void *batch[] = {top[1], top[2], top[1], top[3], top[2], top[4]};
    const hak_unit_t *slab = slab_of(top[1]);
    jump_at_a_report();
    if (sigsetjmp(back, 1) == 0) {
        hak_shard_flush(HOME, FOUR, batch, 6);
        CHECK(false, "nothing was reported");
    }
    CHECK(slab->free_count == 4, "%u of 4 blocks are free", slab->free_count);
    check_slab(slab);
}

/* Of a slab of four free blocks that belongs to `home`, one was freed again from afar: a take drains the bin, and finds
 * that. Returns the slab. */
static const hak_unit_t *free_one_twice(unsigned home) {
    void *blocks[4];
    CHECK(hak_shard_take(home, FOUR, 4, top, NULL) == 4, "no slab of four blocks");
    memcpy(blocks, top + 1, sizeof blocks);
    void *again = blocks[0];
    hak_shard_flush(home, FOUR, blocks, 4);
    hak_shard_flush(AWAY, FOUR, &again, 1);
    return slab_of(again);
}

static void out_of_a_take(const void *unused) {
    (void)unused;
    const hak_unit_t *slab = free_one_twice(HOME);
    jump_at_a_report();
    if (sigsetjmp(back, 1) == 0) {
        hak_shard_take(HOME, FOUR, 2, top, NULL);
        CHECK(false, "nothing was reported");
    }
    CHECK(slab->free_count == 4, "%u of 4 blocks are free", slab->free_count);
    check_slab(slab);
}

/* The same by a thread without a cache, which takes from a depot that is empty: one block is in its hands. */
static void out_of_a_get(const void *unused) {
    (void)unused;
    hak_depot_set_share(SHARE, true);
    const hak_unit_t *slab = free_one_twice(CALLER);
    jump_at_a_report();
    if (sigsetjmp(back, 1) == 0) {
        hak_depot_get(FOUR);
        CHECK(false, "nothing was reported");
    }
    CHECK(slab->free_count + hak_depot_count(FOUR) == 4, "%u of 4 blocks are free",
          slab->free_count);
    check_slab(slab);
}

enum { MANY = 4000, SIZE = 64, OTHER_SIZE = 128, OTHERS = 60, NONE = MANY };

/* Frees many blocks, and the first one again behind that number, until there is a report, out of which the handler jumps.
 * The block that was being freed must not be lost. */
static void free_many(void (*prepare)(void), unsigned behind) {
    static void *blocks[MANY];
    static unsigned at;
    hakmem_free(hakmem_malloc(SIZE)); /* from now on the thread has a cache */
    hak_cache_flush_all(hak_cache);
    const size_t before = hak_shard_in_use(SMALL);
    for (at = 0; at < MANY; at++) blocks[at] = hakmem_malloc(SIZE);
    jump_at_a_report();
    if (prepare) prepare();
    if (sigsetjmp(back, 1) == 0) {
        for (at = 0; at < MANY; at++) {
            hakmem_free(blocks[at]);
            if (at == behind) hakmem_free(blocks[0]);
        }
        CHECK(false, "nothing was reported");
    }
    while (++at < MANY) hakmem_free(blocks[at]);
    hak_cache_flush_all(hak_cache);
    CHECK(hak_shard_in_use(SMALL) == before, "%d blocks are lost",
          (int)(hak_shard_in_use(SMALL) - before));
}

/* The magazine is full, and the block that is freed is on its way into it. */
static void out_of_a_free(const void *unused) {
    (void)unused;
    free_many(NULL, 5);
}

static void brake(void) { hak_idle_set_limit(&hak_cache->magazines[SMALL], 5); }

static void out_of_a_braked_free(const void *unused) {
    (void)unused;
    free_many(brake, 2);
}

/* Frees blocks of another class, more than half of what its stack may hold, and one of them twice. Returns the class. */
static unsigned free_others(void) {
    void *others[OTHERS];
    for (unsigned i = 0; i < OTHERS; i++)
        CHECK((others[i] = hakmem_malloc(OTHER_SIZE)) != NULL, "no block");
    const unsigned class_index = hak_owner_class(slab_of(others[0])->owner);
    const hak_magazine_t *magazine = &hak_cache->magazines[class_index];
    hak_cache_flush_all(hak_cache);
    const unsigned few = magazine->slots / 2u + 2;
    CHECK(magazine->slots > few && few < OTHERS, "a stack of %u slots", magazine->slots);
    for (unsigned i = 0; i < few; i++) {
        hakmem_free(others[i]);
        if (i == 2) hakmem_free(others[0]);
    }
    CHECK((size_t)(magazine->top - magazine->base) == few + 1, "they are not in one magazine");
    return class_index;
}

/* The next slow call finds that this other magazine has not been used for very long. */
static void have_an_idle_one(void) {
    const unsigned other = free_others();
    uint32_t *clock = &hak_cache->clock[HAK_TINY];
    *clock = (*clock / HAK_CLASS_TINY + 1) * HAK_CLASS_TINY + other - 2;
    hak_cache->used_at[other] = *clock - (1u << 30);
    hak_cache->seen[other] = (uint16_t)((uintptr_t)hak_cache->magazines[other].top >> 3);
}

static void out_of_a_free_beside_an_idle_magazine(const void *unused) {
    (void)unused;
    free_many(have_an_idle_one, NONE);
}

/* The next slow call takes room from this other magazine. */
static void have_one_with_room(void) {
    const unsigned other = free_others();
    hak_cache_set_budget(HAK_TINY, 1);
    hak_cache->victim = (uint16_t)(other - 1);
    hak_cache->slow_count = 15;
    hak_cache->used_at[other] = hak_cache->clock[HAK_TINY] - 100;
    hak_cache->used_at[SMALL] = hak_cache->clock[HAK_TINY];
}

static void out_of_a_free_that_takes_room(const void *unused) {
    (void)unused;
    free_many(have_one_with_room, NONE);
}

static void a_jump_loses_no_block(void **state) {
    (void)state;
    static void (*const runs[])(const void *) = {out_of_a_flush,
                                                 out_of_a_take,
                                                 out_of_a_get,
                                                 out_of_a_free,
                                                 out_of_a_braked_free,
                                                 out_of_a_free_beside_an_idle_magazine,
                                                 out_of_a_free_that_takes_room};
    for (unsigned i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct child_end end;
        child_run(runs[i], NULL, SECONDS, &end);
        REQUIRE(end.in_time && end.status == 0, "%u: status %#x, %s", i, (unsigned)end.status,
                end.err);
    }
}

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

/* ---- One block, in one batch or in several ------------------------------------------------------ */

/* Which of four blocks are given, by whom, one call after the other. The last is free already. */
typedef struct {
    const char *what;
    unsigned homes[3];
    unsigned count;
    bool drain_between, one_batch;
} twice_t;

static const twice_t twice_rows[] = {
    {"two local frees", {HOME, HOME}, 2, false, false},
    {"two local frees in one batch", {HOME}, 1, false, true},
    {"two remote frees", {AWAY, AWAY}, 2, false, false},
    {"two remote frees in one batch", {AWAY}, 1, false, true},
    {"a remote and a local free", {AWAY, HOME}, 2, false, false},
    {"a local and a remote free", {HOME, AWAY}, 2, false, false},
    {"two remote frees with a drain between", {AWAY, AWAY}, 2, true, false},
    {"a remote and a local free with a drain between", {AWAY, HOME}, 2, true, false},
    {"three local frees", {HOME, HOME, HOME}, 3, false, false},
};

/* The second time before the last block of a batch, and no two neighbours. */
static void free_twice_apart(const void *unused) {
    (void)unused;
    CHECK(hak_shard_take(HOME, FOUR, 4, top, NULL) == 4, "no slab of four blocks");
    void *batch[] = {top[1], top[3], top[1], top[4]};
    hak_unit_t *slab = slab_of(top[1]);
    hak_shard_flush(HOME, FOUR, batch, 4);
    CHECK(slab->free_count == 3, "%u blocks are free, not 3", slab->free_count);
    CHECK(__builtin_popcountll(hak_slab_bits(slab)[0]) == 3, "the bits say %#llx",
          (unsigned long long)hak_slab_bits(slab)[0]);
    check_bin(HOME, FOUR, 0);
}

static void a_double_free_inside_a_batch_is_reported(void **state) {
    (void)state;
    struct child_end end;
    child_run(free_twice_apart, NULL, SECONDS, &end);
    REQUIRE(end.in_time && end.status == 0, "status %#x, %s", (unsigned)end.status, end.err);
    REQUIRE(unit_line_count(end.err) == 1 && strstr(end.err, "double free"), "said: %s", end.err);
}

static void free_twice(const void *context) {
    const twice_t *row = context;
    void *blocks[4];
    CHECK(hak_shard_take(HOME, FOUR, 4, top, NULL) == 4, "no slab of four blocks");
    memcpy(blocks, top + 1, sizeof blocks);
    hak_unit_t *slab = slab_of(blocks[0]);
    fprintf(stderr, "%p\n", blocks[1]);
    for (unsigned i = 0; i < row->count; i++) {
        void *batch[] = {blocks[1], blocks[1], blocks[2]};
        hak_shard_flush(row->homes[i], FOUR, batch, row->one_batch ? 3 : 1);
        if (row->drain_between) hak_shard_release_idle();
    }
    hak_shard_release_idle();
    /* It is free once, its slab is right, and the class goes on. */
    unsigned free_count = row->one_batch ? 2 : 1;
    CHECK(slab->free_count == free_count, "%u blocks are free, not %u", slab->free_count,
          free_count);
    CHECK(hak_slab_bits(slab)[0] == slab->words_free * hak_slab_bits(slab)[0],
          "words_free is wrong");
    CHECK(hak_shard_take(HOME, FOUR, 1, top, NULL) == 1, "the class is out of memory");
    CHECK(slab_of(top[1]) == slab, "the free block is not found again");
}

static void a_double_free_is_reported(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof twice_rows / sizeof *twice_rows; i++) {
        const twice_t *row = &twice_rows[i];
        struct child_end end;
        void *block;
        char line[200];
        child_run(free_twice, row, SECONDS, &end);
        REQUIRE(end.in_time && end.status == 0, "%s: status %#x, %s", row->what,
                (unsigned)end.status, end.err);
        assert_int_equal(sscanf(end.err, "%p\n", &block), 1);
        snprintf(line, sizeof line,
                 "hakmem: free(): double free: %p is a block of 14336 bytes that is already free\n",
                 block);
        REQUIRE(strstr(end.err, line) != NULL, "%s: no report in: %s", row->what, end.err);
        unsigned reports = unit_line_count(end.err) - 1;
        unsigned expected = row->count > 2 ? 2 : 1;
        REQUIRE(reports == expected, "%s: %u reports: %s", row->what, reports, end.err);
    }
}

/* Room behind the last block looks like the start of a block to the hot path. */
static void give_behind_last(const void *context) {
    const unsigned *home = context;
    CHECK(hak_shard_take(HOME, SMALLEST, 1, top, NULL) == 1, "no block");
    hak_unit_t *slab = slab_of(top[1]);
    void *batch[] = {slab->base + 40000, top[1], slab->base + 65528, slab->base + 32768};
    hak_shard_flush(*home, SMALLEST, batch, 4);
    hak_shard_release_idle();
    CHECK(slab->owner == 0 || slab->free_count == 4096, "%u of 4096 blocks are free",
          slab->free_count);
}

static void a_block_behind_the_last_is_reported(void **state) {
    (void)state;
    static const unsigned homes[] = {HOME, AWAY};
    for (unsigned i = 0; i < 2; i++) {
        struct child_end end;
        child_run(give_behind_last, &homes[i], SECONDS, &end);
        REQUIRE(end.in_time && end.status == 0, "from shard %u: status %#x, %s", homes[i],
                (unsigned)end.status, end.err);
        REQUIRE(strstr(end.err, "hakmem: free(): ") != NULL, "no report in: %s", end.err);
    }
}

/* A second free may read the record of a chunk where its slab's was, when the unit has been one of a program's heap
 * in between and is a slab of the class again. Nothing is written to such a record. */
static void the_record_of_a_chunk_stays(void **state) {
    (void)state;
    uint64_t record[2] = {1, 8}; /* a class of one word has its remote one in the second */
    hak_unit_t unit = {.owner = hak_owner(HOME, FOUR)};
    hak_store_relaxed(&unit.bits, hak_slab_marked(record, HAK_SLAB_CHUNK));
    assert_int_equal(hak_classes[FOUR].words, 1);
    assert_int_equal(hak_remote_free(&unit, FOUR, 0, 2), 2);
    assert_int_equal(record[0], 1);
    assert_int_equal(record[1], 8);
}

int main(int argc, char **argv) {
    (void)argc;
    begin_with_four_shards(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_reported),
        cmocka_unit_test(a_double_free_is_reported),
        cmocka_unit_test(a_double_free_inside_a_batch_is_reported),
        cmocka_unit_test(a_block_behind_the_last_is_reported),
        cmocka_unit_test(a_jump_loses_no_block),
        cmocka_unit_test(the_record_of_a_chunk_stays),
    };
    watchdog(100, "a test of double frees hangs");
    return cmocka_run_group_tests_name("twice", tests, NULL, NULL);
}
