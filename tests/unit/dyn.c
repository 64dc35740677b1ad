/* dyn.c: the dynamic class at each of its possible sizes, and the size that the engine chooses. */
#include "unit.h"

#include <signal.h>
#include <string.h>

#include "cache/cache.h"
#include "classes/dyn.h"
#include "hakmem.h"
#include "options/environment.h"
#include "options/options.h"
#include "policy/dyn_size.h"
#include "debug_record/record.h"
#include "shard/shard.h"
#include "single_step.h"

/* The fixed class of a size, whatever the routes say. */
static unsigned fixed_class_of(size_t size) {
    unsigned index = 1;
    while (hak_classes[index].size < size) index++;
    return index;
}

/* ---- Arithmetic, in a child for each size, since a process chooses once ------------------------ */

static void check_row(size_t size) {
    const hak_class_t *row = &hak_classes[HAK_CLASS_DYN];
    CHECK(row->size == size && row->count == HAK_UNIT_SIZE / size, "%zu: %u blocks of %u bytes",
          size, row->count, row->size);
    CHECK(row->words == (row->count + 63) / 64, "%zu: %u words", size, row->words);
    CHECK(row->colours >= 1 &&
              row->count * size + ((row->colours - 1u) << row->step_shift) <= HAK_UNIT_SIZE,
          "%zu: no room for %u colours", size, row->colours);
    for (uint32_t offset = 0; offset < HAK_UNIT_SIZE; offset++) {
        CHECK(hak_block_index(offset, row->reciprocal) == offset / size,
              "%zu: offset %u is in block %u", size, offset,
              hak_block_index(offset, row->reciprocal));
        bool is_start = offset % size == 0 && offset / size < row->count;
        CHECK(hak_is_block_start(offset, HAK_START_TEST_OF(row->size, row->count)) == is_start,
              "%zu: offset %u is taken for %s start", size, offset, is_start ? "no" : "a");
    }
}

/* Each size of the class's has it, and an eighth more at most; all others what they had. A fixed
 * class's size has none, so that no program has two sets of slabs for it. */
static void check_routes(size_t size, size_t first) {
    bool fixed = hak_classes[fixed_class_of(size)].size == size;
    CHECK(fixed ? first == size + 1
                : first <= size && first > HAK_TINY_MAX && first % HAK_ROUTE_STEP == 1,
          "%zu serves sizes from %zu on", size, first);
    CHECK(size * 8 <= first * 9, "%zu serves %zu, which it more than an eighth too large for", size,
          first);
    for (size_t at = 0; at <= HAK_CLASS_MAX; at++) {
        bool dynamic = at >= first && at <= size;
        unsigned wanted = dynamic ? HAK_CLASS_DYN : fixed_class_of(at);
        CHECK(hak_class_of(at) == wanted, "%zu: size %zu has class %u, not %u", size, at,
              hak_class_of(at), wanted);
        if (dynamic)
            CHECK(hak_classes[fixed_class_of(at)].count <= HAK_UNIT_SIZE / size ||
                      fixed_class_of(at) == fixed_class_of(size),
                  "%zu: size %zu had more blocks in a slab", size, at);
    }
}

static bool is_aligned(const hak_class_t *row, size_t align) {
    for (uintptr_t unit = 0; unit < 300; unit++)
        if (hak_first_offset(unit << HAK_UNIT_SHIFT, row) % align != 0) return false;
    return row->size % align == 0;
}

static void check_alignment(size_t size, size_t first) {
    for (size_t align = 8; align <= HAK_UNIT_SIZE; align *= 2) {
        for (size_t at = first - 1; at <= size + 1 && at <= HAK_CLASS_MAX; at += 61) {
            unsigned index = hak_class_of_aligned(at, align);
            CHECK(index >= 1 && index <= HAK_CLASS_COUNT && hak_classes[index].size >= at &&
                      is_aligned(&hak_classes[index], align),
                  "%zu: class %u of %u bytes for %zu at multiples of %zu", size, index,
                  hak_classes[index].size, at, align);
        }
    }
}

static void check_size(const void *context) {
    size_t asked = *(const size_t *)context, size = hak_align_up(asked, HAK_ROUTE_STEP);
    size_t first = hak_dyn_first(size);
    CHECK(hak_dyn_size() == 0 && hak_dyn_size_of(HAK_CLASS_DYN) == 0, "it is there already");
    CHECK(hak_dyn_choose(asked) == size && hak_dyn_size() == size, "%zu became %zu", asked,
          hak_dyn_size());
    CHECK(hak_dyn_choose(asked) == 0 && hak_dyn_choose(4096) == 0 && hak_dyn_size() == size,
          "it can be chosen twice");
    check_row(size);
    check_routes(size, first);
    check_alignment(size, first);
}

static void every_size_is_a_sound_class(void **state) {
    (void)state;
    /* A process for each: one size in three, and under a sanitizer one in seven, or that alone is a minute. */
    const size_t step = HAK_ROUTE_STEP * (HAKMEM_PREFIXED_ONLY ? 7 : 3);
    for (size_t size = HAK_TINY_MAX + HAK_ROUTE_STEP; size <= HAK_CLASS_MAX; size += step) {
        const size_t asked[] = {size - HAK_ROUTE_STEP + 1, size};
        for (size_t i = 0; i < 2; i++) unit_child(check_size, &asked[i], 20, "a dynamic class");
    }
}

static void the_sizes_below_go_along_when_it_costs_little(void **state) {
    (void)state;
    assert_int_equal(hak_dyn_first(14464), 12929); /* 13312 has four in a slab, too */
    assert_int_equal(hak_dyn_first(14336), 14337); /* none: a fixed class has them */
    assert_int_equal(hak_dyn_first(4224), 4097);   /* 4096 has sixteen, this fifteen */
    assert_int_equal(hak_dyn_first(8320), 8193);
    assert_int_equal(hak_dyn_first(16512), 16385);
    assert_int_equal(hak_dyn_first(13056), 11649); /* five, as 12288 */
    assert_int_equal(hak_dyn_first(2176), 2049);
}

/* ---- Blocks of the class ----------------------------------------------------------------------- */

/* A cache that was made before the choice has no stack and no test of starts for the class. */
static void check_cache(const void *unused) {
    (void)unused;
    enum { COUNT = 50, SIZE = 14464 };
    void *blocks[COUNT];
    hak_options_load();
    hak_records_settle(); /* until then mid blocks have debug records, and no stacks */
    hak_cache_t *cache = hak_cache_make();
    hak_magazine_t *bin = &cache->magazines[HAK_CLASS_DYN];
    CHECK(bin->start_test == 0 && bin->slots == 0, "a stack of a class that is not there");
    CHECK(!hak_shard_has_slabs(0, HAK_CLASS_DYN), "slabs of a class that is not there");
    hak_dyn_choose(SIZE);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = hak_cache_pop(cache, HAK_CLASS_DYN);
        if (!blocks[i]) blocks[i] = hak_cache_refill(cache, HAK_CLASS_DYN, NULL);
        CHECK(hak_block_offset((uintptr_t)blocks[i], &hak_classes[HAK_CLASS_DYN]) % SIZE == 0,
              "%p is no block", blocks[i]);
    }
    const hak_class_t *row = &hak_classes[HAK_CLASS_DYN];
    CHECK(bin->start_test == HAK_START_TEST_OF(row->size, row->count), "a wrong test of starts");
    size_t cached = hak_cache_count(cache, HAK_CLASS_DYN);
    CHECK(hak_shard_in_use(HAK_CLASS_DYN) == COUNT + cached, "%zu blocks in use, not %zu",
          hak_shard_in_use(HAK_CLASS_DYN), COUNT + cached);
    for (int i = 0; i < COUNT; i++) hak_cache_overflow(cache, HAK_CLASS_DYN, blocks[i]);
    hak_cache_flush_all(cache);
    CHECK(hak_shard_in_use(HAK_CLASS_DYN) == 0, "%zu blocks are left",
          hak_shard_in_use(HAK_CLASS_DYN));
}

static void a_cache_made_before_serves_it(void **state) {
    (void)state;
    unit_child(check_cache, NULL, 20, "a cache made before the choice");
}

/* ---- calloc, when the class is chosen between two of its instructions ------------------------- */

#ifdef HAS_STEPS
enum { STEPS = 200, STEP_SIZE = 14464, STEP_REQUEST = 14400, STEP_BLOCKS = 12, STEP_FREED = 5 };
static volatile int steps_to_go;

static bool step(void) {
    if (steps_to_go-- > 0) return true;
    hak_dyn_choose(STEP_SIZE);
    return false;
}

static bool all_bytes_are(const unsigned char *block, size_t size, unsigned char byte) {
    for (size_t i = 0; i < size; i++)
        if (block[i] != byte) return false;
    return true;
}

/* The freed block, which calloc finds in the magazine, has neighbours in its slab. */
static void check_step(const void *context) {
    unsigned char *blocks[STEP_BLOCKS];
    hak_records_settle();
    for (int i = 0; i < STEP_BLOCKS; i++) {
        blocks[i] = hakmem_malloc(STEP_REQUEST);
        memset(blocks[i], 0xa5, hakmem_malloc_usable_size(blocks[i]));
    }
    hakmem_free(blocks[STEP_FREED]);
    steps_to_go = *(const int *)context;
    steps_begin(step);
    unsigned char *zeroed = hakmem_calloc(1, STEP_REQUEST);
    while (hak_dyn_size() == 0) { /* the remaining steps */
    }
    CHECK(all_bytes_are(zeroed, hakmem_malloc_usable_size(zeroed), 0), "step %d: not all zero",
          *(const int *)context);
    for (int i = 0; i < STEP_BLOCKS; i++)
        CHECK(i == STEP_FREED || all_bytes_are(blocks[i], STEP_REQUEST, 0xa5),
              "step %d: zeroes in another block", *(const int *)context);
}

static void calloc_reads_the_class_once(void **state) {
    (void)state;
    for (int i = 0; i < STEPS; i++) unit_child(check_step, &i, 20, "calloc in steps");
}
#endif

/* ---- The engine -------------------------------------------------------------------------------- */

enum { HELD = 4000, HOME = 0 };
static void *held[HELD + 1];

/* Blocks of a size, with a note for every eighth as a refill would make it. */
static void demand(size_t size, unsigned count) {
    uint8_t noted = 0;
    for (unsigned i = 0; i < count; i += 8) {
        unsigned class_index = hak_class_of(size);
        CHECK(hak_shard_take(HOME, class_index, 8, held, NULL) > 0, "no memory");
        hak_dyn_size_note(class_index, size, &noted);
    }
}

static void check_choice(const void *context) {
    const size_t *row = context; /* size asked for, class it should make or 0 */
    demand(row[0], HELD);
    CHECK(hak_dyn_size_samples() > 0, "no samples");
    CHECK(hak_dyn_size() == row[1], "%zu bytes: the dynamic class has %zu, not %zu", row[0],
          hak_dyn_size(), row[1]);
    CHECK((hak_dyn_size_waste() >= 256 * 1024) == (row[1] != 0), "%llu bytes wasted",
          (unsigned long long)hak_dyn_size_waste());
}

static void the_engine_finds_what_saves_pages(void **state) {
    (void)state;
    static const size_t rows[][2] = {
        {4112, 4224}, {8208, 8320}, {16400, 16512}, {5200, 5248},
        {4096, 0},    {14336, 0},   {33000, 0}, /* one block in a slab, and the same nine pages, either way */
        {4608, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        unit_child(check_choice, rows[i], 30, "a choice");
}

/* Few blocks, or few of them, are not worth it; nor does it choose for a user who did. */
static void check_no_choice(const void *unused) {
    (void)unused;
    demand(20000, 400); /* the heap is large enough to be looked at */
    demand(4112, 500);
    CHECK(hak_dyn_size() == 0, "a class for 500 blocks");
    for (int i = 0; i < 100; i++) {
        demand(4600, 320);
        demand(4112, 8);
    }
    CHECK(hak_dyn_size() == 0, "a class for one block in forty: %zu", hak_dyn_size());
    hak_option_assign(HAK_OPTION_MID_DYN1, (hak_text_t){"0", 1}, HAK_SOURCE_PROGRAM);
    uint64_t samples = hak_dyn_size_samples();
    demand(4112, HELD);
    CHECK(hak_dyn_size() == 0 && hak_dyn_size_samples() == samples,
          "chosen though the option is 0");
}

static void the_engine_leaves_alone_what_does_not_pay(void **state) {
    (void)state;
    unit_child(check_no_choice, NULL, 30, "no choice");
}

/* The cost model, against the pages counted one by one. */
static void the_cost_is_that_of_the_pages(void **state) {
    (void)state;
    for (size_t pitch = HAK_TINY_MAX + HAK_ROUTE_STEP; pitch <= 32768; pitch += HAK_ROUTE_STEP) {
        size_t size = pitch - pitch / 10, count = HAK_UNIT_SIZE / pitch, pages = 0, next = 0;
        for (size_t i = 0; i < count; i++) {
            for (size_t page = i * pitch / 4096; page <= (i * pitch + size - 1) / 4096; page++) {
                if (page < next) continue;
                pages++;
                next = page + 1;
            }
        }
        assert_int_equal(hak_dyn_size_cost(pitch, size), pages * 4096 / count);
    }
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_SHARDS=2", NULL});
    unit_open_shards(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_a_sound_class),
        cmocka_unit_test(the_sizes_below_go_along_when_it_costs_little),
        cmocka_unit_test(a_cache_made_before_serves_it),
#ifdef HAS_STEPS
        cmocka_unit_test(calloc_reads_the_class_once),
#endif
        cmocka_unit_test(the_engine_finds_what_saves_pages),
        cmocka_unit_test(the_engine_leaves_alone_what_does_not_pay),
        cmocka_unit_test(the_cost_is_that_of_the_pages),
    };
    return cmocka_run_group_tests_name("dyn", tests, NULL, NULL);
}
