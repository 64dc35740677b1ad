/* inspect.c: the public functions hakmem_verify, hakmem_bounds and hakmem_version. */
#include "api/block.h"
#include "api/export.h"
#include "api/hardened_malloc.h"
#include "hardened/hardened.h"
#include "thread/verify.h"

size_t hakmem_verify(void) { return hak_verify(); }

int hakmem_bounds(const void *pointer, void **start, void **end) {
    hak_block_t block = hak_block_of(pointer);
    bool in_use = hak_block_usable(&block) || block.kind == HAK_KIND_INSIDE;
    if (hak_hardened_on()) in_use = hak_hardened_bounds(pointer, &block.start, &block.size);
    if (!in_use) return block.kind == HAK_KIND_FOREIGN ? 0 : -1;
    *start = block.start;
    *end = (char *)block.start + block.size;
    return 1;
}

int hakmem_version(void) { return HAKMEM_VERSION; }
