/* flush.c: a batch of blocks on its way back to the bitmaps.
 *
 * Apart from malloc and free themselves, most of the time is spent here, so each common case has a short loop of its
 * own: 64 blocks that fill a whole word, in order or in reverse, as a program leaves them that frees in the order in
 * which it allocated; blocks of one word, whose bits are gathered in a register; and blocks that are alone in their
 * word (freed at random). The loops ignore colours: the addresses of blocks in a coloured slab are first shifted to
 * where they would lie without the colour. */
#include "shard/flush.h"

#include <string.h>

#include "debug/timing.h"
#include "debug/call_paths.h"
#include "region/region.h"
#include "shard/bin.h"
#include "shard/remote.h"
#include "shard/shard.h"
#include "shard/warm_slab.h"

enum {
    SHIFTED_MAX = 32,
    FEW = 3,          /* blocks of a slab in a row, that cost less as lone ones */
    APART_FIRST = 8,  /* blocks that are given as lone ones before the next look for neighbours, */
    APART_MOST = 256, /* ...twice as many each time */
};

typedef struct {
    void *const *next, *const *end;
    const hak_class_t *info;
    unsigned class_index;
    unsigned remote; /* blocks given to slabs of others */
    hak_twice_t
        *twice; /* blocks found free already, or one behind the last one: the batch ends there */
} batch_t;

/* Blocks at the head of a batch that lie in one word of one slab. */
typedef struct {
    void *const *end; /* behind them */
    uint64_t mask;    /* their bits; 0: one block, behind the last one of its slab */
    unsigned word;
} share_t;

/* Ends the batch at blocks that were already free. The rest comes with the next batch, after these are reported. */
static HAK_BEHIND void drop_bits(batch_t *batch, char *first, uint64_t bits) {
    const unsigned low = hak_lowest_bit(bits);
    *batch->twice =
        (hak_twice_t){first + low * (size_t)batch->info->size, bits >> low, batch->info->size};
    batch->end = batch->next;
}

/* Drops the next block. */
static HAK_BEHIND void drop(batch_t *batch) {
    void *block = *batch->next++;
    drop_bits(batch, block, 1);
}

/* True when the next 64 blocks lie `step` bytes apart. The test costs a fraction of computing 64 indices. */
static HAK_OUT_OF_LINE bool is_whole_word(void *const *next, intptr_t step) {
    const uintptr_t first = (uintptr_t)*next, move = (uintptr_t)step;
    if ((uintptr_t)next[63] != first + 63 * move) return false;
    hak_pair_t expected = {first, first + move}, wrong = {0, 0}, a, b, c, d;
    const hak_pair_t two = {2 * move, 2 * move}, four = 2 * two, six = 3 * two, eight = 4 * two;
    for (void *const *const end = next + 64; next != end; next += 8, expected += eight) {
        memcpy(&a, next, sizeof a);
        memcpy(&b, next + 2, sizeof b);
        memcpy(&c, next + 4, sizeof c);
        memcpy(&d, next + 6, sizeof d);
        wrong |= (a ^ expected) | ((b - two) ^ expected) | ((c - four) ^ expected) |
                 ((d - six) ^ expected);
    }
    return (wrong[0] | wrong[1]) == 0;
}

/* The share that begins with the next block. It ends before a block that comes a second time. */
HAK_FAST_PATH share_t gather(void *const *next, void *const *end, const hak_class_t *info) {
    const uintptr_t first = (uintptr_t)*next, unit = first & -(uintptr_t)HAK_UNIT_SIZE;
    const uint64_t reciprocal = info->reciprocal, at = (first - unit) * reciprocal;
    const uintptr_t size = info->size, beyond = size * info->count;
    const uintptr_t begin = (at >> 38) * 64 * size; /* of the word, in its unit */
    const uintptr_t bytes = hak_min(64 * size, beyond - begin);
    share_t share = {next + 1, 0, (unsigned)(at >> 38)};
    if (HAK_UNLIKELY(first - unit >= beyond)) return share;
    const unsigned step =
        ((unsigned)(at >> 32) + 1) & 63; /* 1: the word's first block; 0: its last */
    if (step <= 1 && end - next >= 64 && bytes == 64 * size &&
        is_whole_word(next, step ? (intptr_t)size : -(intptr_t)size)) {
        share.end = next + 64;
        share.mask = ~(uint64_t)0;
        return share;
    }
    /* One subtraction tells whether a block lies in the word, and gives its index there. */
    uintptr_t offset = first - unit - begin;
    while (!hak_set_bit(&share.mask, offset * reciprocal >> 32) && ++next != end &&
           (offset = (uintptr_t)*next - unit - begin) < bytes) {
    }
    share.end = next;
    return share;
}

/* Drops blocks of a share. Colours are ignored here: see give_coloured. */
static HAK_BEHIND void drop_share(batch_t *batch, const hak_unit_t *slab, unsigned word,
                                  uint64_t bits) {
    drop_bits(batch, slab->base + (size_t)word * 64 * batch->info->size, bits);
}

/* Gives the next share of a slab of the bin, whatever it is; returns how many blocks. Lock held. */
static HAK_OUT_OF_LINE unsigned give_share(batch_t *batch, hak_unit_t *slab) {
    share_t share = gather(batch->next, batch->end, batch->info);
    if (!share.mask) {
        drop(batch);
        return 0;
    }
    uint64_t *word = &hak_slab_bits(slab)[share.word];
    batch->next = share.end;
    const uint64_t comes = hak_load_relaxed(&hak_slab_remote(slab, batch->info->words)[share.word]);
    const uint64_t twice = share.mask & (*word | comes), given = share.mask & ~twice;
    if (twice) drop_share(batch, slab, share.word, twice);
    if (given) slab->words_free |= (uint64_t)1 << share.word;
    *word |= given;
    const unsigned count = hak_bit_count(given);
    slab->free_count = (uint16_t)(slab->free_count + count);
    HAK_COUNT_BLOCKS(batch->class_index, HAK_CALL_SS_LOCAL, count);
    return count;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && HAK_UNIT_SHIFT == 16,
               "an address has its offset in the unit in the first two bytes");

/* What all lone blocks of a batch have in common. */
typedef struct {
    uintptr_t units; /* see hak_units_base */
    uint64_t by_word;
    uint16_t mine, most; /* the bin's owner word; the free blocks of a slab with one in use */
} lone_t;

/* Gives back a block that is alone in its word; `low` points to its address, `high` behind the first two bytes of it.
 * False, and nothing is done, if give_apart does not serve it. */
HAK_FAST_PATH bool give_lone(const char *low, const char *high, const lone_t *lone) {
    uint32_t number; /* of the unit: an address has 48 bits */
    uint16_t offset; /* in the unit */
    /* Two loads, since to cut one in two takes more instructions. */
    memcpy(&number, high, sizeof number);
    memcpy(&offset, low, sizeof offset);
    hak_unit_t *slab = hak_unit_by_number(lone->units, number);
    uint64_t below = offset, w = hak_multiply(&below, lone->by_word), bit = below >> 58;
    if (HAK_UNLIKELY(!hak_is_equal_16(&slab->owner, lone->mine))) return false;
    if (!HAKMEM_CHECKS && HAK_UNLIKELY(w * 64 + bit > lone->most))
        return false; /* else hak_push has looked */
    uint64_t *bits = hak_slab_bits(slab), word = bits[w];
    HAK_OPAQUE(bits);
    if (HAK_UNLIKELY(hak_is_equal_16(&slab->free_count, lone->most))) return false;
    if (HAK_UNLIKELY(word == 0)) {
        if (slab->free_count == 0) return false;
        uint64_t words = slab->words_free;
        hak_set_bit(&words, w);
        slab->words_free = words;
    }
    if (HAK_UNLIKELY(hak_set_bit(&word, bit))) return false;
    bits[w] = word;
    slab->free_count++;
    HAK_COUNT_BLOCKS(hak_owner_class(lone->mine), HAK_CALL_SS_LOCAL, 1);
    return true;
}

/* Gives back the `count` blocks before `end`, an even number of them, which are alone in their words, as long as nothing
 * special occurs: the slab of each block is of the bin, was not full and does not become free, and no remote blocks of
 * the bin are on their way, through which a block could already be free. Returns how many are left. Lock held. */
static HAK_OUT_OF_LINE size_t give_apart(void *const *end, size_t count, uint16_t mine,
                                         const hak_class_t *info) {
    enum { STEP = sizeof *end, PAIR = 2 * STEP };
    const lone_t lone = {hak_units_base(), (uint64_t)info->reciprocal << 26, mine,
                         (uint16_t)(info->count - 1u)};
    const char *const low = (const char *)end, *high = low + 2;
    intptr_t at = -(intptr_t)(count * STEP);
    HAK_OPAQUE(high);
    for (; at != 0; at += PAIR) {
        HAK_OPAQUE(at);
        if (HAK_UNLIKELY(!give_lone(low + at, high + at, &lone))) break;
        if (HAK_UNLIKELY(!give_lone(low + at + STEP, high + at + STEP, &lone))) {
            at += STEP;
            break;
        }
    }
    return (size_t)-at / STEP;
}

/* Sets the bit of a block in its word; false, and *twice, if it is set already. */
HAK_FAST_PATH bool set_bit(uint64_t *mask, uint64_t index, bool *twice) {
    *twice = hak_set_bit(mask, index);
    return !*twice;
}

/* Sets the bits of the next blocks in a word that begins at `start`, up to a block that lies elsewhere or, and then
 * *twice, whose bit is set already. The first one, of that index, lies in the word. `by_block` is 2^64 / size. Returns
 * the first one that is left. */
HAK_FAST_PATH void *const *set_bits(void *const *next, void *const *end, uint64_t *mask,
                                    uint64_t index, uintptr_t start, uintptr_t bytes,
                                    uint64_t by_block, bool *twice) {
    /* One subtraction tells whether a block lies in the word, and gives its place there. */
    uintptr_t offset;
    /* All bits are set after 64 blocks: if there are more, the loop ends before the batch does. */
    if (HAK_LIKELY(next + 64 < end)) {
        while (set_bit(mask, index, twice) && (next++, (offset = (uintptr_t)*next - start) < bytes))
            index = hak_multiply(&offset, by_block);
    } else {
        while (set_bit(mask, index, twice) && ++next != end &&
               (offset = (uintptr_t)*next - start) < bytes)
            index = hak_multiply(&offset, by_block);
    }
    return next;
}

/* What places a class's blocks in words, computed once for a batch. */
typedef struct {
    uint64_t by_block;              /* 2^64 / size */
    uintptr_t size, stride, beyond; /* of a block, of a word's blocks, of all of a slab */
} measure_t;

/* Gives the next blocks of a slab of the bin, word by word, up to one that is free already, one that
 * lies behind the last of the slab, or one of another slab; only the first, if that is alone in its
 * word. Returns the first one that is left. Lock held. */
HAK_FAST_PATH void *const *give_near(void *const *first, void *const *end, hak_unit_t *slab,
                                     uintptr_t unit, const measure_t *measure) {
    const uint64_t by_block = measure->by_block;
    const uintptr_t size = measure->size, stride = measure->stride, beyond = measure->beyond;
    uint64_t *const bits = hak_slab_bits(slab);
    void *const *next = first;
    uintptr_t offset;
    bool twice = false;
    while (next != end && (offset = (uintptr_t)*next - unit) < beyond) {
        const uint64_t index = hak_multiply(&offset, by_block), w = index / 64;
        const uintptr_t begin = w * stride, bytes = hak_min(stride, beyond - begin);
        uint64_t *word = &bits[w], mask = *word;
        if (mask == 0) {
            slab->words_free |= (uint64_t)1 << w;
            const unsigned step = ((unsigned)index + 1) & 63;
            if (step <= 1 && end - next >= 64 && bytes == stride &&
                is_whole_word(next, step ? (intptr_t)size : -(intptr_t)size)) {
                *word = ~(uint64_t)0;
                next += 64;
                continue;
            }
        }
        next = set_bits(next, end, &mask, index, unit + begin, bytes, by_block, &twice);
        *word = mask;
        if (twice || next == first + 1)
            break; /* if the first block is alone, the next ones may be, too: see give_apart */
    }
    return next;
}

/* True when the next block is not behind the last one of its slab, and shares no word of a bitmap with the one behind it.
 * Cheap: it looks at two addresses. */
HAK_FAST_PATH bool is_apart(void *const *next, void *const *end, const measure_t *measure) {
    return next + 1 != end && (uint16_t)(uintptr_t)*next < measure->beyond &&
           (uintptr_t)next[1] - (uintptr_t)next[0] + measure->stride > 2 * measure->stride;
}

/* Gives back the next blocks, slab by slab, as long as they are of slabs of the bin that have no remote blocks on their
 * way. Returns the first block that is left, and in *moved a slab that was full or became free: its last blocks were
 * given back, but it still has its old place. `comes`: remote blocks of the bin are on their way. Lock held. */
static HAK_OUT_OF_LINE void *const *give_own(void *const *next, void *const *end, uint16_t mine,
                                             const hak_class_t *info, bool comes,
                                             hak_unit_t **moved) {
    const uintptr_t units = hak_units_base();
    const uintptr_t size = info->size;
    const measure_t measure = {(uint64_t)info->reciprocal << 32, size, 64 * size,
                               size * info->count};
    size_t apart = APART_FIRST; /* at most so many lone blocks before the next look */
    bool is_special = comes;    /* the next block is not one for give_apart */
    while (next != end) {
        if (is_special || !is_apart(next, end, &measure)) {
            const uintptr_t unit = (uintptr_t)*next & -(uintptr_t)HAK_UNIT_SIZE;
            hak_unit_t *slab = hak_unit_by_base(units, unit);
            if (HAK_UNLIKELY(hak_load_relaxed(&slab->owner) != mine)) break;
            if (HAK_UNLIKELY(hak_load_relaxed(&slab->remote_words) != 0)) break;
            void *const *const first = next;
            next = give_near(first, end, slab, unit, &measure);
            const unsigned count = (unsigned)(next - first), before = slab->free_count;
            if (HAK_UNLIKELY(count == 0)) break;
            slab->free_count = (uint16_t)(before + count);
            HAK_COUNT_BLOCKS(hak_owner_class(mine), HAK_CALL_SS_LOCAL, count);
            /* A full slab (before = 0) is in no list; a free one leaves it: one comparison. */
            if (HAK_UNLIKELY(before - 1 >= info->count - count - 1u)) {
                *moved = slab;
                break;
            }
            is_special = comes;
            if (count > FEW || comes || end - next < 2) {
                apart = APART_FIRST;
                continue;
            }
        }
        const size_t few = hak_min(apart, (size_t)(end - next) & ~(size_t)1);
        next += few;
        const size_t left = give_apart(next, few, mine, info);
        next -= left;
        is_special = left != 0;
        apart = hak_min(apart * 2, APART_MOST);
    }
    return next;
}

/* The same for a class with at most HAK_FEW_BLOCKS in a slab: nearly each block makes its slab one in use or a free one,
 * so there is nothing to gather. Lock held. */
static HAK_NEXT void *const *give_few(void *const *next, void *const *end, uint16_t mine,
                                      const hak_class_t *info, hak_unit_t **moved) {
    const uintptr_t units = hak_units_base();
    const uint64_t by_block = (uint64_t)info->reciprocal << 32;
    for (; next != end && !*moved; next++) {
        uintptr_t offset = (uintptr_t)*next & (HAK_UNIT_SIZE - 1);
        hak_unit_t *slab = hak_unit_by_base(units, (uintptr_t)*next - offset);
        if (HAK_UNLIKELY(hak_load_relaxed(&slab->owner) != mine)) break;
        if (HAK_UNLIKELY(hak_load_relaxed(&slab->remote_words) != 0)) break;
        const uint64_t index = hak_multiply(&offset, by_block);
        uint64_t *const word = hak_slab_bits(slab), mask = *word;
        if (HAK_UNLIKELY(index >= info->count || hak_set_bit(&mask, index))) break;
        *word = mask;
        slab->words_free = 1;
        const unsigned count = slab->free_count + 1u;
        slab->free_count = (uint16_t)count;
        HAK_COUNT_BLOCKS(hak_owner_class(mine), HAK_CALL_SS_LOCAL, 1);
        if (count == 1 || count == info->count) *moved = slab;
    }
    return next;
}

/* Gives back the next share, which lies in a slab of another shard. If the slab is of another class, the block was
 * already free, and its slab has been released since. */
static HAK_NEXT void give_remote(batch_t *batch, hak_unit_t *slab) {
    if (hak_owner_class(hak_load_acquire(&slab->owner)) != batch->class_index) {
        drop(batch);
        return;
    }
    share_t share = gather(batch->next, batch->end, batch->info);
    if (HAK_UNLIKELY(!share.mask)) {
        drop(batch);
        return;
    }
    const unsigned count = (unsigned)(share.end - batch->next);
    batch->next = share.end;
    uint64_t twice = hak_remote_free(slab, batch->class_index, share.word, share.mask);
    unsigned dropped = HAK_UNLIKELY(twice) ? hak_bit_count(twice) : 0;
    if (dropped) drop_share(batch, slab, share.word, twice);
    batch->remote += count - dropped;
    HAK_COUNT_BLOCKS(batch->class_index, HAK_CALL_SS_REMOTE, count - dropped);
}

/* Slabs that a batch changes under the lock, linked by `next`. */
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
        give_remote(batch, slab);
}

static void put_down(hak_bin_t *bin, hold_t *hold) {
    hak_unit_t *slab;
    while ((slab = hold->lifted) != NULL) {
        hold->lifted = slab->next;
        if (hak_warm_put_down(bin, slab)) link_to(&hold->released, slab);
    }
}

/* The rest of a batch. Lock held. */
static void give_locked(batch_t *batch, hak_bin_t *bin, uint16_t mine, hold_t *hold) {
    const bool comes = hak_load_relaxed(&bin->pending) != NULL; /* remote blocks */
    while (batch->next != batch->end) {
        void *const *from = batch->next;
        hak_unit_t *moved = NULL;
        batch->next = batch->info->count <= HAK_FEW_BLOCKS
                          ? give_few(from, batch->end, mine, batch->info, &moved)
                          : give_own(from, batch->end, mine, batch->info, comes, &moved);
        size_t given = (size_t)(batch->next - from);
        if (!moved && batch->next != batch->end) {
            hak_unit_t *slab = hak_unit_of(*batch->next);
            if (hak_load_relaxed(&slab->owner) == mine) {
                const unsigned count = give_share(batch, slab);
                given += count;
                if (count) moved = slab;
            } else {
                give_elsewhere(batch, mine, slab, hold);
            }
        }
        HAK_ADD_OWNED(&bin->spare, given);     /* before the slab may leave with its blocks */
        if (!moved || moved->lifted) continue; /* a lifted one has its place at the end */
        if (hak_bin_after_free(bin, moved)) link_to(&hold->released, moved);
    }
}

/* Returns how many blocks are done. */
static unsigned give(unsigned home, unsigned class_index, void *const *blocks, unsigned count,
                     hak_twice_t *twice) {
    hak_bin_t *bin = hak_bin_of(home, class_index);
    const uint16_t mine = hak_owner(home, class_index);
    batch_t batch = {blocks, blocks + count, &hak_classes[class_index], class_index, 0, twice};
    hold_t hold = {NULL, NULL};
    hak_gate_enter();
    /* Blocks of other shards at the head of the batch need no lock. */
    while (batch.next != batch.end) {
        hak_unit_t *slab = hak_unit_of(*batch.next);
        const uint16_t owner = hak_load_relaxed(&slab->owner);
        if (owner == mine || hak_owner_is_warm(owner, mine)) break;
        give_remote(&batch, slab);
    }
    if (batch.next != batch.end) {
        HAK_TIME_MID(pool_lock, class_index, hak_lock_acquire_inside(&bin->lock));
        hak_bin_count(home, class_index, HAK_SHARD_LOCKS, 1);
        give_locked(&batch, bin, mine, &hold);
        put_down(bin, &hold);
        hak_bin_look_at_spare(bin, home, class_index);
        hak_lock_release_inside(&bin->lock);
    }
    if (batch.remote) hak_add_relaxed(&hak_bin_rare(home, class_index)->remote, batch.remote);
    if (HAK_UNLIKELY(hold.released != NULL))
        hak_slab_release_list(hold.released, home, class_index, true);
    hak_gate_leave();
    return (unsigned)(batch.next - blocks);
}

/* The same for blocks whose slabs have colours; those in *twice are as the program knows them.
 * None lies before its slab's first one (release_to_stack in api/malloc.c), so each stays in its unit. */
static HAK_OUT_OF_LINE unsigned give_coloured(unsigned home, unsigned class_index,
                                              void *const *blocks, unsigned count,
                                              hak_twice_t *twice) {
    const hak_class_t *info = &hak_classes[class_index];
    void *shifted[SHIFTED_MAX];
    unsigned done = 0;
    while (done < count && !twice->bits) {
        unsigned some = (unsigned)hak_min(count - done, SHIFTED_MAX);
        for (unsigned i = 0; i < some; i++)
            shifted[i] =
                (char *)blocks[done + i] - hak_first_offset((uintptr_t)blocks[done + i], info);
        done += give(home, class_index, shifted, some, twice);
    }
    if (HAK_UNLIKELY(twice->bits != 0))
        twice->first += hak_first_offset((uintptr_t)twice->first, info);
    return done;
}

unsigned hak_shard_flush_inside(unsigned home, unsigned class_index, void *const *blocks,
                                unsigned count, hak_twice_t *twice) {
    twice->bits = 0;
    return HAK_UNLIKELY(hak_class_is_coloured(&hak_classes[class_index]))
               ? give_coloured(home, class_index, blocks, count, twice)
               : give(home, class_index, blocks, count, twice);
}

HAK_BEHIND unsigned hak_shard_list_twice(void **blocks, unsigned bad, const hak_twice_t *twice) {
    for (uint64_t bits = twice->bits; bits; bits &= bits - 1)
        blocks[bad++] = twice->first + hak_lowest_bit(bits) * (size_t)twice->size;
    return bad;
}

unsigned hak_shard_flush_all_inside(unsigned home, unsigned class_index, void **blocks,
                                    unsigned count) {
    hak_twice_t twice;
    unsigned bad = 0;
    for (unsigned done = 0; done < count;) {
        done += hak_shard_flush_inside(home, class_index, blocks + done, count - done, &twice);
        if (HAK_UNLIKELY(twice.bits != 0)) bad = hak_shard_list_twice(blocks, bad, &twice);
    }
    return bad;
}

HAK_BEHIND void hak_shard_report_all(void *const *blocks, size_t count, unsigned class_index) {
    for (size_t i = 0; i < count; i++) hak_shard_report_one(blocks[i], class_index);
}

void hak_shard_flush(unsigned home, unsigned class_index, void **blocks, unsigned count) {
    const unsigned bad = hak_shard_flush_all_inside(home, class_index, blocks, count);
    if (HAK_UNLIKELY(bad != 0)) hak_shard_report_all(blocks, bad, class_index);
}
