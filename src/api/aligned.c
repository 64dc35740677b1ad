/* aligned.c: aligned_alloc, posix_memalign and their kin, as the C, POSIX and Linux manual pages define
 * them. */
#include <errno.h>
#include <stdlib.h>

#include "api/export.h"
#include "api/malloc.h"
#include "api/valgrind.h"
#include "os/os.h"

void *hakmem_aligned_alloc(size_t align, size_t size) {
    if (HAK_UNLIKELY(!hak_is_pow2(align))) {
        errno = EINVAL;
        return NULL;
    }
    void *block = hak_pop_aligned(align, size);
    return HAK_LIKELY(block != NULL) ? block : hak_allocate_aligned(align, size, HAK_CALLER());
}
HAK_TWIN(void *, aligned_alloc, (size_t align, size_t size))

int hakmem_posix_memalign(void **out, size_t align, size_t size) {
    if (HAK_UNLIKELY(!hak_is_pow2(align) || align % sizeof(void *) != 0)) return EINVAL;
    void *block = hak_pop_aligned(align, size);
    if (HAK_UNLIKELY(!block)) {
        int saved = errno;
        block = hak_allocate_aligned(align, size, HAK_CALLER());
        errno = saved;
        if (!block) return ENOMEM;
    }
    *out = block;
    return 0;
}
HAK_TWIN(int, posix_memalign, (void **out, size_t align, size_t size))

void *hakmem_memalign(size_t align, size_t size) {
    if (HAK_UNLIKELY(align > SIZE_MAX / 2 + 1)) {
        errno = EINVAL;
        return NULL;
    }
    align = hak_ceil_pow2(align);
    void *block = hak_pop_aligned(align, size);
    return HAK_LIKELY(block != NULL) ? block : hak_allocate_aligned(align, size, HAK_CALLER());
}
HAK_TWIN(void *, memalign, (size_t align, size_t size))
HAK_LIBC_TWIN(void *, memalign, (size_t align, size_t size))

void *hakmem_valloc(size_t size) {
    return hak_allocate_aligned(hak_os_page_size(), size, HAK_CALLER());
}
HAK_TWIN(void *, valloc, (size_t size))
HAK_LIBC_TWIN(void *, valloc, (size_t size))

void *hakmem_pvalloc(size_t size) {
    size_t page = hak_os_page_size();
    if (HAK_UNLIKELY(size > PTRDIFF_MAX)) return hak_out_of_memory();
    return hak_allocate_aligned(page, hak_max(hak_align_up(size, page), page), HAK_CALLER());
}
HAK_TWIN(void *, pvalloc, (size_t size))
HAK_LIBC_TWIN(void *, pvalloc, (size_t size))
HAK_UNDER_VALGRIND(void *, pvalloc, (size_t size)) {
    size_t page = hak_os_page_size();
    return size > PTRDIFF_MAX ? hak_out_of_memory()
                              : aligned_alloc(page, hak_max(hak_align_up(size, page), page));
}
