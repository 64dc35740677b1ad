/* peak.c: what sites had in use at the peak. */
#include "unit.h"

#include "profile/peak.h"

static hak_site_t *site_at(uintptr_t frame) {
    hak_site_t *site = hak_site_of(&frame, 1, 16);
    assert_non_null(site);
    return site;
}

static hak_peak_t of_bytes(uint64_t bytes) {
    return (hak_peak_t){(uint64_t)1 << HAK_SITE_WEIGHT_BITS, bytes};
}

/* A site that stays as it is while a million peaks pass had nothing at any of them. */
static void no_number_of_a_peak_comes_again(void **state) {
    (void)state;
    enum { PEAKS = (1 << 21) + 100 };
    hak_site_t *rests = site_at(1), *grows = site_at(2);
    uint64_t before = hak_peak_bytes();
    hak_peak_enter(rests, of_bytes(10), 0);
    hak_peak_leave(rests, of_bytes(10));
    assert_int_equal(hak_peak_of(rests).bytes, 10);
    hak_peak_enter(grows, of_bytes(20), 0);
    for (unsigned i = 0; i < PEAKS; i++) {
        hak_peak_enter(grows, of_bytes(1), 0);
        REQUIRE(hak_peak_of(rests).bytes == 0, "after %u peaks a site had %lu bytes at the last",
                i + 1, (unsigned long)hak_peak_of(rests).bytes);
    }
    assert_int_equal(hak_peak_bytes() - before, 20 + PEAKS);
    assert_int_equal(hak_peak_of(grows).bytes, 20 + PEAKS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_number_of_a_peak_comes_again)};
    watchdog(100, "a test of peaks hangs");
    return cmocka_run_group_tests_name("peak", tests, NULL, NULL);
}
