/* meta.c: power-of-two free lists over chunks that are cut from low to high. */
#include "region/meta.h"

#include "os/os.h"
#include "region/commit.h"
#include "region/range.h"

enum {
    LEAST_SHIFT = 4,
    SHIFT_COUNT = 40,
    CHUNKS_MAX = 32, /* that are remembered, neighbours being one */
};

/* A free block's first word links it: these are our blocks, not the user's. */
typedef struct node {
    struct node *next;
} node_t;

hak_lock_t hak_meta_lock;

/* All under the lock. */
static node_t *lists[SHIFT_COUNT];
static char *chunk_next, *chunk_end;
static size_t chunk_bytes_total;
static struct {
    char *start;
    size_t size;
} chunks[CHUNKS_MAX];
static unsigned chunk_count;

static unsigned shift_of(size_t size) {
    if (size <= (1u << LEAST_SHIFT)) return LEAST_SHIFT;
    return hak_highest_bit(size - 1) + 1;
}

/* What is left of a chunk goes to the lists, in the largest aligned pieces. */
static void retire_chunk(void) {
    while (chunk_next < chunk_end) {
        unsigned shift = hak_lowest_bit((uintptr_t)chunk_next);
        while (chunk_next + ((size_t)1 << shift) > chunk_end) shift--;
        node_t *node = (node_t *)(void *)chunk_next;
        node->next = lists[shift];
        lists[shift] = node;
        chunk_next += (size_t)1 << shift;
    }
}

static char *map_chunk(size_t size) {
    if (!hak_commit_charge(size)) return NULL;
    char *chunk = hak_os_map(size, hak_os_page_size());
    if (chunk)
        hak_os_name(chunk, size, "hakmem: records");
    else
        hak_commit_release(size);
    return chunk;
}

static void remember(char *chunk, size_t size) {
    for (unsigned i = 0; i < chunk_count; i++) {
        bool below = chunk + size == chunks[i].start;
        if (!below && chunks[i].start + chunks[i].size != chunk) continue;
        if (below) chunks[i].start = chunk;
        chunks[i].size += size;
        return;
    }
    if (chunk_count == CHUNKS_MAX) return; /* in /proc it still has its name */
    chunks[chunk_count].start = chunk;
    chunks[chunk_count++].size = size;
}

/* Chunks grow with the sum so far: 256 KiB at first, 4 MiB at most, so that
 * their number stays small. A block of its own size when it is larger. */
static bool new_chunk(size_t least) {
    size_t size = hak_min(hak_max(chunk_bytes_total, 256 * KIB), 4 * MIB);
    size = hak_align_up(hak_max(size, least), hak_os_page_size());
    char *chunk = map_chunk(size);
    if (!chunk && size > least) {
        size = hak_align_up(least, hak_os_page_size());
        chunk = map_chunk(size);
    }
    if (!chunk) return false;
    remember(chunk, size);
    retire_chunk();
    chunk_next = chunk;
    chunk_end = chunk + size;
    chunk_bytes_total += size;
    return true;
}

static void *carve(unsigned shift) {
    size_t size = (size_t)1 << shift;
    size_t align = hak_min(size, hak_os_page_size());
    char *block = (char *)hak_align_up((uintptr_t)chunk_next, align);
    if (!chunk_next || block + size > chunk_end) {
        if (!new_chunk(size)) return NULL;
        block = chunk_next;
    }
    /* The gap below an aligned block is used up by smaller ones. */
    char *end = chunk_end;
    chunk_end = block;
    retire_chunk();
    chunk_next = block + size;
    chunk_end = end;
    return block;
}

void *hak_meta_alloc(size_t size) {
    unsigned shift = shift_of(size);
    hak_lock_acquire(&hak_meta_lock);
    node_t *node = lists[shift];
    if (node)
        lists[shift] = node->next;
    else
        node = carve(shift);
    hak_lock_release(&hak_meta_lock);
    return node;
}

void hak_meta_free(void *block, size_t size) {
    if (!block) return;
    node_t *node = block;
    unsigned shift = shift_of(size);
    hak_lock_acquire(&hak_meta_lock);
    node->next = lists[shift];
    lists[shift] = node;
    hak_lock_release(&hak_meta_lock);
}

size_t hak_meta_bytes(void) {
    hak_lock_acquire(&hak_meta_lock);
    size_t total = chunk_bytes_total;
    hak_lock_release(&hak_meta_lock);
    return total;
}

void hak_meta_each_range(hak_range_visitor_t visit, void *context) {
    hak_lock_acquire(&hak_meta_lock);
    for (unsigned i = 0; i < chunk_count; i++)
        visit(context, HAK_RANGE_RECORDS, chunks[i].start, chunks[i].size);
    hak_lock_release(&hak_meta_lock);
}
