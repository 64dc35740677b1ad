/* holder.h: the free blocks of one thread on the hardened path.
 *
 *   free -> quarantine -> stock of its class -> malloc
 *                                   |   ^
 *                                   v   |
 *                                   shard
 *
 * A freed block takes a random place in the quarantine; the block that lay there goes to the stock
 * of its class. So a block comes back after a random number of frees, QUARANTINE on average. The
 * quarantine holds QUARANTINE blocks and QUARANTINE_BYTES bytes at most. malloc takes a random
 * block of a stock, and refills the stock from the shard while a few blocks are left, so there is
 * always a choice. A block in a stock that was zeroed by free carries the mark KNOWN_ZERO: it is
 * compared with zero when it is given out, or when it goes back to the shard.
 *
 * WHO. A holder belongs to a cache, and so to one thread at a time; that thread alone uses it, and
 * empties it when it ends. Others only read the counts `held`. In the child of a fork the holders of
 * other threads are lost with their caches, and with the blocks in them. No lock. */
#ifndef HAK_HOLDER_H
#define HAK_HOLDER_H

#include "base/base.h"
#include "classes/classes.h"
#include "hardened/hardened.h"

/* A free block: its address, in a stock with a mark, in the quarantine with the class above it; and
 * its state, so that malloc need not look for that. */
typedef struct {
    uint64_t block;       /* 0 for none */
    _Atomic uint32_t *at; /* see state.h */
} hak_entry_t;

enum { HAK_KNOWN_ZERO = 1, HAK_ENTRY_CLASS_SHIFT = 57 };
#define HAK_ENTRY_ADDRESS (((uint64_t)1 << HAK_ENTRY_CLASS_SHIFT) - 1)

typedef struct {
    hak_entry_t *entries;  /* owner; NULL before the first block */
    uint16_t count;        /* owner; entries */
    uint16_t room;         /* constant once there are entries */
    uint16_t low;          /* the same; a refill is due at so many */
    _Atomic uint16_t held; /* owner writes; blocks in the stock and in the quarantine */
} hak_stock_t;

enum { HAK_BIG_RING = 16 };

/* A freed block above 64 KiB in the ring of its thread. */
typedef struct {
    void *block; /* NULL for none */
    size_t size; /* bytes, as its heap counts them */
    bool guard;  /* nobody can access it */
    bool is_huge;
} hak_kept_t;

/* What a ring has of large blocks, and of huge ones. */
typedef struct {
    _Atomic size_t count, bytes; /* owner writes */
} hak_kept_sum_t;

typedef struct hak_holder {
    hak_random_t random;          /* owner, as all but `held` */
    hak_entry_t *quarantine;      /* NULL if QUARANTINE is 0 */
    uint64_t bytes;               /* of blocks in it */
    uint32_t at;                  /* next place without RANDOM_PLACEMENT */
    uint32_t big_at;              /* the same of the big blocks */
    bool gave;                    /* blocks went back to a shard since the owner looked */
    hak_kept_t big[HAK_BIG_RING]; /* see big.h */
    hak_kept_sum_t kept[2];       /* of `big`: large blocks, and huge ones */
    hak_stock_t stocks[HAK_CLASS_LIMIT];
} hak_holder_t;

/* NULL without memory. */
hak_holder_t *hak_holder_make(void);

/* Fills the stock of a class from a shard, and takes an entry of it; none when it is empty and there
 * is no memory. */
hak_entry_t hak_holder_refill(hak_holder_t *holder, unsigned home, unsigned class_index);

/* Takes one block of a class from a shard, for a thread without a holder. */
hak_entry_t hak_holder_take_one(unsigned class_index);

/* Gives everything back to the shards, big blocks excepted. */
void hak_holder_flush(hak_holder_t *holder, unsigned home);

/* Moves a block from the quarantine to its stock, which may have no room. */
void hak_holder_stock_slow(hak_holder_t *holder, unsigned home, hak_entry_t entry);

/* Takes blocks out of the quarantine until it has QUARANTINE_BYTES. */
void hak_holder_shrink(hak_holder_t *holder, unsigned home);

/* Blocks of a class that a holder has; NULL has none. Any thread may call it. */
HAK_FAST_PATH size_t hak_holder_count(const hak_holder_t *holder, unsigned class_index) {
    return holder ? hak_load_relaxed(&holder->stocks[class_index].held) : 0;
}

/* Reports a write after free, and zeroes the block again. */
HAK_SLOW_PATH void hak_holder_report_write(void *block, size_t size);

/* `size` is a multiple of 8. */
HAK_FAST_PATH bool hak_is_zero(const void *block, size_t size) {
    const char *at = block, *end = at + size;
    hak_pair_t any = {0, 0}, part;
    for (; at + 2 * sizeof part <= end; at += 2 * sizeof part) {
        hak_pair_t other;
        __builtin_memcpy(&part, at, sizeof part);
        __builtin_memcpy(&other, at + sizeof part, sizeof other);
        any |= part | other;
    }
    if (at < end) {
        __builtin_memcpy(&part, end - sizeof part, sizeof part);
        any |= part;
    }
    return (any[0] | any[1]) == 0;
}

/* Compares a free block with zero. */
HAK_FAST_PATH void hak_holder_check_zero(void *block, size_t size) {
    if (HAK_UNLIKELY(!hak_is_zero(block, size))) hak_holder_report_write(block, size);
}

/* Takes an entry of a stock that has `count` of them. */
HAK_FAST_PATH hak_entry_t hak_holder_pick(hak_holder_t *holder, hak_stock_t *stock,
                                          uint32_t count) {
    uint32_t at = hak_hardened.random ? hak_random_below(&holder->random, count) : count - 1;
    hak_entry_t entry = stock->entries[at];
    stock->entries[at] = stock->entries[--count];
    stock->count = (uint16_t)count;
    HAK_ADD_OWNED(&stock->held, (uint16_t)-1);
    return entry;
}

/* Moves a block from the quarantine to its stock; false when there is no room. */
HAK_FAST_PATH bool hak_holder_stock(hak_holder_t *holder, hak_entry_t entry) {
    hak_stock_t *stock = &holder->stocks[entry.block >> HAK_ENTRY_CLASS_SHIFT];
    if (HAK_UNLIKELY(stock->count >= stock->room)) return false;
    entry.block =
        (entry.block & HAK_ENTRY_ADDRESS) | (hak_hardened.check_freed ? HAK_KNOWN_ZERO : 0);
    stock->entries[stock->count++] = entry;
    return true;
}

/* Puts a freed block into the quarantine. What leaves it for that replaces *entry, as a block that
 * found no quarantine does; none when nothing does. */
HAK_FAST_PATH void hak_holder_quarantine(hak_holder_t *holder, hak_entry_t *entry) {
    unsigned class_index = (unsigned)(entry->block >> HAK_ENTRY_CLASS_SHIFT);
    HAK_ADD_OWNED(&holder->stocks[class_index].held, 1);
    if (HAK_UNLIKELY(!holder->quarantine)) return;
    uint32_t mask = hak_hardened.quarantine - 1;
    uint32_t at = (hak_hardened.random ? hak_random_next(&holder->random) : holder->at++) & mask;
    hak_entry_t old = holder->quarantine[at];
    holder->quarantine[at] = *entry;
    holder->bytes += hak_classes[class_index].size;
    if (old.block) holder->bytes -= hak_classes[old.block >> HAK_ENTRY_CLASS_SHIFT].size;
    *entry = old;
}

#endif
