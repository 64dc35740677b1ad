/* bytes.c: each byte of a block is zeroed, none beside it, and each is compared with zero; by instructions
 * of all widths that the machine has. Few bytes are copied, each of them and none beside. */
#include "unit.h"

#include <string.h>

#include "base/bytes.h"

enum { SIDE = 64, LARGEST = 4096, WIDE_BLOCK = (HAK_WIDE_LEAST + 15) / 16 * 16 };

static char memory[SIDE + LARGEST + SIDE] __attribute__((aligned(64)));
static size_t wide;

/* Sizes of blocks: all of the small ones, and few of the others. */
static size_t next_size(size_t size) { return size + (size < 640 ? 16 : 1152); }

/* Blocks begin at an odd multiple of 16, too. */
static char *block_of(size_t size) { return memory + SIDE - (size / 16 % 2) * 16; }

static void each_byte_is_compared(void **state) {
    (void)state;
    for (size_t size = 16; size <= LARGEST; size = next_size(size)) {
        char *block = block_of(size);
        memset(memory, 1, sizeof memory);
        memset(block, 0, size);
        assert_true(hak_is_zero(block, size, &wide));
        for (size_t at = 0; at < size; at++) {
            block[at] = (char)(1 << at % 8);
            assert_false(hak_is_zero(block, size, &wide));
            block[at] = 0;
        }
    }
}

static void each_byte_is_zeroed(void **state) {
    (void)state;
    for (size_t size = 16; size <= LARGEST; size = next_size(size)) {
        char *block = block_of(size);
        memset(memory, 1, sizeof memory);
        hak_zero(block, size, &wide);
        for (char *at = memory; at < memory + sizeof memory; at++)
            assert_int_equal(*at, at < block || at >= block + size);
    }
}

/* Then a compiler knows that the last part is the first one. */
static void a_size_may_be_a_constant(void **state) {
    (void)state;
    memset(memory, 1, sizeof memory);
    hak_zero(memory + SIDE, WIDE_BLOCK, &wide);
    assert_true(hak_is_zero(memory + SIDE, WIDE_BLOCK, &wide));
    for (char *at = memory; at < memory + sizeof memory; at++)
        assert_int_equal(*at, at < memory + SIDE || at >= memory + SIDE + WIDE_BLOCK);
}

static void few_bytes_are_copied(void **state) {
    (void)state;
    char *from = memory + SIDE, *to = memory + SIDE + LARGEST / 2;
    for (size_t bytes = 0; bytes < 2 * SIDE; bytes++) {
        assert_int_equal(hak_are_few(bytes), bytes >= 16 && bytes <= 64);
        if (!hak_are_few(bytes)) continue;
        memset(memory, -1, sizeof memory);
        for (size_t i = 0; i < bytes; i++) from[i] = (char)i;
        hak_copy_few(to, from, bytes);
        for (char *at = to - SIDE; at < to + 2 * SIDE; at++)
            assert_int_equal(*at, at < to || at >= to + bytes ? -1 : at - to);
    }
    assert_false(hak_are_few(SIZE_MAX));
}

/* The compiler's library knows as well. */
static void wide_instructions_are_used_where_they_are(void **state) {
    (void)state;
#if defined(__x86_64__) && !HAKMEM_NO_ASM
    assert_int_equal(hak_wide_least() == HAK_WIDE_LEAST, !!__builtin_cpu_supports("avx2"));
#endif
    assert_true(hak_wide_least() == HAK_WIDE_LEAST || hak_wide_least() == SIZE_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_bytes_are_copied),
        cmocka_unit_test(wide_instructions_are_used_where_they_are),
        cmocka_unit_test(each_byte_is_compared),
        cmocka_unit_test(each_byte_is_zeroed),
        cmocka_unit_test(a_size_may_be_a_constant),
    };
    watchdog(100, "a test of bytes hangs");
    wide = SIZE_MAX;
    int failed = cmocka_run_group_tests_name("bytes, 16 at a time", tests, NULL, NULL);
    wide = hak_wide_least();
    if (wide == SIZE_MAX) return failed;
    return failed + cmocka_run_group_tests_name("bytes, 32 at a time", tests, NULL, NULL);
}
