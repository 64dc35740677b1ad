/* dontneed.c: the first purge tests whether the system clears purged pages. A program that writes to a
 * freed block at that moment does not change the result. And what an error of mmap means, and of munmap. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>

#include "os/os.h"

enum { SIZE = 64 * 1024, PAGE = 4096 };

static char *written_to; /* the program writes there after madvise */
static int map_error;    /* of the next calls of mmap; 0: none */

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

/* The same where there is no memory for a test that nobody disturbs: the next purge makes it. free may be the caller. */
static void purge_without_memory(const void *unused) {
    (void)unused;
    char *first = hak_os_map(SIZE, SIZE), *second = hak_os_map(SIZE, SIZE);
    CHECK(first && second, "no memory");
    written_to = first;
    map_error = ENOMEM;
    errno = EDOM;
    CHECK(!hak_os_purge(first, SIZE), "nobody knows whether it was purged");
    CHECK(errno == EDOM, "a purge has set errno to %d", errno);
    map_error = 0;
    *second = 1;
    CHECK(hak_os_purge(second, SIZE) && *second == 0, "nothing is purged any more");
}

static void a_test_without_memory_decides_nothing(void **state) {
    (void)state;
    unit_child(purge_without_memory, NULL, 20, "a purge");
}

/* As if the process had all mappings that it may have, and each new one had been merged with the page above it: no
 * mapping can be split. */
static bool at_limit;
static unsigned neighbours; /* such pages */

void *__real_mmap(void *addr, size_t size, int prot, int flags, int file, off_t offset);
void *__wrap_mmap(void *addr, size_t size, int prot, int flags, int file, off_t offset);
void *__wrap_mmap(void *addr, size_t size, int prot, int flags, int file, off_t offset) {
    errno = map_error;
    if (map_error) return MAP_FAILED;
    if (!at_limit || addr) return __real_mmap(addr, size, prot, flags, file, offset);
    neighbours++;
    return __real_mmap(NULL, size + PAGE, prot, flags, file, offset);
}

static bool is_mapped(char *page) { return msync(page, PAGE, MS_ASYNC) == 0; }

int __real_munmap(void *addr, size_t size);
int __wrap_munmap(void *addr, size_t size);
int __wrap_munmap(void *addr, size_t size) {
    char *first = addr;
    errno = ENOMEM;
    if (at_limit && is_mapped(first - PAGE) && is_mapped(first + size)) return -1;
    return __real_munmap(addr, size);
}

/* Addresses that are TAKEN are gone round for ever. */
static void only_a_mapping_takes_addresses(void **state) {
    static const int errors[] = {ENOMEM, EAGAIN, EINVAL, EPERM, ENOSYS};
    (void)state;
    char *addr = hak_os_map(SIZE, SIZE);
    REQUIRE(addr, "no memory");
    CHECK(hak_os_map_at(addr, SIZE) == HAK_OS_TAKEN, "what is mapped is not taken");
    hak_os_unmap(addr, SIZE);
    for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) {
        map_error = errors[i];
        hak_os_answer_t answer = hak_os_map_at(addr, SIZE);
        map_error = 0;
        CHECK(answer == HAK_OS_REFUSED, "error %d: answer %d", errors[i], (int)answer);
    }
    CHECK(hak_os_map_at(addr, SIZE) == HAK_OS_MAPPED, "the addresses are not to be had again");
    hak_os_unmap(addr, SIZE);
}

static size_t mapped_pages(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1, "no statm");
    fclose(file);
    return pages;
}

static void what_is_aligned_loses_no_addresses(void **state) {
    enum { ALIGN = 64 << 20, TIMES = 20 };
    (void)state;
    char *kept[TIMES];
    const size_t before = mapped_pages();
    at_limit = true;
    for (unsigned i = 0; i < TIMES; i++) {
        kept[i] = hak_os_map(SIZE, ALIGN);
        CHECK(kept[i] && (uintptr_t)kept[i] % ALIGN == 0, "%p is not aligned", (void *)kept[i]);
    }
    at_limit = false;
    const size_t more = mapped_pages() - before - neighbours;
    CHECK(more < TIMES * (SIZE / PAGE + 1), "%zu pages are mapped for %u blocks of %u", more,
          (unsigned)TIMES, (unsigned)(SIZE / PAGE));
    for (unsigned i = 0; i < TIMES; i++) hak_os_unmap(kept[i], SIZE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_test_without_memory_decides_nothing), /* the first: see above */
        cmocka_unit_test(a_write_after_free_stops_no_purge),
        cmocka_unit_test(only_a_mapping_takes_addresses),
        cmocka_unit_test(what_is_aligned_loses_no_addresses),
    };
    return cmocka_run_group_tests_name("dontneed", tests, NULL, NULL);
}
