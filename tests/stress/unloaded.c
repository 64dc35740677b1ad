/* unloaded.c - a library with an allocator of its own: the archive. See unload.c. */
#include <stdbool.h>
#include <string.h>

#include "hakmem.h"

enum { BLOCK_SIZE = 4000, BLOCKS = 15000 };

bool allocate(void), allocate_much(void);
bool allocate(void) {
    char *block = hakmem_malloc(100);
    if (!block) return false;
    memset(block, 1, 100);
    hakmem_free(block);
    return true;
}

/* A heap so large that a helper thread would serve a program. */
bool allocate_much(void) {
    static char *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hakmem_malloc(BLOCK_SIZE);
        if (!blocks[i]) return false;
        memset(blocks[i], 1, BLOCK_SIZE);
    }
    for (unsigned i = 0; i < BLOCKS; i++) hakmem_free(blocks[i]);
    return true;
}
