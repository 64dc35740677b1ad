/* stacks.c: free lists by size, and a chunk that is cut up from low to high. */
#include "cache/stacks.h"

#include <string.h>

#include "shard/shard.h"

enum {
    SIZES = 11,       /* of stacks: 2, 4, ... 2048 slots */
    CHUNK_FIRST = 64, /* slots */
    CHUNK_MOST = 4096,
    GAP =
        2, /* slots; the word in front of a stack is read (hak_cache_may_hold), so a chunk begins with
                some that nobody writes, not with a stack behind a word that another CPU may write. A
                stack that is a chunk has none: the chunk would be twice as long, and the word is read
                for the first block that goes into an empty stack only */
};

/* It lies at the beginning of the first chunk. */
struct hak_stacks {
    void **free[SIZES]; /* by size; the first slot of each leads to the next */
    void **next,
        **end;    /* of the newest chunk: what is not handed out yet; an even number of slots */
    size_t slots; /* of all chunks */
};

enum { OWN_SLOTS = sizeof(struct hak_stacks) / sizeof(void *) };
_Static_assert(OWN_SLOTS % 2 == 0, "the rest of a chunk can be cut into stacks");

static unsigned list_of(size_t slots) { return hak_lowest_bit(slots) - 1; }

void hak_stacks_put(hak_stacks_t *stacks, void **stack, unsigned slots) {
    void ***list = &stacks->free[list_of(slots)];
    *stack = *list;
    *list = stack;
}

static hak_stacks_t *make(unsigned shard) {
    void **chunk = hak_shard_record(shard, CHUNK_FIRST * sizeof(void *));
    hak_stacks_t *stacks = (hak_stacks_t *)(void *)chunk;
    if (!stacks) return NULL;
    memset(stacks, 0, sizeof *stacks);
    stacks->next = chunk + OWN_SLOTS;
    stacks->end = chunk + CHUNK_FIRST;
    stacks->slots = CHUNK_FIRST;
    return stacks;
}

/* A new chunk; what is left of the last one goes to the lists, the largest pieces first. */
static bool renew(hak_stacks_t *stacks, unsigned shard, size_t least) {
    size_t size = hak_max(hak_min(stacks->slots, CHUNK_MOST), least);
    void **chunk = hak_shard_record(shard, size * sizeof(void *));
    if (!chunk) return false;
    for (size_t left; (left = (size_t)(stacks->end - stacks->next)) > 0;) {
        unsigned slots = 1u << hak_highest_bit(left);
        hak_stacks_put(stacks, stacks->end - slots, slots);
        stacks->end -= slots;
    }
    stacks->next = size > least ? chunk + GAP : chunk;
    stacks->end = chunk + size;
    stacks->slots += size;
    return true;
}

void **hak_stacks_take(hak_stacks_t **of, unsigned shard, unsigned slots) {
    if (!*of && !(*of = make(shard))) return NULL;
    hak_stacks_t *stacks = *of;
    void ***list = &stacks->free[list_of(slots)], **stack = *list;
    if (stack) {
        *list = *stack;
        return stack;
    }
    if (slots > (size_t)(stacks->end - stacks->next) && !renew(stacks, shard, slots)) return NULL;
    stack = stacks->next;
    stacks->next += slots;
    return stack;
}
