/* aligned.c - aligned_alloc, posix_memalign, memalign, valloc and pvalloc, after posix_memalign(3),
 * C23 7.24.3.1 and POSIX.1-2024; and the natural alignment of every other function. */
#define _GNU_SOURCE
#include "api.h"
#include "rng.h"

#include <unistd.h>

static const size_t bad_alignments[] = {0, 3, 5, 6, 12, 24, 48, 100, 4095, 4097, SIZE_MAX};

#define BAD_COUNT (sizeof bad_alignments / sizeof bad_alignments[0])

static void check_natural_alignment(size_t size) {
    enum { COUNT = 8 };
    void *blocks[COUNT];
    size_t count = size > 65536 ? 2 : COUNT;
    for (size_t k = 0; k < count; k++) {
        blocks[k] = k % 2 == 0 ? API(malloc)(size) : API(calloc)(1, size);
        assert_non_null(blocks[k]);
        assert_true(is_at(blocks[k], size > 8 ? 16 : 8));
    }
    for (size_t k = 0; k < count; k++) API(free)(blocks[k]);
}

static void every_size_has_its_natural_alignment(void **state) {
    (void)state;
    for (size_t size = 0; size <= 8192; size++) check_natural_alignment(size);
    for (size_t size = 8192; size <= 300000; size += 1009) check_natural_alignment(size);
    for (size_t i = 0; i < BORDER_COUNT; i++) check_natural_alignment(border_sizes[i]);
}

static void check_aligned(void *block, size_t alignment, size_t size) {
    assert_non_null(block);
    assert_true(is_at(block, alignment));
    assert_true(is_at(block, size > 8 ? 16 : 8));
    assert_true(API(malloc_usable_size)(block) >= size);
    memset(block, 0x5a, size < 65536 ? size : 65536);
}

static void every_alignment_is_met_at_every_size(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= 4 << 20; alignment *= 2)
        for (size_t i = 0; i < BORDER_COUNT; i++) {
            size_t size = border_sizes[i];
            void *first = API(aligned_alloc)(alignment, size);
            void *second = API(memalign)(alignment, size);
            void *third = NULL;
            size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
            check_aligned(first, alignment, size);
            check_aligned(second, alignment, size);
            assert_int_equal(API(posix_memalign)(&third, least, size), 0);
            check_aligned(third, least, size);
            API(free)(second);
            API(free)(first);
            API(free)(third);
        }
}

/* Many sizes up to 1 MiB: beside each other, and in the memory of those that were freed. */
static void aligned_blocks_keep_their_contents(void **state) {
    enum { HELD = 64, TURNS = 20000 };
    static struct {
        unsigned char *start;
        size_t size;
        unsigned char value;
    } held[HELD];
    struct rng rng = rng_make(1);
    (void)state;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        unsigned i = (unsigned)rng_below(&rng, HELD);
        for (size_t k = 0; k < held[i].size; k += 4096)
            assert_int_equal(held[i].start[k], held[i].value);
        if (held[i].start) assert_int_equal(held[i].start[held[i].size - 1], held[i].value);
        API(free)(held[i].start);
        size_t alignment = (size_t)8 << rng_below(&rng, 19); /* up to 2 MiB */
        size_t size = rng_size(&rng, 1, 1 << 20);
        held[i].start = API(aligned_alloc)(alignment, size);
        assert_non_null(held[i].start);
        assert_true(is_at(held[i].start, alignment));
        held[i].size = API(malloc_usable_size)(held[i].start);
        assert_true(held[i].size >= size);
        held[i].value = (unsigned char)(turn % 255 + 1);
        for (size_t k = 0; k < held[i].size; k += 4096) held[i].start[k] = held[i].value;
        held[i].start[held[i].size - 1] = held[i].value;
    }
    for (unsigned i = 0; i < HELD; i++) API(free)(held[i].start);
}

static void aligned_blocks_can_be_resized(void **state) {
    (void)state;
    for (size_t alignment = 16; alignment <= 4 << 20; alignment *= 4)
        for (size_t i = 0; i + 1 < BORDER_COUNT; i++) {
            char *block = API(aligned_alloc)(alignment, border_sizes[i]);
            block[0] = 1;
            block[border_sizes[i] - 1] = 2;
            block = API(realloc)(block, border_sizes[i + 1]);
            assert_int_equal(block[border_sizes[i] - 1], 2);
            API(free)(block);
        }
}

static void aligned_alloc_refuses_a_bad_alignment(void **state) {
    (void)state;
    for (size_t i = 0; i < BAD_COUNT; i++) {
        volatile size_t alignment = bad_alignments[i];
        assert_refused(API(aligned_alloc)(alignment, 64), EINVAL);
    }
}

static void posix_memalign_refuses_a_bad_alignment(void **state) {
    (void)state;
    int mark;
    void *out = &mark;
    errno = ERRNO_MARK;
    for (size_t i = 0; i < BAD_COUNT; i++)
        assert_int_equal(API(posix_memalign)(&out, bad_alignments[i], 64), EINVAL);
    assert_int_equal(API(posix_memalign)(&out, 1, 64), EINVAL);
    assert_int_equal(API(posix_memalign)(&out, 2, 64), EINVAL);
    assert_int_equal(API(posix_memalign)(&out, sizeof(void *) / 2, 64), EINVAL);
    assert_ptr_equal(out, &mark);
    assert_int_equal(errno, ERRNO_MARK);
}

static void posix_memalign_out_of_memory_leaves_all_alone(void **state) {
    (void)state;
    int mark;
    void *out = &mark;
    errno = ERRNO_MARK;
    assert_int_equal(API(posix_memalign)(&out, 64, beyond_limit), ENOMEM);
    assert_int_equal(API(posix_memalign)(&out, 64, near_size_max), ENOMEM);
    assert_int_equal(API(posix_memalign)(&out, (size_t)1 << 62, 64), ENOMEM);
    assert_int_equal(API(posix_memalign)(&out, 4096, beyond_limit - 1), ENOMEM);
    assert_ptr_equal(out, &mark);
    assert_int_equal(errno, ERRNO_MARK);
}

static void memalign_raises_an_odd_alignment(void **state) {
    (void)state;
    static const size_t pairs[][2] = {{0, 1}, {3, 4}, {24, 32}, {100, 128}, {4097, 8192}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        volatile size_t alignment = pairs[i][0];
        void *block = API(memalign)(alignment, 40);
        assert_non_null(block);
        assert_true(is_at(block, pairs[i][1]));
        API(free)(block);
    }
    volatile size_t beyond_all = SIZE_MAX / 2 + 2;
    assert_refused(API(memalign)(beyond_all, 40), EINVAL);
}

static void too_much_at_an_alignment_is_refused(void **state) {
    (void)state;
    assert_refused(API(aligned_alloc)(64, beyond_limit), ENOMEM);
    assert_refused(API(aligned_alloc)(4096, near_size_max), ENOMEM);
    assert_refused(API(memalign)(64, beyond_limit), ENOMEM);
    assert_refused(API(memalign)(1 << 20, near_size_max), ENOMEM);
    assert_refused(API(valloc)(beyond_limit), ENOMEM);
    assert_refused(API(valloc)(near_size_max), ENOMEM);
    assert_refused(API(pvalloc)(beyond_limit), ENOMEM);
    /* Rounding this up to whole pages wraps to 0. */
    assert_refused(API(pvalloc)(near_size_max + 63), ENOMEM);
}

static void zero_bytes_at_an_alignment_are_unique(void **state) {
    (void)state;
    void *blocks[5];
    blocks[0] = API(aligned_alloc)(64, 0);
    blocks[1] = API(memalign)(64, 0);
    assert_int_equal(API(posix_memalign)(&blocks[2], 64, 0), 0);
    blocks[3] = API(valloc)(0);
    blocks[4] = API(pvalloc)(0);
    for (size_t i = 0; i < 5; i++) {
        assert_non_null(blocks[i]);
        assert_true(is_at(blocks[i], i < 3 ? 64 : (size_t)sysconf(_SC_PAGESIZE)));
        for (size_t k = 0; k < i; k++) assert_ptr_not_equal(blocks[i], blocks[k]);
    }
    for (size_t i = 0; i < 5; i++) API(free)(blocks[i]);
}

static void valloc_and_pvalloc_give_pages(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < BORDER_COUNT; i++) {
        size_t size = border_sizes[i];
        void *block = API(valloc)(size);
        check_aligned(block, page, size);
        API(free)(block);
        block = API(pvalloc)(size);
        check_aligned(block, page, (size + page - 1) / page * page);
        API(free)(block);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_its_natural_alignment),
        cmocka_unit_test(every_alignment_is_met_at_every_size),
        cmocka_unit_test(aligned_blocks_keep_their_contents),
        cmocka_unit_test(aligned_blocks_can_be_resized),
        cmocka_unit_test(aligned_alloc_refuses_a_bad_alignment),
        cmocka_unit_test(posix_memalign_refuses_a_bad_alignment),
        cmocka_unit_test(posix_memalign_out_of_memory_leaves_all_alone),
        cmocka_unit_test(memalign_raises_an_odd_alignment),
        cmocka_unit_test(too_much_at_an_alignment_is_refused),
        cmocka_unit_test(zero_bytes_at_an_alignment_are_unique),
        cmocka_unit_test(valloc_and_pvalloc_give_pages),
    };
    return run_group(tests);
}
