/* usable.c - on the hardened path, with all its parts and with none: realloc keeps all bytes that
 * malloc_usable_size allows, since programs use them. */
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

int main(void) {
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_resize(sizes[i], sizes[i] + 1);
        test_resize(sizes[i], 2 * sizes[i] + 20);
        test_resize(sizes[i], 5 * sizes[i] + 4096);
        test_resize(sizes[i], sizes[i] / 3 + 1);
    }
    return 0;
}
