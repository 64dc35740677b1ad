/* usable_size.c: malloc_usable_size. */
#include "api/block.h"
#include "api/block_report.h"
#include "api/export.h"
#include "api/hardened_malloc.h"
#include "api/malloc.h"
#include "hardened/hardened.h"

static HAK_OUT_OF_LINE size_t usable_of_block(const void *pointer) {
    hak_block_t block = hak_block_of(pointer);
    if (hak_block_usable(&block)) return block.size;
    hak_block_report("malloc_usable_size", pointer, &block);
    return 0;
}

/* `row` is that of the block's unit; the first one, which is all zero, for an address outside the heap. */
static HAK_OUT_OF_LINE size_t usable_size(const void *pointer, const hak_class_t *row) {
    if (hak_hardened_on()) return hak_hardened_usable(pointer, row);
    const bool starts =
        hak_is_block_start(hak_block_offset((uintptr_t)pointer, row), row->start_test);
    if (HAK_LIKELY(starts && row->size)) return row->size;
    return pointer ? usable_of_block(pointer) : 0;
}

size_t hakmem_malloc_usable_size(const void *pointer) {
    const hak_class_t *row = hak_classes;
    return hak_tiny_row_of(pointer, &row) ? row->size : usable_size(pointer, row);
}
HAK_TWIN(size_t, malloc_usable_size, (const void *pointer))
