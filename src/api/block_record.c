/* block_record.c: opens, closes and reads the debug records of blocks. */
#include "api/block_record.h"

#include "api/block_report.h"
#include "error/error.h"
#include "debug_record/record.h"

void *hak_block_record(void *start, size_t size, const void *site) {
    if (!start || !hak_records_settle()) return start;
    hak_block_t block = hak_block_of(start);
    if (hak_block_has_record(&block))
        hak_record_open(start, size, site);
    else if (block.kind == HAK_KIND_LARGE)
        hak_record_close(start); /* a fine block that has shrunk too far for a record */
    return start;
}

/* True for a block that is in use or has no record; reports any other. */
static bool judge(const char *function, const hak_block_t *block, hak_record_state_t state) {
    if (state == HAK_RECORD_IN_USE || state == HAK_RECORD_NONE) return true;
    hak_add_relaxed(&hak_record_errors, 1);
    if (state == HAK_RECORD_FREE)
        hak_block_report_double(function, block->start, block);
    else
        hak_error_report(
            function,
            "damaged record: %p is a block of %zu bytes whose debug record was overwritten",
            block->start, block->size);
    return false;
}

static bool has_size(const char *function, const hak_block_t *block, size_t size) {
    char text[HAK_BLOCK_ORIGIN_SIZE];
    hak_record_t record = hak_record_read(block->start);
    if (record.state != HAK_RECORD_IN_USE || record.size == size) return true;
    hak_add_relaxed(&hak_record_errors, 1);
    hak_error_report(function, "wrong size: %p is freed as a block of %zu %s%s", block->start,
                     HAK_ERROR_BYTES(size), hak_block_origin(block, block->start, text));
    return false;
}

bool hak_block_record_close(const char *function, const hak_block_t *block, size_t size) {
    if (!hak_block_has_record(block)) return true;
    if (size != (size_t)HAK_ANY_SIZE && !has_size(function, block, size)) return false;
    return judge(function, block, hak_record_close(block->start));
}

bool hak_block_record_refuses(const void *pointer, size_t size) {
    const hak_block_t block = hak_block_of(pointer);
    if (block.start != pointer || !hak_block_has_record(&block)) return false;
    const hak_record_t record = hak_record_read(pointer);
    if (record.state != HAK_RECORD_IN_USE) return record.state != HAK_RECORD_NONE;
    return size != (size_t)HAK_ANY_SIZE && size != record.size;
}

bool hak_block_record_is_open(const char *function, const hak_block_t *block) {
    return !hak_block_has_record(block) ||
           judge(function, block, hak_record_read(block->start).state);
}
