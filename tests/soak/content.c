/* content.c - the loops over a block's bytes. Most of the soak's time is spent here, so the compiler
 * must be able to vectorise them. */
#include "content.h"

#include <string.h>

#define PAGE ((size_t)4096)
#define WORD sizeof(uint64_t)
#define STEP UINT64_C(0x9E3779B97F4A7C15)

static uint64_t make_key(const void *ptr, size_t size, uint64_t number) {
    uint64_t key = (uintptr_t)ptr * STEP ^ size * UINT64_C(0xC2B2AE3D27D4EB4F) ^ number * STEP;
    key ^= key >> 31;
    return key * UINT64_C(0xD6E8FEB86659FD93) | 1; /* never 0, as fresh memory is */
}

static uint64_t word_at(uint64_t key, size_t offset) { return key + offset / WORD * STEP; }

/* The offset in each page at which a sparse pattern has its word. */
static size_t place_in_page(uint64_t key) { return (size_t)(key >> 40) % (PAGE / WORD) * WORD; }

static void fill_dense(unsigned char *base, size_t size, uint64_t key) {
    uint64_t *words = (uint64_t *)base, word = key;
    size_t count = size / WORD;
    for (size_t i = 0; i < count; i++, word += STEP) words[i] = word;
    memcpy(base + count * WORD, &word, size % WORD);
}

static bool dense_is_right(const unsigned char *base, size_t limit, uint64_t key) {
    const uint64_t *words = (const uint64_t *)base;
    uint64_t word = key, differs = 0;
    size_t count = limit / WORD;
    for (size_t i = 0; i < count; i++, word += STEP) differs |= words[i] ^ word;
    return differs == 0 && memcmp(base + count * WORD, &word, limit % WORD) == 0;
}

/* The sparse pattern's offsets in order: the first word, one a page, the last whole word. */
static size_t next_offset(const struct content *content, size_t offset) {
    size_t last = (content->size - WORD) / WORD * WORD;
    size_t first = place_in_page(content->key);
    if (offset == 0 && first > 0) return first;
    return offset < last && offset + PAGE > last ? last : offset + PAGE;
}

static void fill_sparse(const struct content *content) {
    unsigned char *base = content->ptr;
    for (size_t at = 0; at + WORD <= content->size; at = next_offset(content, at))
        *(uint64_t *)(base + at) = word_at(content->key, at);
}

static bool sparse_is_right(const struct content *content, const unsigned char *base,
                            size_t limit) {
    uint64_t differs = 0;
    for (size_t at = 0; at + WORD <= limit; at = next_offset(content, at))
        differs |= *(const uint64_t *)(base + at) ^ word_at(content->key, at);
    return differs == 0;
}

struct content content_fill(void *ptr, size_t size, uint64_t number) {
    struct content content = {.ptr = ptr,
                              .size = size,
                              .key = make_key(ptr, size, number),
                              .number = number,
                              .whole = size <= CONTENT_DENSE || number % 100 == 0};
    if (content.whole)
        fill_dense(ptr, size, content.key);
    else
        fill_sparse(&content);
    return content;
}

bool content_is_right(const struct content *content, const void *ptr, size_t limit) {
    return content->whole ? dense_is_right(ptr, limit, content->key)
                          : sparse_is_right(content, ptr, limit);
}

static void look_at(const struct content *content, const unsigned char *base, size_t at,
                    size_t limit, struct content_fault *fault) {
    uint64_t expected = word_at(content->key, at), found = expected;
    memcpy(&found, base + at, limit - at < WORD ? limit - at : WORD);
    if (found == expected) return;
    fault->last = at;
    if (fault->count++ > 0) return;
    fault->offset = at;
    fault->expected = expected;
    fault->found = found;
}

struct content_fault content_fault(const struct content *content, const void *ptr, size_t limit) {
    struct content_fault fault = {0};
    if (content->whole)
        for (size_t at = 0; at < limit; at += WORD) look_at(content, ptr, at, limit, &fault);
    else
        for (size_t at = 0; at + WORD <= limit; at = next_offset(content, at))
            look_at(content, ptr, at, limit, &fault);
    return fault;
}

size_t content_first_nonzero(const void *ptr, size_t size) {
    const unsigned char *base = ptr;
    const uint64_t *words = ptr;
    uint64_t seen = 0;
    size_t count = size / WORD;
    for (size_t i = 0; i < count; i++) seen |= words[i];
    for (size_t at = count * WORD; at < size; at++) seen |= base[at];
    if (seen == 0) return size;
    size_t at = 0;
    while (base[at] == 0) at++;
    return at;
}
