/* unloaded.c - a library with an allocator of its own: the archive. See unload.c. */
#include <stdbool.h>
#include <string.h>

#include "hakmem.h"

bool allocate(void);
bool allocate(void) {
    char *block = hakmem_malloc(100);
    if (!block) return false;
    memset(block, 1, 100);
    hakmem_free(block);
    return true;
}
