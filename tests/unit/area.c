/* area.c: growth in place, inaccessible ends, and growth where a foreign mapping is in the way. */
#include "unit.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "commit/commit.h"
#include "meta/area.h"
#include "os/os.h"
#include "os/window.h"

static const size_t room = 64 * MIB;

/* Addresses that nobody uses, and none of the engine's. */
static char *free_place(void) {
    char *start = mmap(NULL, 4 * room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(start != MAP_FAILED, "no addresses");
    munmap(start, 4 * room);
    return (char *)hak_align_up((uintptr_t)start, MIB) + room;
}

static void place(hak_area_t *area) {
    assert_int_equal(hak_area_place(area, free_place(), room, "test"), HAK_OS_MAPPED);
}

/* Where addresses are limited, the ones behind the records are the program's. */
static void little_is_reserved_ahead(void **state) {
    (void)state;
    hak_area_t area;
    place(&area);
    for (size_t want = HAK_AREA_STEP; want < area.limit; want += HAK_AREA_STEP) {
        assert_int_equal(hak_area_commit(&area, 0, want), HAK_OS_MAPPED);
        assert_true(area.reserved <= want + hak_max(want / 4, MIB) + HAK_AREA_STEP);
    }
    hak_area_remove(&area);
}

static void what_is_committed_can_be_used(void **state) {
    (void)state;
    hak_area_t area;
    place(&area);
    size_t charged = hak_commit_bytes();
    for (size_t want = 1; want <= room; want = want * 3 + 1000) {
        assert_int_equal(hak_area_commit(&area, 0, want), HAK_OS_MAPPED);
        assert_true(area.committed >= want && area.committed < want + HAK_AREA_STEP);
        assert_true(area.committed + hak_os_page_size() <= area.reserved);
        assert_int_equal(hak_commit_bytes() - charged, area.committed);
        memset(area.base + want / 3, 1, want - want / 3);
        assert_int_equal(hak_area_commit(&area, 0, want / 2), HAK_OS_MAPPED);
    }
    assert_int_equal(hak_area_commit(&area, 0, area.limit), HAK_OS_TAKEN);
    hak_area_remove(&area);
    assert_int_equal(hak_commit_bytes(), charged);
}

/* Records that nobody will write to: they can be read, and are not charged. */
static void what_is_skipped_is_not_charged(void **state) {
    (void)state;
    hak_area_t area;
    size_t page = hak_os_page_size(), from = 20 * MIB + 100, end = 24 * MIB;
    place(&area);
    size_t charged = hak_commit_bytes();
    assert_int_equal(hak_area_commit(&area, 0, MIB), HAK_OS_MAPPED);
    assert_int_equal(hak_commit_bytes() - charged, MIB);
    assert_int_equal(hak_area_commit(&area, from, end), HAK_OS_MAPPED);
    assert_int_equal(area.committed, end);
    assert_int_equal(area.uncharged, (from & ~(page - 1)) - MIB);
    assert_int_equal(hak_commit_bytes() - charged, hak_area_charged(&area));
    for (size_t i = MIB; i < from; i += page) assert_int_equal(area.base[i], 0);
    memset(area.base + from, 1, end - from);
    /* What is accessible already stays charged. */
    assert_int_equal(hak_area_commit(&area, end, end - 1), HAK_OS_MAPPED);
    assert_int_equal(hak_area_commit(&area, 2 * MIB, end + MIB), HAK_OS_MAPPED);
    assert_int_equal(hak_commit_bytes() - charged, MIB + (end - (from & ~(page - 1))) + MIB);
    hak_area_remove(&area);
    assert_int_equal(hak_commit_bytes(), charged);
}

static void write_to(const void *context) {
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    **(volatile char *const *)context = 1;
}

static void must_fault(char *at, const char *what) {
    struct child_end end;
    child_run(write_to, &at, 20, &end);
    REQUIRE(end.in_time && WIFSIGNALED(end.status), "%s is accessible", what);
}

static void both_ends_are_inaccessible(void **state) {
    (void)state;
    hak_area_t area;
    place(&area);
    for (size_t want = 1; want < room; want *= 30) {
        assert_int_equal(hak_area_commit(&area, 0, want), HAK_OS_MAPPED);
        must_fault(area.base - 1, "the byte below");
        must_fault(area.base - hak_os_page_size(), "the first byte of the guard");
        must_fault(area.base + area.committed, "the byte behind");
        must_fault(area.base + area.committed + hak_os_page_size() - 1,
                   "the last byte of the guard");
    }
    hak_area_remove(&area);
}

/* The doubling does not fit in front of it, what is needed does. */
static void growth_ends_at_others_memory(void **state) {
    (void)state;
    hak_area_t area;
    place(&area);
    char *foreign = mmap(area.base + 4 * MIB, MIB, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    REQUIRE(foreign != MAP_FAILED, "no place");
    memset(foreign, 0x5A, MIB);
    assert_int_equal(hak_area_commit(&area, 0, 4 * MIB - hak_os_page_size()), HAK_OS_MAPPED);
    memset(area.base, 1, area.committed);
    assert_int_equal(hak_area_commit(&area, 0, 4 * MIB), HAK_OS_TAKEN);
    assert_int_equal(area.committed, 4 * MIB - hak_os_page_size());
    must_fault(area.base + area.committed, "the byte behind");
    for (size_t i = 0; i < MIB; i++) REQUIRE(foreign[i] == 0x5A, "others' memory has changed");
    hak_area_t other;
    assert_int_equal(hak_area_place(&other, foreign - hak_os_page_size(), MIB, "test"),
                     HAK_OS_TAKEN);
    assert_null(other.base);
    hak_area_remove(&area);
    munmap(foreign, MIB);
}

/* Another process has another window: started anew, since a fork's child has the same. */
static void places_are_usable_and_stay(void **state) {
    (void)state;
    size_t size, again;
    for (unsigned attempt = 0; attempt < 6; attempt++) {
        char *start = hak_os_window(attempt, &size);
        assert_non_null(start);
        assert_ptr_equal(hak_os_window(attempt, &again), start);
        assert_int_equal(size, again);
        assert_true(hak_is_pow2(size) && size >= 64 * MIB);
        assert_int_equal((uintptr_t)start % (4 * MIB), 0);
    }
    assert_non_null(hak_os_window(6, &size));
    assert_null(hak_os_window(1000, &size));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_committed_can_be_used),
        cmocka_unit_test(little_is_reserved_ahead),
        cmocka_unit_test(what_is_skipped_is_not_charged),
        cmocka_unit_test(both_ends_are_inaccessible),
        cmocka_unit_test(growth_ends_at_others_memory),
        cmocka_unit_test(places_are_usable_and_stay),
    };
    return cmocka_run_group_tests_name("area", tests, NULL, NULL);
}
