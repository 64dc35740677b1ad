/* quarantine.h: the free blocks of one thread on the hardened path: its quarantine, and the free lists
 * behind it.
 *
 *   free -> quarantine -> free list of its class -> malloc
 *                                   |   ^
 *                                   v   |
 *                                   shard
 *
 * A freed block takes a random place in the quarantine; the block that lay there goes to a random
 * place of the free list of its class. So a block comes back after a random number of frees, QUARANTINE
 * on average. The quarantine holds at most QUARANTINE blocks and QUARANTINE_BYTES bytes. malloc
 * takes the top of a free list. An attacker who frees blocks of other classes until a certain block
 * leaves the quarantine still cannot tell which call of malloc returns it. Blocks from the shard
 * get random places, too. malloc refills the free list while a few blocks are left, so there is always
 * a choice. A block that free has zeroed is compared with zero when malloc returns it, or when it
 * goes back to the shard.
 *
 * A free list begins with room for a few blocks, and takes few from its shard, so a class of which a program
 * has few blocks costs a page. It doubles with each of the next slow calls until it has its usual room. Then it
 * doubles when a slow call of free follows one of malloc, or the other way round: a larger list would have
 * avoided both. If several slow calls of one kind came before, it grows fourfold, which would have avoided more
 * of them. Together the free lists of a thread grow by no more bytes than its cache may have in other profiles.
 *
 * LIGHT CLASSES. A class is light if QUARANTINE blocks of it fit into five eighths of QUARANTINE_BYTES.
 * Light blocks need no count of bytes: `bytes` counts the other blocks, which may have the rest.
 *
 * OWNERS. A quarantine belongs to a cache, and so to one thread at a time. That thread alone uses
 * it, without a lock, and empties it when it ends. Other threads only read the counts of a free list.
 * In the child of a fork the quarantines of other threads are lost with their caches and blocks. */
#pragma once

#include "base/base.h"
#include "base/bytes.h"
#include "classes/classes.h"
#include "hardened/hardened.h"
#include "hardened/state.h"

/* A free block, and its state word, so that malloc need not look it up. */
typedef struct {
    char *block;          /* NULL for none */
    hak_state_word_t *at; /* see state.h */
} hak_entry_t;

/* The free blocks of one class, beside the numbers of the class that malloc and free need: one
 * cache line. */
typedef struct {
    hak_entry_t *entries;     /* owner; NULL before the first block */
    uint64_t start_test;      /* these two as in hak_class_t; both 0 for no class, */
    uint32_t size;            /* and for the dynamic one until it is needed */
    _Atomic uint16_t count;   /* owner writes; entries */
    _Atomic uint16_t resting; /* owner writes; blocks of the class in the quarantine */
    uint16_t room;            /* for entries; 0 before the first */
    uint16_t light_room;      /* the same of a light class, else 0 */
    uint16_t low;             /* a refill is due when so few are left */
    uint8_t level;            /* as in hak_class_t; NO_LEVEL if the class is not tiny */
    uint8_t slow;             /* bit 0: last slow call was a free; above: equal ones before it */
} hak_free_list_t;

_Static_assert(sizeof(hak_free_list_t) == 1 << HAK_MAGAZINE_SHIFT,
               "the map holds offsets of lists");

/* A block in the quarantine. */
typedef struct {
    hak_entry_t entry;
    hak_free_list_t *list; /* for no block the first list, which has no room */
} hak_rest_t;

enum {
    HAK_BIG_RING = 16,
};

/* A freed block above 64 KiB in the ring of its thread. */
typedef struct {
    void *block; /* NULL for none */
    size_t size; /* bytes, as its heap counts them */
    bool guard;  /* the block cannot be accessed */
    bool is_huge;
} hak_kept_t;

/* The sums over the large blocks of a ring, or over its huge blocks. */
typedef struct {
    _Atomic size_t count, bytes; /* owner writes */
} hak_kept_sum_t;

typedef struct hak_quarantine {
    hak_random_t random;          /* owner, as all but the counts */
    uint64_t bytes;               /* of blocks in the quarantine that are not light */
    size_t grown_bytes;           /* bytes of blocks for which free lists have grown */
    uint32_t at;                  /* next place without RANDOM_PLACEMENT */
    uint32_t big_at;              /* the same of the big blocks */
    bool gave;                    /* blocks went back to a shard since the owner looked */
    hak_kept_t big[HAK_BIG_RING]; /* see big.h */
    hak_kept_sum_t kept[2];       /* of `big`: large blocks, and huge ones */
    hak_free_list_t lists[HAK_CLASS_LIMIT];
    hak_rest_t places[]; /* QUARANTINE places */
} hak_quarantine_t;

/* Makes the quarantine of a cache, unless it has one; NULL without memory. */
struct hak_cache;
hak_quarantine_t *hak_quarantine_make(struct hak_cache *cache);

/* Fills the free list of a class from a shard, and takes an entry of it; none when it is empty and
 * there is no memory. */
hak_entry_t hak_quarantine_refill(hak_quarantine_t *quarantine, unsigned home,
                                  unsigned class_index);

/* Takes one block of a class from a shard, for a thread without a quarantine. */
hak_entry_t hak_quarantine_take_one(unsigned class_index);

/* Gives everything back to the shards, big blocks excepted. */
void hak_quarantine_flush(hak_quarantine_t *quarantine, unsigned home);

/* Puts a freed block of any class into the quarantine, and the block whose place it takes into its
 * free list. Without a quarantine, the freed block itself goes to its free list. Afterwards the quarantine
 * has at most QUARANTINE_BYTES. */
void hak_quarantine_keep(hak_quarantine_t *quarantine, unsigned home, hak_rest_t rest);

/* Moves a block that has left the quarantine, or none, to its free list, even if that is full. */
void hak_quarantine_leave(hak_quarantine_t *quarantine, unsigned home, hak_rest_t rest);

/* Blocks of a class that a quarantine has; NULL has none. Any thread may call it. */
HAK_FAST_PATH size_t hak_quarantine_count(const hak_quarantine_t *quarantine,
                                          unsigned class_index) {
    if (!quarantine) return 0;
    const hak_free_list_t *list = &quarantine->lists[class_index];
    return (size_t)hak_load_relaxed(&list->count) + hak_load_relaxed(&list->resting);
}

/* Reports a write after free, and zeroes the block again. */
HAK_SLOW_PATH void hak_quarantine_report_write(void *block, size_t size);

/* Compares a free block with zero. */
HAK_FAST_PATH void hak_quarantine_check_zero(void *block, size_t size) {
    if (HAK_UNLIKELY(!hak_is_zero(block, size, &hak_hardened.wide)))
        hak_quarantine_report_write(block, size);
}

/* Removes the last of a free list's `count` entries; returns the address behind that entry. */
HAK_FAST_PATH const hak_entry_t *hak_quarantine_pop(hak_free_list_t *list, size_t count) {
    const hak_entry_t *end = list->entries + count;
    HAK_ADD_OWNED_16(&list->count, -1);
    return end;
}

/* Where a block goes in its free list: `number` is a random number of `bits` bits; with no bits, to the
 * top. */
typedef struct {
    size_t number;
    unsigned bits;
} hak_chance_t;

HAK_FAST_PATH hak_chance_t hak_quarantine_chance(hak_random_t *random) {
    if (!hak_hardened.random) return (hak_chance_t){0, 0};
    return (hak_chance_t){(uint16_t)hak_random_next(random), 16};
}

/* Puts a block into its free list at the place that `chance` says; the block that lies there goes to
 * the top. False when the free list has `room` blocks already. */
HAK_FAST_PATH bool hak_quarantine_push(hak_rest_t rest, uint16_t room, hak_chance_t chance) {
    size_t count = hak_load_relaxed(&rest.list->count);
    if (HAK_UNLIKELY(count >= room)) return false;
    hak_entry_t *at = rest.list->entries + count;
    if (chance.bits) {
        hak_entry_t *end = at;
        at = rest.list->entries + (chance.number * (count + 1) >> chance.bits);
        *end = *at;
    }
    *at = rest.entry;
    HAK_ADD_OWNED_16(&rest.list->count, 1);
    return true;
}

/* Puts a freed block, or none, into a place of the quarantine; returns the one that lay there. */
HAK_FAST_PATH hak_rest_t hak_quarantine_exchange(hak_quarantine_t *quarantine, hak_rest_t rest,
                                                 size_t at) {
    hak_rest_t *place = &quarantine->places[at];
    HAK_FORGET(place);
    hak_rest_t old = *place;
    *place = rest;
    HAK_ADD_OWNED_16(&rest.list->resting, 1);
    HAK_ADD_OWNED_16(&old.list->resting, -1);
    return old;
}

/* True when blocks of the class are light; false for the list of no class. */
HAK_FAST_PATH bool hak_free_list_is_light(const hak_free_list_t *list) {
    return list->size - 1 < hak_hardened.light_size;
}
