/* free_sized.c: C23's frees to which the caller passes the size. operator delete with a size is in cxx.c. */
#include <stdlib.h>

#include "api/block.h"
#include "api/export.h"
#include "api/malloc.h"
#include "api/valgrind.h"
#include "hardened/hardened.h"

/* The size is checked against the debug record, if there is one; also on the hardened path, and in the debug
 * build. */
void hakmem_free_sized(void *pointer, size_t size) {
#if HAKMEM_DEBUG
    hak_block_t block = hak_block_of(pointer);
    HAK_ASSERT(hak_hardened_on() || !pointer || !hak_block_usable(&block) || size <= block.size);
#endif
    if (HAK_LIKELY(hak_push(pointer))) return;
    hak_release_sized(pointer, "free_sized", size);
}
HAK_TWIN(void, free_sized, (void *pointer, size_t size))
HAK_UNDER_VALGRIND(void, free_sized, (void *pointer, size_t size)) {
    (void)size;
    free(pointer);
}

void hakmem_free_aligned_sized(void *pointer, size_t align, size_t size) {
    HAK_ASSERT(hak_is_pow2(align) && ((uintptr_t)pointer & (align - 1)) == 0);
    (void)align;
    hakmem_free_sized(pointer, size);
}
HAK_TWIN(void, free_aligned_sized, (void *pointer, size_t align, size_t size))
HAK_UNDER_VALGRIND(void, free_aligned_sized, (void *pointer, size_t align, size_t size)) {
    (void)align, (void)size;
    free(pointer);
}
