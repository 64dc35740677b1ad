/* state.h: the exact state of each block of a size class, beside its slab.
 *
 *   word = requested size << 4 | origin << 2 | state, of 16 bits
 *
 *   NEVER  the hardened path has not had the block yet. With a size other than 0 (OLD), it was in use when the path
 *          was switched on
 *   FREE   in a free list, in a quarantine or in its slab. With a size other than 0 (FRESH), its
 *          contents were unknown when it came from its slab
 *   USED   the program has it
 *   SEEN   the same, and hakmem_verify() looks at the bytes behind it
 *
 * A size that does not fit (LONG) stands in an array behind the words, less 1: blocks of more than 1 KiB are at most 64 to
 * a slab, so only the shortest array has one. The thread that gives the block to the program stores it before the word;
 * whoever finds the word in use, and then changes it in one step, reads the size of that block.
 *
 * The words of a unit are an array by block index. A unit has up to three arrays, one for each
 * level of classes. Each is made when it is first needed, and none is ever freed or given to another
 * unit. But when the pages of a free unit go back to the system, so do those of an array of whole pages, and its
 * words are NEVER again, as in a unit that has never been a slab (hak_state_purge); shorter ones stay as they are. So if
 * a thread frees a block twice, and the slab has become another one by then, the thread finds words of the same unit:
 * at worst the state of a block with the same index.
 *
 * NEAR ARRAYS. The pointers to the arrays stand in a table of their superslab. Those of the first HAK_STATE_NEAR units
 * stand in one table of the process, too, which saves half of the steps of a look-up. The table exists unless the
 * system, or a limit on addresses, refuses it. A thread enters an array there before it hands out a block that has a
 * word in it. So every thread that has the block finds the array; any other may find none, as before it was made.
 *
 * A block that goes back to its slab keeps its word. If freed blocks are zeroed, FREE without a size means that the
 * block was zero then: a write to it since is found when malloc returns it again. A unit that becomes a slab anew may
 * hold anything. So before another thread knows the slab (hak_state_renew), its words become NEVER if its blocks are
 * small and the unit is zero, perhaps without pages; otherwise its words that are not NEVER become FRESH. The unit's bit
 * in `clean` tells the two apart: no word is written for it, since most small processes use a part of their slabs.
 *
 * OLD BLOCKS. If the process has one thread when the path is switched on, the blocks in use at that time become OLD
 * (hak_state_note_old), and only these may be freed from NEVER. Otherwise a thread may allocate without the path until it
 * sees that the path is on, so each NEVER block that its slab has handed out counts as one from before.
 *  - Rejected: this rule for all processes. A wrong free of a block that another thread is just taking from a shard
 *    would pass for that of an old block. The block would be back in its slab, and the other thread would have it, too.
 *
 * PROTOCOL. The thread that takes a block from a shard makes it FREE; the thread that gives it to
 * the program makes it USED, before the program has the address. A free begins with a
 * compare-and-swap from USED to FREE: of two racing frees one wins, the other reports and changes
 * nothing. A resize in place makes the block FREE as well, until the bytes behind it are right.
 *
 * hakmem_verify() compares those bytes while threads allocate and free. If they are wrong, it swaps
 * USED for SEEN, compares again, and swaps SEEN back for USED. It reports only if the last swap
 * succeeds: then the block was in use all the time. A free or a resize swaps SEEN as it does USED,
 * and never waits.
 *  - Rejected: a load, then a store. Both of two racing frees would find USED.
 *  - Rejected: a second look at the word alone. The block may have been freed and allocated again
 *    with the same size, and the bytes were compared between the two.
 *  - Rejected: words that go with the bitmap of the slab. A bitmap serves another slab after its
 *    slab is released, and a late second free would swap a word of that one. */
#pragma once

#include "base/base.h"
#include "region/region.h"

typedef enum { HAK_STATE_NEVER, HAK_STATE_FREE, HAK_STATE_USED, HAK_STATE_SEEN } hak_state_t;

/* The kind of function that allocated a block; the matching function has to free it. */
typedef enum { HAK_ORIGIN_MALLOC, HAK_ORIGIN_NEW, HAK_ORIGIN_NEW_ARRAY } hak_origin_t;

enum {
    HAK_STATE_BITS = 3,
    HAK_ORIGIN_SHIFT = 2,
    HAK_SIZE_SHIFT = 4,
    HAK_STATE_TAG = (1 << HAK_SIZE_SHIFT) - 1, /* all but the size */
    HAK_STATE_LEVELS = 3,
    HAK_STATE_NO_LEVEL = HAK_STATE_LEVELS, /* no unit has words there */
    HAK_STATE_FRESH = HAK_STATE_FREE | 1 << HAK_SIZE_SHIFT,
    HAK_STATE_OLD = HAK_STATE_NEVER | 2 << HAK_SIZE_SHIFT,
    HAK_STATE_LONG = 0xFFF, /* in place of this size and longer ones */
    HAK_STATE_NEAR =
        1 << 16, /* units, of nearly 4 GiB of heap; 2 MiB of addresses for their pointers */
};

typedef _Atomic uint16_t hak_state_word_t;
typedef _Atomic(hak_state_word_t *) hak_state_array_t; /* NULL, then constant */

typedef struct hak_states {
    hak_state_array_t words[HAK_SUPERSLAB_UNITS_MAX][HAK_STATE_NO_LEVEL + 1];
    _Atomic uint64_t large[HAK_SUPERSLAB_UNITS_MAX]; /* atomic; of the large block that begins in
                                                        the unit: big.h */
    _Atomic uint32_t
        clean; /* a bit for each unit, constant while it is a slab: its blocks that are NEVER are zero */
} hak_states_t;
_Static_assert(HAK_SUPERSLAB_UNITS_MAX <= 32, "the bits of a superslab are in a word");

/* The word of a block in use, whose size is not LONG. */
HAK_FAST_PATH uint16_t hak_state_used(size_t size, hak_origin_t origin) {
    return (uint16_t)(size << HAK_SIZE_SHIFT | (unsigned)origin << HAK_ORIGIN_SHIFT |
                      HAK_STATE_USED);
}
HAK_FAST_PATH hak_state_t hak_state_of(uint64_t word) {
    return (hak_state_t)(word & HAK_STATE_BITS);
}
HAK_FAST_PATH bool hak_state_is_used(uint64_t word) { return hak_state_of(word) >= HAK_STATE_USED; }
HAK_FAST_PATH hak_origin_t hak_state_origin(uint64_t word) {
    return (hak_origin_t)(word >> HAK_ORIGIN_SHIFT & HAK_STATE_BITS);
}
/* The size of a block, if it is not longer than LONG. */
HAK_FAST_PATH size_t hak_state_size(size_t word) { return (size_t)(word >> HAK_SIZE_SHIFT); }

/* That of any block; `word`: its word, as read before. */
HAK_FAST_PATH size_t hak_state_size_at(const hak_state_word_t *at, uint16_t word) {
    const size_t size = hak_state_size(word);
    return HAK_LIKELY(size != HAK_STATE_LONG) ? size
                                              : (size_t)hak_load_relaxed(at + HAK_BLOCKS_FEW) + 1;
}

/* Gives a block of any size to the program. */
HAK_FAST_PATH void hak_state_use(hak_state_word_t *at, size_t size, hak_origin_t origin) {
    if (HAK_UNLIKELY(size >= HAK_STATE_LONG)) {
        hak_store_relaxed(at + HAK_BLOCKS_FEW, (uint16_t)(size - 1));
        size = HAK_STATE_LONG;
    }
    hak_store_release(at, hak_state_used(size, origin)); /* partner: hak_state_swap */
}

/* Changes a word, in one step; false when it is not `*word` any more. */
HAK_FAST_PATH bool hak_state_swap(hak_state_word_t *at, uint16_t *word, uint16_t changed) {
    return hak_cas_acquire(at, word, changed);
}

/* Makes a block FREE; false when it is not in use. `*word`: its word, as read before. */
HAK_FAST_PATH bool hak_state_claim(hak_state_word_t *at, uint16_t *word) {
    while (hak_state_is_used(*word))
        if (HAK_LIKELY(hak_state_swap(at, word, HAK_STATE_FREE))) return true;
    return false;
}

/* The same for a block that was allocated before the path was on; `word`: its word, as read before. Of two frees one
 * wins. */
HAK_FAST_PATH bool hak_state_claim_old(hak_state_word_t *at, uint16_t word) {
    return hak_state_swap(at, &word, HAK_STATE_FRESH);
}

/* The tables of a superslab, made if there are none; NULL without memory. */
hak_states_t *hak_state_tables(hak_superslab_t *super);

/* The words of the blocks of a slab; makes them if there are none. NULL without memory. `unit` counts from the map's
 * first one. */
hak_state_word_t *hak_state_make(size_t unit, const hak_class_t *info);

/* True if a unit's bit in `clean` is set. */
bool hak_state_is_clean(size_t unit);

/* Makes the blocks in use OLD. The process has one thread. False without memory. */
bool hak_state_note_old(void);

/* The watcher of new slabs (shard/bin.h): sets the words of a slab's blocks (see above). */
void hak_state_renew(const hak_unit_t *slab, unsigned class_index);

/* The watcher of units whose pages have gone back (pool/purge.h). */
void hak_state_purge(hak_superslab_t *super, uint32_t units);

/* The index of a unit in the tables of its superslab. */
HAK_FAST_PATH unsigned hak_state_place(size_t unit) { return unit % HAK_SUPERSLAB_UNITS_MAX; }

/* The place of an array of a unit below hak_map.states_end. */
HAK_FAST_PATH hak_state_array_t *hak_state_near(size_t unit, unsigned level) {
    return (hak_state_array_t *)hak_map.states + unit * (HAK_STATE_NO_LEVEL + 1) + level;
}

HAK_FAST_PATH hak_state_word_t *hak_state_words(size_t unit, unsigned level) {
    if (HAK_LIKELY(unit < hak_map.states_end))
        return hak_load_acquire(hak_state_near(unit, level)); /* partner: hak_state_make */
    const hak_superslab_t *super =
        (const hak_superslab_t *)(hak_map.supers +
                                  (unit >> hak_map.super_shift) * sizeof(hak_superslab_t));
    hak_states_t *states = hak_load_acquire(&super->states); /* partner: hak_once_make */
    if (HAK_UNLIKELY(!states)) return NULL;
    return hak_load_acquire(&states->words[hak_state_place(unit)][level]); /* the same */
}

HAK_FAST_PATH hak_state_word_t *hak_state_word(size_t unit, const hak_class_t *info,
                                               uint32_t index) {
    hak_state_word_t *words = hak_state_words(unit, info->level);
    return HAK_LIKELY(words != NULL) ? words + index : NULL;
}

/* Number of a block's unit, counted from the map's first one. */
HAK_FAST_PATH size_t hak_state_unit(const void *block) {
    return ((uintptr_t)block - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
}

/* True when the block is neither free in its slab nor on its way there: it was allocated before the
 * hardened path was switched on, if its state is NEVER. For a diagnosis: no lock is held. */
bool hak_state_is_taken(const hak_unit_t *slab, const hak_class_t *info, uint32_t index);
