/* usable.c - on the hardened path, with all its parts and with none: realloc keeps all bytes that
 * malloc_usable_size allows, since programs use them; a large block that has room behind it stays. */
#include <malloc.h>
#include <string.h>

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

int main(void) {
    test_large_stays();
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_resize(sizes[i], sizes[i] + 1);
        test_resize(sizes[i], 2 * sizes[i] + 20);
        test_resize(sizes[i], 5 * sizes[i] + 4096);
        test_resize(sizes[i], sizes[i] / 3 + 1);
    }
    return 0;
}
