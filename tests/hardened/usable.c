/* usable.c - on the hardened path, with all its parts and with none: realloc keeps all bytes that
 * malloc_usable_size allows, since programs use them; a large block that has room behind it stays. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

static const size_t sizes[] = {1, 9, 24, 100, 1000, 1025, 5000, 40000, 70001, 500001, 3000001};

static void test_resize(size_t from, size_t to) {
    char *block = API(malloc)(from);
    size_t usable = API(malloc_usable_size)(block);
    CHECK(usable >= from, "%zu bytes have %zu usable ones", from, usable);
    memset(block, 'x', usable);
    block = API(realloc)(block, to);
    for (size_t i = 0; i < usable && i < to; i++)
        CHECK(block[i] == 'x', "byte %zu of %zu is lost, from %zu to %zu", i, usable, from, to);
    API(free)(block);
}

static void test_large_stays(void) {
    static const size_t steps[] = {200000, 600000, 900000, 300000, 65537, 65536};
    char *block = API(malloc)(100000);
    memset(block, 'x', 65536);
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *resized = API(realloc)(block, steps[i]);
        CHECK(resized == block, "%zu bytes are elsewhere", steps[i]);
        memset(resized + 65536, 'y', steps[i] - 65536);
        CHECK(resized[65535] == 'x', "a byte is lost");
    }
    API(free)(block);
}

/* The table of states has 2 MiB of addresses, of which a small process uses a page: a huge page would
 * bring all of it. */
static void test_table_has_small_pages(void) {
    char line[1024];
    unsigned long size = 0;
    unsigned tables = 0;
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) return;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL, "no maps");
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) size = to - from;
        if (size == 2 << 20 && strncmp(line, "VmFlags:", 8) == 0)
            tables += strstr(line, " nh") != NULL;
    }
    fclose(maps);
    CHECK(tables > 0, "no table without huge pages");
}

int main(void) {
    test_table_has_small_pages();
    test_large_stays();
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_resize(sizes[i], sizes[i] + 1);
        test_resize(sizes[i], 2 * sizes[i] + 20);
        test_resize(sizes[i], 5 * sizes[i] + 4096);
        test_resize(sizes[i], sizes[i] / 3 + 1);
    }
    return 0;
}
