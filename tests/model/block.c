/* block.c - patterns and checks.
 *
 * The 8 bytes at offset o hold a number made of the block's id and o, so a byte that belongs to
 * another block, or to another place, shows. Blocks above DENSE bytes are filled and checked at both
 * ends and at every page: otherwise the test would only measure memory bandwidth. */
#include "block.h"

#include <string.h>

#include "alloc_names.h"
#include "shadow.h"

#define DENSE ((size_t)8192)
#define EDGE ((size_t)1024)
#define STEP ((size_t)4096)
#define WORD sizeof(uint64_t)

static uint64_t pattern(uint64_t id, size_t offset) {
    return (id ^ (offset / WORD)) * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

/* One of both uses: write the pattern at an offset, or compare with it. The last word may be cut. */
static bool visit(const struct block *block, unsigned char *base, size_t offset, size_t limit,
                  bool write) {
    uint64_t word = pattern(block->id, offset);
    size_t bytes = limit - offset < WORD ? limit - offset : WORD;
    if (write) {
        memcpy(base + offset, &word, bytes);
        return true;
    }
    return memcmp(base + offset, &word, bytes) == 0;
}

static bool visit_range(const struct block *block, unsigned char *base, size_t from, size_t limit,
                        size_t step, bool write) {
    bool same = true;
    for (size_t offset = from; offset < limit; offset += step)
        same &= visit(block, base, offset, limit, write);
    return same;
}

/* Visits all of the block's pattern that lies below the limit. */
static bool visit_pattern(const struct block *block, unsigned char *base, size_t limit,
                          bool write) {
    if (block->usable <= DENSE) return visit_range(block, base, 0, limit, WORD, write);
    size_t tail = (block->usable - EDGE) / WORD * WORD;
    size_t head = limit < EDGE ? limit : EDGE;
    return visit_range(block, base, 0, head, WORD, write) &&
           visit_range(block, base, STEP, limit, STEP, write) &&
           (limit <= tail || visit_range(block, base, tail, limit, WORD, write));
}

const char *block_accept(struct block *block) {
    size_t natural = block->size > 8 ? 16 : 8;
    if ((uintptr_t)block->ptr % natural != 0)
        return "misaligned: not a multiple of 16 (8 for at most 8 bytes)";
    if (block->alignment != 0 && (uintptr_t)block->ptr % block->alignment != 0)
        return "misaligned: not at the alignment asked for";
    block->usable = API(malloc_usable_size)(block->ptr);
    if (block->usable < block->size) return "usable size is less than what was asked for";
    if (!shadow_claim(block->ptr, block->usable)) return "overlap with a live block";
    visit_pattern(block, block->ptr, block->usable, true);
    return NULL;
}

const char *block_verify(const struct block *block) {
    if (API(malloc_usable_size)(block->ptr) != block->usable) return "usable size has changed";
    if (!visit_pattern(block, block->ptr, block->usable, false)) return "contents have changed";
    return NULL;
}

bool block_is_prefix(const struct block *block, const void *ptr, size_t bytes) {
    return visit_pattern(block, (unsigned char *)(uintptr_t)ptr, bytes, false);
}

const char *block_retire(const struct block *block) {
    const char *wrong = block_verify(block);
    if (!shadow_release(block->ptr, block->usable) && wrong == NULL)
        wrong = "another block has claimed its bytes";
    return wrong;
}

bool bytes_are_zero(const void *ptr, size_t size) {
    const unsigned char *bytes = ptr;
    if (size == 0) return true;
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}
