/* basic.c - malloc, calloc, realloc, reallocarray, free and the sized frees at their edges, after
 * malloc(3), reallocarray(3), C23 7.24.3 and POSIX.1-2024. */
#define _GNU_SOURCE
#include "api.h"

static void malloc_of_zero_is_unique_and_freeable(void **state) {
    (void)state;
    void *first = API(malloc)(0);
    void *second = API(malloc)(0);
    assert_non_null(first);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
    API(free)(first);
    API(free)(second);
}

static void malloc_beyond_ptrdiff_max_is_refused(void **state) {
    (void)state;
    assert_refused(API(malloc)(beyond_limit), ENOMEM);
    assert_refused(API(malloc)(near_size_max), ENOMEM);
    assert_refused(API(malloc)(near_size_max + 64), ENOMEM);
}

static void malloc_of_more_than_the_address_space_is_refused(void **state) {
    (void)state;
    assert_refused(API(malloc)(beyond_limit - 1), ENOMEM);
    assert_refused(API(malloc)(beyond_limit / 2), ENOMEM);
}

static void calloc_gives_zero_and_accepts_zero(void **state) {
    (void)state;
    unsigned char *block = API(calloc)(10, 10);
    for (size_t i = 0; i < 100; i++) assert_int_equal(block[i], 0);
    void *no_count = API(calloc)(0, 8);
    void *no_size = API(calloc)(8, 0);
    assert_non_null(no_count);
    assert_non_null(no_size);
    assert_ptr_not_equal(no_count, no_size);
    API(free)(block);
    API(free)(no_count);
    API(free)(no_size);
}

static void calloc_overflow_is_refused(void **state) {
    (void)state;
    assert_refused(API(calloc)(near_size_max, 2), ENOMEM);
    assert_refused(API(calloc)(2, near_size_max), ENOMEM);
    /* The product wraps around to a small number. */
    assert_refused(API(calloc)((beyond_limit >> 31) + 1, (size_t)1 << 32), ENOMEM);
    assert_refused(API(calloc)(1, beyond_limit), ENOMEM);
}

static void realloc_of_null_allocates(void **state) {
    (void)state;
    char *block = API(realloc)(NULL, 20);
    assert_non_null(block);
    memset(block, 1, 20);
    API(free)(block);
    void *empty = API(realloc)(NULL, 0);
    assert_non_null(empty);
    API(free)(empty);
}

static void realloc_to_zero_frees_and_gives_null(void **state) {
    (void)state;
    for (size_t i = 0; i < BORDER_COUNT; i++) {
        void *block = API(malloc)(border_sizes[i]);
        errno = ERRNO_MARK;
        void *none = API(realloc)(block, 0);
        assert_null(none);
        assert_int_equal(errno, ERRNO_MARK);
    }
}

static void refused_realloc_keeps_the_block(void **state) {
    (void)state;
    /* volatile: gcc 12 takes a block for dead after reallocarray, whatever that returns. */
    char *volatile block = API(malloc)(100);
    memset(block, 7, 100);
    assert_refused(API(realloc)(block, beyond_limit), ENOMEM);
    assert_refused(API(realloc)(block, near_size_max), ENOMEM);
    assert_refused(API(reallocarray)(block, near_size_max, 3), ENOMEM);
    assert_refused(API(reallocarray)(block, (beyond_limit >> 31) + 1, (size_t)1 << 32), ENOMEM);
    for (size_t i = 0; i < 100; i++) assert_int_equal(block[i], 7);
    API(free)(block);
}

static void reallocarray_is_realloc_of_the_product(void **state) {
    (void)state;
    char *block = API(reallocarray)(NULL, 10, 12);
    assert_non_null(block);
    assert_true(API(malloc_usable_size)(block) >= 120);
    strcpy(block, "kept");
    block = API(reallocarray)(block, 1000, 12);
    assert_string_equal(block, "kept");
    assert_true(API(malloc_usable_size)(block) >= 12000);
    void *none = API(reallocarray)(block, 0, 12);
    assert_null(none);
    void *empty = API(reallocarray)(NULL, 0, 12);
    assert_non_null(empty);
    API(free)(empty);
}

static void free_of_null_does_nothing(void **state) {
    (void)state;
    errno = ERRNO_MARK;
    API(free)(NULL);
    API(free_sized)(NULL, 10);
    API(free_aligned_sized)(NULL, 64, 64);
#if !defined(TEST_PREFIXED)
    cfree(NULL);
#endif
    assert_int_equal(errno, ERRNO_MARK);
}

static void free_leaves_errno_alone(void **state) {
    (void)state;
    enum { COUNT = 300 };
    void *blocks[COUNT];
    for (size_t i = 0; i < BORDER_COUNT; i++) {
        /* Many of one size, so that caches flush and memory goes back while errno is watched. */
        size_t count = border_sizes[i] > 65536 ? 20 : COUNT;
        for (size_t k = 0; k < count; k++) blocks[k] = API(malloc)(border_sizes[i]);
        for (size_t k = 0; k < count; k++) {
            errno = ERRNO_MARK;
            API(free)(blocks[k]);
            assert_int_equal(errno, ERRNO_MARK);
        }
    }
}

static void sized_frees_take_what_was_asked_for(void **state) {
    (void)state;
    for (size_t i = 0; i < BORDER_COUNT; i++) {
        size_t size = border_sizes[i];
        errno = ERRNO_MARK;
        API(free_sized)(API(malloc)(size), size);
        API(free_sized)(API(calloc)(1, size), size);
        API(free_sized)(API(realloc)(API(malloc)(size / 2 + 1), size), size);
        for (size_t alignment = 16; alignment <= 65536; alignment *= 8)
            API(free_aligned_sized)(API(aligned_alloc)(alignment, size), alignment, size);
        assert_int_equal(errno, ERRNO_MARK);
#if !defined(TEST_PREFIXED)
        cfree(API(malloc)(size));
#endif
    }
    API(free_sized)(API(malloc)(0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malloc_of_zero_is_unique_and_freeable),
        cmocka_unit_test(malloc_beyond_ptrdiff_max_is_refused),
        cmocka_unit_test(malloc_of_more_than_the_address_space_is_refused),
        cmocka_unit_test(calloc_gives_zero_and_accepts_zero),
        cmocka_unit_test(calloc_overflow_is_refused),
        cmocka_unit_test(realloc_of_null_allocates),
        cmocka_unit_test(realloc_to_zero_frees_and_gives_null),
        cmocka_unit_test(refused_realloc_keeps_the_block),
        cmocka_unit_test(reallocarray_is_realloc_of_the_product),
        cmocka_unit_test(free_of_null_does_nothing),
        cmocka_unit_test(free_leaves_errno_alone),
        cmocka_unit_test(sized_frees_take_what_was_asked_for),
    };
    return run_group(tests);
}
