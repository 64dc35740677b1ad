/* block_report.c: the line of a wrong pointer or a second free, with the block's debug record where there is one. */
#include "api/block_report.h"

#include <stdio.h>

#include "debug_record/record.h"
#include "error/error.h"
#include "hardened/guard_sample.h"
#include "os/module.h"

enum { MODULE_SIZE = 48 };

const char *hak_block_origin(const hak_block_t *block, const void *start,
                             char text[HAK_BLOCK_ORIGIN_SIZE]) {
    char module[MODULE_SIZE];
    uintptr_t offset;
    hak_record_t record = {.state = HAK_RECORD_NONE};
    text[0] = 0;
    if (hak_block_has_record(block)) record = hak_record_read(start);
    if (record.state != HAK_RECORD_IN_USE && record.state != HAK_RECORD_FREE) return text;
    const char *site = record.site;
    if (!site)
        snprintf(text, HAK_BLOCK_ORIGIN_SIZE, " (%zu %s)", HAK_ERROR_BYTES(record.size));
    else if (hak_os_module_of(site - 1, module, sizeof module, &offset))
        snprintf(text, HAK_BLOCK_ORIGIN_SIZE, " (%zu %s, allocated at %s+%#zx)",
                 HAK_ERROR_BYTES(record.size), module, (size_t)offset);
    else
        snprintf(text, HAK_BLOCK_ORIGIN_SIZE, " (%zu %s, allocated at %p)",
                 HAK_ERROR_BYTES(record.size), (const void *)(site - 1));
    return text;
}

void hak_block_report_double(const char *function, const void *pointer, const hak_block_t *block) {
    char text[HAK_BLOCK_ORIGIN_SIZE];
    if (block->size)
        hak_error_report(function, HAK_ERROR_DOUBLE_FREE "%s", pointer, block->size,
                         hak_block_origin(block, block->start, text));
    else
        hak_error_report(function, "double free: %p lies in memory that is already free%s", pointer,
                         hak_block_origin(block, pointer, text));
}

void hak_block_report(const char *function, const void *pointer, const hak_block_t *block) {
    char text[HAK_BLOCK_ORIGIN_SIZE];
    if (hak_guard_sample_has(pointer)) {
        hak_guard_sample_report(function, pointer);
    } else if (block->kind == HAK_KIND_FREED || hak_block_usable(block)) {
        hak_block_report_double(function, pointer, block);
    } else if (block->kind == HAK_KIND_INSIDE) {
        size_t offset = (uintptr_t)pointer - (uintptr_t)block->start;
        hak_error_report(
            function,
            (uintptr_t)pointer % 8
                ? "misaligned pointer: %p lies %zu %s inside a block of %zu bytes at %p%s"
                : "interior pointer: %p lies %zu %s inside a block of %zu bytes at %p%s",
            pointer, HAK_ERROR_BYTES(offset), block->size, block->start,
            hak_block_origin(block, block->start, text));
    } else {
        hak_error_report(function, "foreign pointer: %p was not allocated by hakmem", pointer);
    }
}
