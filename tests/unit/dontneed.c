/* dontneed.c: the first purge tests whether the system clears purged pages. A program that writes to a
 * freed block at that moment does not change the result. */
#include "unit.h"

#include <sys/mman.h>

#include "os/os.h"

enum { SIZE = 64 * 1024 };

static char *written_to; /* the program writes there after madvise */

int __real_madvise(void *addr, size_t size, int advice);
int __wrap_madvise(void *addr, size_t size, int advice);
int __wrap_madvise(void *addr, size_t size, int advice) {
    int result = __real_madvise(addr, size, advice);
    if (advice == MADV_DONTNEED && addr == written_to) *written_to = 1;
    return result;
}

static void a_write_after_free_stops_no_purge(void **state) {
    (void)state;
    char *first = hak_os_map(SIZE, SIZE), *second = hak_os_map(SIZE, SIZE);
    REQUIRE(first && second, "no memory");
    written_to = first;
    CHECK(hak_os_purge(first, SIZE), "nothing is purged after a write to a freed block");
    *second = 1;
    CHECK(hak_os_purge(second, SIZE) && *second == 0, "the next purge does not work");
    hak_os_unmap(first, SIZE);
    hak_os_unmap(second, SIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_after_free_stops_no_purge),
    };
    return cmocka_run_group_tests_name("dontneed", tests, NULL, NULL);
}
