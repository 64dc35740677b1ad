/* reach.c: an overflow of a block reaches no record of the allocator: from a block of any tier, upwards and
 * downwards, there is none before the first fault.
 *
 * A child walks page by page and writes back what it reads, so it changes nothing. */
#include "unit.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meta/meta.h"
#include "os/os.h"
#include "os/range.h"
#include "region/region.h"

enum { BLOCKS = 400, SECONDS = 100, RANGES_MAX = 64 };

static const size_t sizes[] = {1,     16,    100,    1000,    2048,    3000,    8192,    20000,
                               65536, 70000, 500000, 1 << 20, 2 << 20, 5000000, 40 << 20};

typedef struct {
    uintptr_t start, end;
} range_t;

static range_t records[RANGES_MAX];
static unsigned record_count;

static void note_range(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    (void)context;
    if (kind != HAK_RANGE_RECORDS || size == 0) return;
    CHECK(record_count < RANGES_MAX, "many ranges of records");
    records[record_count++] = (range_t){(uintptr_t)start, (uintptr_t)start + size};
}

static sigjmp_buf back;

static void on_fault(int signal_number) { siglongjmp(back, signal_number); }

/* The first page that cannot be written to, in steps of a page up or down. */
static uintptr_t walk(uintptr_t from, intptr_t step) {
    static volatile uintptr_t at;
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    at = from;
    if (sigsetjmp(back, 1) == 0)
        for (;; at += (uintptr_t)step) {
            volatile char *byte = (volatile char *)at;
            *byte = *byte;
        }
    return at;
}

static void check_between(uintptr_t low, uintptr_t high, size_t size, const char *way) {
    for (unsigned i = 0; i < record_count; i++)
        CHECK(records[i].end <= low || records[i].start >= high,
              "%s from a block of %zu bytes at %#zx lie the records %#zx..%#zx before a fault", way,
              size, (size_t)low, (size_t)records[i].start, (size_t)records[i].end);
}

static void *blocks[sizeof sizes / sizeof *sizes][BLOCKS];

/* Not each block: all that lie in one mapping see the same. */
static void walk_from_all(const void *unused) {
    uintptr_t page = hak_os_page_size(), up_to = 0;
    (void)unused;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned i = 0; i < BLOCKS && blocks[s][i]; i++) {
            uintptr_t start = (uintptr_t)blocks[s][i] & ~(page - 1);
            static uintptr_t low, high; /* of the walk before */
            if (start >= low && start < high) continue;
            high = walk(start, (intptr_t)page);
            low = walk(start, -(intptr_t)page) + page;
            check_between(start, high, sizes[s], "above");
            check_between(low, start, sizes[s], "below");
            up_to = high;
        }
    CHECK(up_to != 0, "nothing was walked");
}

static void no_records_are_in_reach(void **state) {
    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (unsigned i = 0; i < BLOCKS && i * sizes[s] < (size_t)200 << 20; i++)
            REQUIRE((blocks[s][i] = malloc(sizes[s])) != NULL, "no memory");
    hak_region_each_range(note_range, NULL);
    hak_meta_each_range(note_range, NULL);
    assert_true(record_count >= 4);
    unit_child(walk_from_all, NULL, SECONDS, "a walk over all that can be written to");
}

/* The records themselves: the page below and the page behind of each are no use to anybody. */
static void is_cut_off(const void *unused) {
    uintptr_t page = hak_os_page_size();
    (void)unused;
    for (unsigned i = 0; i < record_count; i++) {
        uintptr_t start = records[i].start, end = records[i].end;
        CHECK(walk(start - page, (intptr_t)page) == start - page, "%#zx has no guard below",
              (size_t)start);
        CHECK(walk(end, (intptr_t)page) == end, "%#zx has no guard behind", (size_t)start);
    }
}

static void every_range_of_records_has_guards(void **state) {
    (void)state;
    unit_child(is_cut_off, NULL, SECONDS, "a look at the guards");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_records_are_in_reach),
        cmocka_unit_test(every_range_of_records_has_guards),
    };
    return cmocka_run_group_tests_name("reach", tests, NULL, NULL);
}
