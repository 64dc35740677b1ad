/* guards.c - words that could be addresses in guard units do not end a process that looks for leaks. Such a
 * word is kept for each unit beside its blocks, among which HAKMEM_PROFILE=HARDENED puts guards. */
#include <stdint.h>

#include "alloc_names.h"
#include "check.h"

enum { BLOCKS = 1000, SIZE = 3000, UNIT = 65536, BESIDE = 4 };

static uintptr_t words[BLOCKS][BESIDE];

int main(void) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        char *block = API(malloc)(SIZE);
        CHECK(block != NULL, "no block");
        for (unsigned k = 0; k < BESIDE; k++)
            *(volatile uintptr_t *)&words[i][k] =
                (uintptr_t)block / UNIT * UNIT + (uintptr_t)k * UNIT - UNIT;
    }
    return 0;
}
