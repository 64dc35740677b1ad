/* slab.h: the descriptor of one unit of 64 KiB, one cache line, outside the unit.
 *
 * A unit is free (in the pool), a slab (blocks of one size class, owned by one
 * shard bin) or part of a run (a large block). The array of descriptors is never
 * unmapped: whoever holds a stale pointer to one may look at it at any time.
 *
 * Invariant of a slab, whenever its bin's lock is free:
 *   free_count = number of set bits in bits[0 .. words-1]
 *   words_free has bit w set  <=>  bits[w] != 0
 *   blocks in use or in some thread's cache = count - free_count - (remote bits)
 * The protocol of the remote words is in shard/shard.h. */
#ifndef HAK_SLAB_H
#define HAK_SLAB_H

#include "base/base.h"
#include "classes/classes.h"

typedef struct hak_slab {
    char *base;                      /* constant once the unit is committed */
    uint64_t *bits;                  /* bin lock; 1 = free block; remote words follow */
    uint64_t words_free;             /* bin lock */
    _Atomic uint64_t remote_words;   /* atomic; bit w: remote word w may be non-zero */
    struct hak_slab *next, *prev;    /* bin lock; list of partly free slabs */
    struct hak_slab *pending_next;   /* whoever set remote_words from 0 to non-zero */
    union {
        struct {
            uint16_t free_count;     /* bin lock; blocks */
            uint16_t fresh;          /* bin lock; blocks from here on were never handed out */
        };
        struct {
            uint16_t run_units;      /* first unit of a run: units; constant while in use */
            uint16_t run_offset;     /* unit of a run: units after its first one */
        };
    };
    _Atomic uint8_t class_index;     /* written by who takes it from the pool; class or RUN or NONE */
    _Atomic uint8_t shard;           /* the same; owner */
    bool listed;                     /* bin lock; in the list of partly free slabs */
    bool zeroed;                     /* constant while in use; the unit was zero when it was taken */
} hak_slab_t;

_Static_assert(sizeof(hak_slab_t) == HAK_LINE, "a slab descriptor is one cache line");

/* The remote words of a slab: as many as its bitmap has, right behind it. */
HAK_FAST_PATH _Atomic uint64_t *hak_slab_remote(const hak_slab_t *slab, unsigned words) {
    return (_Atomic uint64_t *)(void *)(slab->bits + words);
}

#endif
