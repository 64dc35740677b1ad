/* states.c - when a heap is freed, the pages of its blocks' states go back as well (hardened/state.h). The states of
 * 64 MiB of blocks of 16 bytes have 32 MiB: a class of 32 bytes for block and canary, 16 KiB for each unit of 64 KiB. */
#include <stddef.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { SIZE = 16, BYTES = 64 << 20, MOST_KIB = 20 * 1024 };

/* Each block holds the address of the one before. */
static void fill_and_free(void) {
    void **last = NULL;
    for (size_t i = 0; i < BYTES / SIZE; i++) {
        void **block = API(malloc)(SIZE);
        CHECK(block != NULL, "no memory for block %zu", i);
        *block = last;
        last = block;
    }
    while (last) {
        void **before = *last;
        API(free)(last);
        last = before;
    }
}

int main(void) {
    require_hakmem();
    const size_t before = proc_rss_kib();
    fill_and_free();
    API(malloc_trim)(0);
    const size_t after = proc_rss_kib();
    CHECK(after <= before + MOST_KIB, "%zu KiB stay resident, %zu before", after, before);
    fill_and_free(); /* the states of units that are used again */
    return 0;
}
