/* give.c: a batch of blocks on its way back to the bitmaps.
 *
 * This is where most of the time beside malloc and free themselves goes, so the
 * common cases are short: a block that lies apart from the next (freed at random), the
 * blocks of one word gathered in a register, and a whole word in order or in reverse, which
 * is what a program leaves that frees as it allocated. None of them knows of colours: the
 * addresses of blocks whose slabs have one are shifted to where they would lie without. */
#include "shard/give.h"

#include <string.h>

#include "debug/timing.h"
#include "debug/ways.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/shard.h"
#include "shard/warm.h"

enum {
    SHIFTED_MAX = 32,
    NEAR = 8, /* blocks so far apart, or less, are probably of one word, if that is full */
};

/* Every function that gets a batch's address is inlined: its fields stay in registers. */
typedef struct {
    void *const *next, *const *end;
    uint32_t reciprocal, size;
    uint32_t total;  /* blocks in a slab */
    unsigned words;  /* of its bitmap */
    unsigned given;  /* to the home bin */
    unsigned remote; /* to slabs of others */
    void *bad;       /* first block found free already, or behind the last one */
} batch_t;

/* What a batch has for one word of one slab. */
typedef struct {
    unsigned word, count; /* count = bits in mask */
    uint64_t mask;
} share_t;

HAK_FAST_PATH void note_bad(batch_t *batch, void *block) {
    if (!batch->bad) batch->bad = block;
}

/* True when the next 64 blocks lie `step` bytes apart: a fraction of the cost of 64
 * indices. */
static HAK_OUT_OF_LINE bool is_whole_word(void *const *next, intptr_t step) {
    const uintptr_t first = (uintptr_t)*next;
    if ((uintptr_t)next[63] != first + (uintptr_t)(63 * step)) return false;
    hak_pair_t expected = {first, first + (uintptr_t)step}, wrong = {0, 0}, found;
    const hak_pair_t steps = {2 * (uintptr_t)step, 2 * (uintptr_t)step};
    for (unsigned i = 0; i < 64; i += 2, expected += steps) {
        memcpy(&found, next + i, sizeof found);
        wrong |= found ^ expected;
    }
    return (wrong[0] | wrong[1]) == 0;
}

/* The first block of a share is taken, the next one lies in the same slab: takes all
 * that follow in the same word. */
HAK_FAST_PATH void gather_rest(batch_t *batch, share_t *share, uint32_t index) {
    const uintptr_t first = (uintptr_t)batch->next[-1];
    if (((index + 1) & 62) == 0 && batch->end - batch->next >= 63 && (index | 63) < batch->total) {
        intptr_t step = index & 1 ? -(intptr_t)batch->size : (intptr_t)batch->size;
        if (is_whole_word(batch->next - 1, step)) {
            batch->next += 63;
            share->count = 64;
            share->mask = ~(uint64_t)0;
            return;
        }
    }
    do {
        index = hak_block_index((uint16_t)(uintptr_t)*batch->next, batch->reciprocal);
        if (index >> 6 != share->word) return;
        uint64_t bit = (uint64_t)1 << (index & 63);
        if (HAK_UNLIKELY((share->mask & bit) || index >= batch->total)) {
            note_bad(batch, *batch->next);
        } else {
            share->mask |= bit;
            share->count++;
        }
    } while (++batch->next != batch->end && ((uintptr_t)*batch->next ^ first) < HAK_UNIT_SIZE);
}

/* Takes the next block and those after it that share its word of the bitmap. False
 * when it lies behind the last block. */
HAK_FAST_PATH bool gather(batch_t *batch, share_t *share) {
    const uintptr_t first = (uintptr_t)*batch->next++;
    uint32_t index = hak_block_index((uint16_t)first, batch->reciprocal);
    if (HAK_UNLIKELY(index >= batch->total)) {
        note_bad(batch, (void *)first);
        return false;
    }
    share->word = index >> 6;
    share->count = 1;
    share->mask = (uint64_t)1 << (index & 63);
    if (batch->next != batch->end && ((uintptr_t)*batch->next ^ first) < HAK_UNIT_SIZE)
        gather_rest(batch, share, index);
    return true;
}

HAK_FAST_PATH void note_twice(batch_t *batch, const hak_unit_t *slab, unsigned word,
                              uint64_t twice) {
    note_bad(batch, slab->base + (word * 64u + hak_lowest_bit(twice)) * (size_t)batch->size);
}

/* Blocks of a share that are free already, here or on their way; rare. */
static HAK_SLOW_PATH uint64_t free_already(const hak_unit_t *slab, unsigned words, unsigned word) {
    return hak_slab_bits(slab)[word] | hak_load_relaxed(&hak_slab_remote(slab, words)[word]);
}

/* Gives one block to a slab of the bin. False, and nothing done, when there is more to it: a
 * slab that was full or becomes free, a block that is free already or may be. Lock held. */
HAK_FAST_PATH bool give_one(hak_unit_t *slab, uintptr_t block, uint32_t reciprocal,
                            uint32_t total) {
    const uint32_t index = hak_block_index((uint16_t)block, reciprocal);
    const unsigned word = index >> 6, before = slab->free_count;
    const uint64_t bit = (uint64_t)1 << (index & 63);
    if (HAK_UNLIKELY(index >= total || before - 1 >= total - 2)) return false;
    const uint64_t bits = hak_slab_bits(slab)[word];
    if (HAK_UNLIKELY((bits & bit) || hak_load_relaxed(&slab->remote_words))) return false;
    hak_slab_bits(slab)[word] = bits | bit;
    slab->words_free |= (uint64_t)1 << word;
    slab->free_count = (uint16_t)(before + 1);
    HAK_COUNT_BLOCKS(hak_owner_class(hak_load_relaxed(&slab->owner)), HAK_CALL_SS_LOCAL, 1);
    return true;
}

/* Gives the blocks at the head of a batch that lie apart from the next one, so that there is
 * little to gather. Returns the first that is left; never the one behind `last`. Out of
 * line, for the sake of its registers. Lock held. */
static HAK_OUT_OF_LINE void *const *give_apart(void *const *next, void *const *last, uint16_t mine,
                                               const hak_class_t *info) {
    const uint32_t reciprocal = info->reciprocal, total = info->count;
    const uintptr_t near = total < 64 ? 0 : NEAR * (uintptr_t)info->size;
    for (; next < last; next++) {
        const uintptr_t block = (uintptr_t)next[0], apart = (uintptr_t)next[1] - block;
        hak_unit_t *slab = hak_unit_of(next[0]);
        if (apart + near <= 2 * near || hak_load_relaxed(&slab->owner) != mine) break;
        if (HAK_UNLIKELY(!give_one(slab, block, reciprocal, total))) break;
    }
    return next;
}

/* Gives a share to the slab's own bin; true when the slab must be released. Lock held. */
HAK_FAST_PATH bool give_local(batch_t *batch, hak_bin_t *bin, hak_unit_t *slab) {
    share_t share;
    if (!gather(batch, &share)) return false;
    uint64_t bits = hak_slab_bits(slab)[share.word];
    if (HAK_UNLIKELY((bits & share.mask) || hak_load_relaxed(&slab->remote_words))) {
        uint64_t twice = free_already(slab, batch->words, share.word) & share.mask;
        if (twice) {
            note_twice(batch, slab, share.word, twice);
            share.mask &= ~twice;
            if (!share.mask) return false;
            share.count = hak_bit_count(share.mask);
        }
    }
    hak_slab_bits(slab)[share.word] = bits | share.mask;
    slab->words_free |= (uint64_t)1 << share.word;
    unsigned before = slab->free_count;
    slab->free_count = (uint16_t)(before + share.count);
    batch->given += share.count;
    HAK_COUNT_BLOCKS(hak_owner_class(hak_load_relaxed(&slab->owner)), HAK_CALL_SS_LOCAL,
                     share.count);
    /* A full slab (before = 0) is in no list; a free one leaves it: one comparison. */
    if (HAK_LIKELY(before - 1 < batch->total - share.count - 1)) return false;
    if (slab->lifted) return false;           /* it is in no list, and has its place at the end */
    HAK_ADD_OWNED(&bin->spare, batch->given); /* before the slab may leave with its blocks */
    batch->given = 0;
    return hak_bin_after_free(bin, slab);
}

/* The same for a slab of another shard. A slab of another class: the block was free
 * already, and its slab has gone its way since. */
HAK_FAST_PATH void give_remote(batch_t *batch, unsigned class_index, hak_unit_t *slab) {
    share_t share;
    if (hak_owner_class(hak_load_acquire(&slab->owner)) != class_index) {
        note_bad(batch, *batch->next++);
        return;
    }
    if (!gather(batch, &share)) return;
    uint64_t twice = hak_bin_remote_free(slab, class_index, share.word, share.mask);
    batch->remote += share.count - hak_bit_count(twice);
    HAK_COUNT_BLOCKS(class_index, HAK_CALL_SS_REMOTE, share.count - hak_bit_count(twice));
    if (HAK_UNLIKELY(twice)) note_twice(batch, slab, share.word, twice);
}

/* What is done for a batch under the lock: slabs linked by `next`. */
typedef struct {
    hak_unit_t *released;
    hak_unit_t *lifted; /* bound ones, claimed until the batch is through */
} hold_t;

HAK_FAST_PATH void link_to(hak_unit_t **list, hak_unit_t *slab) {
    slab->next = *list;
    *list = slab;
}

/* A block whose slab is bound, or of another shard. */
static HAK_OUT_OF_LINE void give_elsewhere(batch_t *batch, uint16_t mine, hak_unit_t *slab,
                                           hold_t *hold) {
    if (hak_owner_is_warm(hak_load_relaxed(&slab->owner), mine) && hak_warm_lift(slab))
        link_to(&hold->lifted, slab); /* from here on as any other of the bin */
    else
        give_remote(batch, hak_owner_class(mine), slab);
}

static void put_down(hak_bin_t *bin, hold_t *hold) {
    hak_unit_t *slab;
    while ((slab = hold->lifted) != NULL) {
        hold->lifted = slab->next;
        if (hak_warm_put_down(bin, slab)) link_to(&hold->released, slab);
    }
}

/* Returns the first bad block, as it was given, or NULL. */
static void *give(unsigned home, unsigned class_index, void *const *blocks, unsigned count) {
    hak_bin_t *bin = hak_bin_of(home, class_index);
    const uint16_t mine = hak_owner(home, class_index);
    const hak_class_t *info = &hak_classes[class_index];
    batch_t batch = {
        blocks, blocks + count, info->reciprocal, info->size, info->count, info->words, 0, 0, NULL};
    hak_unit_t *slab;
    hold_t hold = {NULL, NULL};
    hak_gate_enter();
    /* Blocks of other shards at the head of the batch need no lock. */
    while (batch.next < batch.end) {
        slab = hak_unit_of(*batch.next);
        const uint16_t owner = hak_load_relaxed(&slab->owner);
        if (owner == mine || hak_owner_is_warm(owner, mine)) break;
        give_remote(&batch, class_index, slab);
    }
    if (batch.next < batch.end) {
        HAK_TIME_MID(pool_lock, class_index, hak_lock_acquire(&bin->lock));
        hak_bin_count(home, class_index, HAK_SHARD_LOCKS, 1);
        do {
            void *const *from = batch.next;
            batch.next = give_apart(from, batch.end - 1, mine, info);
            batch.given += (unsigned)(batch.next - from);
            slab = hak_unit_of(*batch.next);
            if (HAK_UNLIKELY(hak_load_relaxed(&slab->owner) != mine))
                give_elsewhere(&batch, mine, slab, &hold);
            else if (HAK_UNLIKELY(give_local(&batch, bin, slab)))
                link_to(&hold.released, slab);
        } while (batch.next < batch.end);
        HAK_ADD_OWNED(&bin->spare, batch.given);
        put_down(bin, &hold);
        hak_lock_release(&bin->lock);
    }
    if (batch.remote) hak_add_relaxed(&hak_bin_rare(home, class_index)->remote, batch.remote);
    if (HAK_UNLIKELY(hold.released != NULL)) hak_slab_release_list(hold.released, class_index);
    hak_gate_leave();
    return batch.bad;
}

/* The same for blocks whose slabs have colours. Returns the block as the program knows it.
 * None lies before its slab's first one (hak_push_coloured), so each stays in its unit. */
static HAK_OUT_OF_LINE void *give_coloured(unsigned home, unsigned class_index, void *const *blocks,
                                           unsigned count) {
    const hak_class_t *info = &hak_classes[class_index];
    void *shifted[SHIFTED_MAX];
    char *bad = NULL;
    while (count) {
        unsigned some = (unsigned)hak_min(count, SHIFTED_MAX);
        for (unsigned i = 0; i < some; i++)
            shifted[i] = (char *)blocks[i] - hak_first_offset((uintptr_t)blocks[i], info);
        char *found = give(home, class_index, shifted, some);
        if (HAK_UNLIKELY(found && !bad)) bad = found + hak_first_offset((uintptr_t)found, info);
        blocks += some;
        count -= some;
    }
    return bad;
}

void hak_shard_give(unsigned home, unsigned class_index, void *const *blocks, unsigned count) {
    void *bad = HAK_UNLIKELY(hak_class_is_coloured(&hak_classes[class_index]))
                    ? give_coloured(home, class_index, blocks, count)
                    : give(home, class_index, blocks, count);
    if (HAK_UNLIKELY(bad != NULL)) hak_bin_report_twice(bad, class_index);
}
