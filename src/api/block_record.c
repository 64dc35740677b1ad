/* block_record.c: what a block's debug record tells; reports misuse, with the record where there is one. */
#include "api/block_record.h"

#include <stdio.h>

#include "error/error.h"
#include "hardened/guard_sample.h"
#include "os/module.h"
#include "debug_record/record.h"

enum { ORIGIN_SIZE = 120, MODULE_SIZE = 48 };

/* True when a debug record at the block's start may belong to the block, or to the previous block
 * there. False in a slab of tiny blocks, since the record may belong to an older mid block that
 * began at the same address; for a block that was cut so short, since others begin in the same 2 KiB;
 * and outside the region. */
static bool has_record(const hak_block_t *block) {
    bool is_cached = block->class_index != HAK_CLASS_NONE && block->class_index != HAK_CLASS_LARGE;
    if (!block->unit || (is_cached && hak_tier_of_class(block->class_index) != HAK_MID))
        return false;
    if (!is_cached && block->size && block->size <= HAK_TINY_MAX) return false;
    return hak_records_settle();
}

void *hak_block_record(void *start, size_t size, const void *site) {
    if (!start || !hak_records_settle()) return start;
    hak_block_t block = hak_block_of(start);
    if (has_record(&block)) hak_record_open(start, size, site);
    return start;
}

/* Writes " (3000 bytes, allocated at prog+0x1234)" for a block, or for the last block that began
 * at `start`; an empty text without a record. The address lies in the call instruction, as
 * addr2line needs it. */
static const char *origin(const hak_block_t *block, const void *start, char text[ORIGIN_SIZE]) {
    char module[MODULE_SIZE];
    uintptr_t offset;
    hak_record_t record = {.state = HAK_RECORD_NONE};
    text[0] = 0;
    if (has_record(block)) record = hak_record_read(start);
    if (record.state != HAK_RECORD_IN_USE && record.state != HAK_RECORD_FREE) return text;
    const char *site = record.site;
    if (!site)
        snprintf(text, ORIGIN_SIZE, " (%zu %s)", HAK_ERROR_BYTES(record.size));
    else if (hak_os_module_of(site - 1, module, sizeof module, &offset))
        snprintf(text, ORIGIN_SIZE, " (%zu %s, allocated at %s+%#zx)", HAK_ERROR_BYTES(record.size),
                 module, (size_t)offset);
    else
        snprintf(text, ORIGIN_SIZE, " (%zu %s, allocated at %p)", HAK_ERROR_BYTES(record.size),
                 (const void *)(site - 1));
    return text;
}

static void report_double(const char *function, const void *pointer, const hak_block_t *block) {
    char text[ORIGIN_SIZE];
    if (block->size)
        hak_error_report(function, HAK_ERROR_DOUBLE_FREE "%s", pointer, block->size,
                         origin(block, block->start, text));
    else
        hak_error_report(function, "double free: %p lies in memory that is already free%s", pointer,
                         origin(block, pointer, text));
}

/* True for a block that is in use or has no record; reports any other. */
static bool judge(const char *function, const hak_block_t *block, hak_record_state_t state) {
    if (state == HAK_RECORD_IN_USE || state == HAK_RECORD_NONE) return true;
    hak_add_relaxed(&hak_record_errors, 1);
    if (state == HAK_RECORD_FREE)
        report_double(function, block->start, block);
    else
        hak_error_report(
            function,
            "damaged record: %p is a block of %zu bytes whose debug record was overwritten",
            block->start, block->size);
    return false;
}

static bool has_size(const char *function, const hak_block_t *block, size_t size) {
    char text[ORIGIN_SIZE];
    hak_record_t record = hak_record_read(block->start);
    if (record.state != HAK_RECORD_IN_USE || record.size == size) return true;
    hak_add_relaxed(&hak_record_errors, 1);
    hak_error_report(function, "wrong size: %p is freed as a block of %zu %s%s", block->start,
                     HAK_ERROR_BYTES(size), origin(block, block->start, text));
    return false;
}

bool hak_block_record_close(const char *function, const hak_block_t *block, size_t size) {
    if (!has_record(block)) return true;
    if (size != (size_t)HAK_ANY_SIZE && !has_size(function, block, size)) return false;
    return judge(function, block, hak_record_close(block->start));
}

bool hak_block_record_refuses(const void *pointer, size_t size) {
    const hak_block_t block = hak_block_of(pointer);
    if (block.start != pointer || !has_record(&block)) return false;
    const hak_record_t record = hak_record_read(pointer);
    if (record.state != HAK_RECORD_IN_USE) return record.state != HAK_RECORD_NONE;
    return size != (size_t)HAK_ANY_SIZE && size != record.size;
}

bool hak_block_record_is_open(const char *function, const hak_block_t *block) {
    return !has_record(block) || judge(function, block, hak_record_read(block->start).state);
}

void hak_block_record_report(const char *function, const void *pointer, const hak_block_t *block) {
    char text[ORIGIN_SIZE];
    if (hak_guard_sample_has(pointer)) {
        hak_guard_sample_report(function, pointer);
    } else if (block->kind == HAK_KIND_FREED || hak_block_usable(block)) {
        report_double(function, pointer, block);
    } else if (block->kind == HAK_KIND_INSIDE) {
        size_t offset = (uintptr_t)pointer - (uintptr_t)block->start;
        hak_error_report(
            function,
            (uintptr_t)pointer % 8
                ? "misaligned pointer: %p lies %zu %s inside a block of %zu bytes at %p%s"
                : "interior pointer: %p lies %zu %s inside a block of %zu bytes at %p%s",
            pointer, HAK_ERROR_BYTES(offset), block->size, block->start,
            origin(block, block->start, text));
    } else {
        hak_error_report(function, "foreign pointer: %p was not allocated by hakmem", pointer);
    }
}
