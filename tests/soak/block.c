/* block.c - reports of blocks whose bytes are wrong. */
#include "block.h"

#include <inttypes.h>

#include "check.h"

#define CALL_TEXT(name, text) text,

static const char *const makers[] = {TALLY_CALLS(CALL_TEXT)};

void block_check(const struct block *block, const void *ptr, size_t limit, uint64_t life,
                 const char *when) {
    const struct content *content = &block->content;
    if (limit > content->size) limit = content->size;
    if (content_is_right(content, ptr, limit)) return;
    struct content_fault fault = content_fault(content, ptr, limit);
    check_failed("soak", (int)life,
                 "%s: block %p of %zu bytes (%zu filled, %s; now at %p), number %" PRIu64
                 ", made by thread %" PRIu64 " with %s, has changed: offset %zu expected %#" PRIx64
                 " found %#" PRIx64 "; %zu wrong words of those looked at, the last at offset %zu; "
                 "found by thread %" PRIu64,
                 when, content->ptr, block->size, content->size,
                 content->whole ? "every word" : "a word a page", ptr, content->number,
                 block->maker, makers[block->made_by], fault.offset, fault.expected, fault.found,
                 fault.count, fault.last, life);
}

void block_check_here(const struct block *block, uint64_t life, const char *when) {
    block_check(block, block->content.ptr, block->content.size, life, when);
}
