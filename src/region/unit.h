/* unit.h: the descriptor of one unit of 64 KiB, one cache line, outside the unit.
 *
 * A unit is free (in the pool), a slab (blocks of one size class, owned by one bin of a shard), or
 * part of a large heap, which divides it into 16 grains. The array of descriptors is never
 * unmapped: a thread with a stale pointer to a descriptor may read it at any time.
 *
 * Invariant of a slab, whenever its bin's lock is free and no thread has claimed it:
 *   free_count = number of set bits in bits[0 .. words-1]
 *   words_free has bit w set  <=>  bits[w] != 0
 *   blocks in use or in some thread's cache = count - free_count - (remote bits)
 * shard/shard.h has the protocol of the remote words, shard/warm_slab.h that of slabs that are
 * bound to a thread. "bitmap" below means: protected by the bin lock or, while the slab is bound,
 * by a claim. */
#pragma once

#include "base/base.h"
#include "classes/classes.h"

typedef struct hak_unit {
    char *base;               /* of the unit; constant once that is committed */
    _Atomic(uint64_t *) bits; /* bin lock to write, its words: bitmap; 1 = free block; remote words
                                 follow. Has a mark from the moment the slab begins to leave its bin
                                 until it belongs to a bin again. A double free may read it at any
                                 time, and remove the first mark (shard/shard.h) */
    union {
        uint64_t words_free;       /* bitmap */
        struct {                   /* large heap lock; see large/extent.h */
            uint32_t extent_first; /* of the free extent that begins in this unit, or 0 */
            uint32_t extent_last;  /* of the free extent that ends in this unit, or 0 */
        };
    };
    _Atomic uint64_t remote_words; /* atomic; bit w: remote word w may be non-zero */
    struct hak_unit *next;         /* bin lock; list of partly free slabs */
    union {
        struct hak_unit *prev;      /* bin lock; the same */
        struct hak_warm_slot *slot; /* bin lock; of a warm slab, which is in no list */
    };
    struct hak_unit *pending_next; /* the thread that set remote_words from 0 to non-zero */
    union {
        struct {
            uint16_t free_count; /* bitmap; blocks */
            uint16_t fresh;      /* bitmap; blocks from this index on were never allocated */
        };
        _Atomic uint32_t large; /* the large block that begins in this unit (large/heap.h), or the
                                   heap of its chunk (large/chunk.h) */
    };
    _Atomic uint16_t owner; /* hak_owner(shard, class), perhaps with HAK_OWNER_WARM; 0 = in
                               the pool. Written under the lock of the bin, or of the large
                               heap, it enters or leaves; the flag under that of its bin */
    uint8_t purged;         /* bin lock; 256ths of the blocks whose pages went back; the
                               next take from the slab makes it 0 */
    bool listed : 1;        /* bin lock; in the list of partly free slabs */
    bool lifted : 1;        /* bin lock; bound, and claimed while a batch is given */
    bool zeroed : 1;        /* constant while in use; the unit was zero when it was taken */
    bool stocked : 1;       /* thread that holds it; taken ahead of need (shard/stock.h) */
    uint8_t looked : 4;     /* bin lock; blocks in use at the last look for free pages, on a scale
                               (shard/sparse.c); 0 = no look since the last take */
} hak_unit_t;

_Static_assert(sizeof(hak_unit_t) == HAK_LINE, "a slab descriptor is one cache line");

/* Shard and class of a unit in one word, so that both change together. */
HAK_FAST_PATH uint16_t hak_owner(unsigned shard, unsigned class_index) {
    return (uint16_t)(shard << 8 | class_index);
}
HAK_FAST_PATH unsigned hak_owner_shard(uint16_t owner) { return owner >> 8; }
HAK_FAST_PATH unsigned hak_owner_class(uint16_t owner) { return owner & 0x7f; }

/* A warm slab has a different owner word than the other slabs of its bin. So a give, which compares
 * owner words anyway, detects it at no extra cost. */
enum { HAK_OWNER_WARM = 0x80 };
_Static_assert((int)HAK_CLASS_LIMIT <= (int)HAK_OWNER_WARM, "a class and the flag have a byte");
HAK_FAST_PATH bool hak_owner_is_warm(uint16_t owner, uint16_t bin) {
    return owner == (bin | HAK_OWNER_WARM);
}

/* True for a slab, false for a unit of a large heap or of the pool. */
HAK_FAST_PATH bool hak_owner_is_bin(uint16_t owner) {
    return owner != 0 && hak_owner_class(owner) <= HAK_CLASS_COUNT;
}

/* The first block of a slab. */
HAK_FAST_PATH char *hak_slab_first(const hak_unit_t *slab, const hak_class_t *info) {
    return slab->base + hak_first_offset((uintptr_t)slab->base, info);
}

/* The bitmap of a slab whose bin lock or claim is held, or that has a block in use: then there is no mark. */
HAK_FAST_PATH uint64_t *hak_slab_bits(const hak_unit_t *slab) {
    return hak_load_relaxed(&slab->bits);
}

/* Marks in the low bits of that address. LEAVES: the slab is wholly free and about to leave its bin. GONE: the slab
 * belongs to no bin. Both bits: the address is that of a chunk's record (large/chunk.h), whose units are no slabs. */
enum { HAK_SLAB_LEAVES = 1, HAK_SLAB_GONE = 2, HAK_SLAB_MARKS = 3, HAK_SLAB_CHUNK = 3 };
HAK_FAST_PATH uint64_t *hak_slab_marked(uint64_t *bits, uintptr_t mark) {
    return (uint64_t *)((uintptr_t)bits | mark);
}
/* The address without marks, for a thread that holds neither the lock nor a claim, or for a slab of no bin. */
HAK_FAST_PATH uint64_t *hak_slab_unmarked(uint64_t *bits) {
    return (uint64_t *)((uintptr_t)bits & ~(uintptr_t)HAK_SLAB_MARKS);
}

/* The remote words of a bitmap are the second half of its record, whose size is a power of two. So
 * all records of one size have them at the same place, whatever their class. */
HAK_FAST_PATH _Atomic uint64_t *hak_slab_remote_of(uint64_t *bits, unsigned words) {
    return (_Atomic uint64_t *)(void *)(bits + hak_ceil_pow2(words));
}
HAK_FAST_PATH _Atomic uint64_t *hak_slab_remote(const hak_unit_t *slab, unsigned words) {
    return hak_slab_remote_of(hak_slab_bits(slab), words);
}
