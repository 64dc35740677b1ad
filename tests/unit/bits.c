/* bits.c: bitmaps, compared bit by bit. */
#include "unit.h"

#include <string.h>

#include "base/bits.h"

enum { WORDS = 6, BITS = WORDS * 64, TURNS = 20000 };

static void a_copy_has_the_bits_and_no_others(void **state) {
    (void)state;
    for (unsigned turn = 0; turn < TURNS / UNIT_DIVISOR; turn++) {
        uint64_t from[WORDS], to[WORDS] = {0};
        for (unsigned w = 0; w < WORDS; w++)
            from[w] = (uint64_t)unit_random(1u << 31) << 33 | unit_random(1u << 31) << 2 | 1;
        const size_t count = unit_random(BITS + 1), at = unit_random((unsigned)(BITS - count) + 1),
                     to_at = unit_random((unsigned)(BITS - count) + 1);
        hak_bits_copy(to, to_at, from, at, count);
        for (size_t i = 0; i < BITS; i++) {
            const bool wanted = i - to_at < count && hak_bits_has(from, at + i - to_at);
            REQUIRE(hak_bits_has(to, i) == wanted, "bit %zu of %zu bits from %zu to %zu", i, count,
                    at, to_at);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_copy_has_the_bits_and_no_others)};
    return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
