/* api.h - shared by the conformance tests: cmocka, the names under test, sizes to try. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_names.h"
#include "check.h"

/* Both sides of every border between bands, tiers and ways to serve a request. */
static const size_t border_sizes[] = {
    1,       7,
    8,       9,
    15,      16,
    17,      31,
    32,      33,
    48,      63,
    64,      65,
    100,     127,
    128,     129,
    255,     256,
    257,     511,
    512,     513,
    1000,    1024,
    1040,    2047,
    2048,    2049,
    4095,    4096,
    4097,    8192,
    14336,   32767,
    32768,   32769,
    65535,   65536,
    65537,   131072,
    262144,  524288,
    1 << 20, (1 << 20) + 1,
    4 << 20, (4 << 20) + 1,
};

#define BORDER_COUNT (sizeof border_sizes / sizeof border_sizes[0])

/* A size that no allocator can serve; volatile, or the compiler would say so. */
static volatile const size_t beyond_limit = (size_t)PTRDIFF_MAX + 1;
static volatile const size_t near_size_max = SIZE_MAX - 64;

/* errno before a call that must leave it alone. */
#define ERRNO_MARK 4242

/* Checks that the call gives NULL and sets errno to the code. */
#define assert_refused(call, code)     \
    do {                               \
        errno = 0;                     \
        void *refused_ = (call);       \
        assert_null(refused_);         \
        assert_int_equal(errno, code); \
    } while (0)

/* Is ptr at a multiple of the alignment? */
static inline bool is_at(const void *ptr, size_t alignment) {
    return (uintptr_t)ptr % alignment == 0;
}

/* Runs the group, after it has proved that HAKMEM is what is tested. */
#define run_group(tests) \
    (watchdog(120, "an API group"), require_hakmem(), cmocka_run_group_tests(tests, NULL, NULL))
