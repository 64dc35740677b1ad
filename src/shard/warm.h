/* warm.h: warm slabs: slabs of a bin that are bound to one thread.
 *
 * A thread whose band is promoted (policy/policy.h) takes blocks straight from the bitmaps
 * of a few slabs that are bound to it ("carves" them), without its shard's lock. The shard
 * knows every warm slab and takes it back when it likes, so no thread's idleness or death
 * keeps memory from others.
 *
 * A slot is a record of the thread's cache, and is never given back. Its state is
 *
 *   0          nothing is bound
 *   S          slab S is bound
 *   S | BUSY   the same, and somebody has claimed S: until the claim ends, S's bitmap (its
 *              words, words_free, free_count, fresh) is theirs alone
 *
 * PROTOCOL
 *
 *   B   bind: the thread, with the lock of its home bin, state 0. S leaves the list, its
 *       owner word gets HAK_OWNER_WARM, S->slot leads here; then state = S
 *   C1  claim: CAS S -> S | BUSY. The thread does so without a lock; anyone else holds the
 *       lock of S's bin, and finds the slot by the flag in S's owner word
 *   C2  end of a claim: state = S
 *   U   unbind: lock and claim. The owner word loses its flag, state = 0, and S is listed,
 *       kept or released as any slab
 *
 * So between C1 and C2 without the lock there is only the thread itself, in a carve that
 * waits for nobody. Who holds the lock and finds S claimed does not wait for it either:
 *   a give     goes the way of a block of another shard: F1..F3 of shard.h
 *   a drain    puts S back on the stack, remote_words as they were (so nobody else has
 *              pushed S meanwhile)
 *   a take that looks for used blocks, and a sweep, pass S over
 * Only a report at exit, which holds all bin locks, waits. A carve is inside the gate (os/gate.h):
 * in the child of a fork nothing is claimed. Slabs that were bound to other threads are so there,
 * too, until a take or a sweep takes them back.
 *
 * A give claims a warm slab for all of its batch ("lifts" it): the owner word loses its flag, so
 * it is given to as any other of the bin, only that it enters no list. At the end, before C2, the
 * flag comes back, and spare loses what it has got for the slab, which is what it has more than
 * `ready`, that of the last C2. Nobody else sees the flag go: who compares owner words with the
 * flag in mind holds the lock.
 *
 * The list, touched and spare of a bin are about slabs that are not bound: what S has is
 * subtracted at B and added at U, and a carve writes to nothing but S, its own slot and its
 * thread's counters. So that nobody has to look at the warm slabs to count their blocks in use,
 * `used` of a ring has them without what was carved: S's blocks in use are added at B and
 * subtracted at U, and what a give or a drain sets free in S is subtracted.
 *
 *   blocks in use in the warm slabs of a class = sum of `used` + sum of HAK_WARM_TAKEN
 *
 * Who takes a slot away (U by others): a take that would touch fresh memory otherwise,
 * also for a thread of another shard; a sweep, when nothing was carved since the last one;
 * a give or a drain that sets S wholly free; a new thread that gets the cache of one that a fork
 * left behind, all of that.
 *
 * Rejected races:
 *  - The thread claims S after somebody unbound it. It looked at state when that was S; U
 *    made it 0, and nobody but the thread itself binds again: its CAS fails.
 *  - S is released while the thread carves. Only a give or a drain can set S's last block
 *    free, by lock and claim, and both unbind S before they let go of it.
 *  - A freer that found S claimed pushes S on its bin's stack after U: as any remote free;
 *    S has that block in use until a drain has merged it. */
#ifndef HAK_WARM_H
#define HAK_WARM_H

#include "base/base.h"
#include "shard/shard.h"

typedef struct hak_warm_slot {
    _Atomic uintptr_t state;           /* see above */
    struct hak_warm_slot *next, *prev; /* bin lock; ring of those that have a slab */
    _Atomic uint16_t ready;  /* claim; used and free blocks when the last claim ended, or 0 */
    _Atomic uint16_t carves; /* the thread writes; batches carved, and slots */
    uint16_t carves_seen;    /* bin lock; carves at the last sweep */
} hak_warm_slot_t;

/* What a thread has done with its warm slabs of a class. */
enum {
    HAK_WARM_HITS,      /* refills that warm slabs served */
    HAK_WARM_MISSES,    /* those that they did not */
    HAK_WARM_PREFILLED, /* slabs bound */
    HAK_WARM_ATTEMPTS,  /* refills that tried to carve */
    HAK_WARM_CARVED,    /* those that did, without the lock */
    HAK_WARM_TAKEN,     /* blocks that these brought */
    HAK_WARM_COUNTERS
};

/* The warm slabs of a class, of one cache. */
typedef struct hak_warm {
    _Atomic uint64_t counts[HAK_WARM_COUNTERS]; /* the thread writes; TAKEN: in a claim */
    uint32_t count;                             /* constant; slots */
    hak_warm_slot_t slots[] HAK_ALIGNED(HAK_LINE);
} hak_warm_t;

/* The slots of a bin that have a slab, and what became of others. */
typedef struct {
    hak_warm_slot_t *oldest;  /* bin lock */
    _Atomic uint32_t count;   /* written under the bin lock */
    _Atomic uint32_t unbound; /* written under the bin lock; slots that were taken away */
    _Atomic uint64_t carved;  /* atomic; refills without the lock, as threads report them */
    uint64_t used;            /* bin lock; see above; below 0 where more was carved */
} hak_warm_ring_t;

hak_warm_ring_t *hak_warm_ring_of(unsigned shard, unsigned class_index);

/* Slabs that are bound now, of all bins; a hint without a lock. */
extern _Atomic uint32_t hak_warm_total;

/* True when a bin has warm slabs; exact with its lock, else a hint. */
HAK_FAST_PATH bool hak_warm_any(unsigned shard, unsigned class_index) {
    return HAK_UNLIKELY(hak_load_relaxed(&hak_warm_total) != 0) &&
           hak_load_relaxed(&hak_warm_ring_of(shard, class_index)->count) != 0;
}

/* A record for up to `count` slabs, none bound. NULL without memory. */
hak_warm_t *hak_warm_make(unsigned count);

/* By the thread itself, no lock held. Takes up to `want` free blocks that were in use before
 * from its warm slabs, as hak_shard_take does, if they have about half as many. With
 * `locked`, the bitmaps are touched under the bin's lock. Returns how many; 0 is a miss. */
unsigned hak_warm_take(hak_warm_t *warm, unsigned home, unsigned class_index, unsigned want,
                       void **top, bool locked);

/* The thread gives all its warm slabs of the class back. No lock held. */
void hak_warm_release(hak_warm_t *warm, unsigned home, unsigned class_index);

/* ---- With the bin lock held ------------------------------------------------------------------ */

/* At a miss, by the thread itself. Before the take: warm slabs without used free blocks
 * go back to the bin. After it: up to half of the listed slabs are bound, of those that have
 * some. */
void hak_warm_release_used_up(hak_warm_t *warm, hak_bin_t *bin);
void hak_warm_prefill(hak_warm_t *warm, hak_bin_t *bin);

/* Takes a slot away whose slab has free blocks that were in use before, with `fresh` any
 * free blocks, and lists the slab; false when there is none. */
bool hak_warm_release_one(hak_bin_t *bin, unsigned shard, unsigned class_index, bool fresh);

/* Takes the slots away that were not used since the last sweep. Slabs to be released
 * are linked in front of `released`; returns that list. */
hak_unit_t *hak_warm_release_idle(hak_bin_t *bin, unsigned shard, unsigned class_index,
                                  hak_unit_t *released);

/* For a batch of blocks that is being given. Lifts a warm slab: it is claimed, and passes for
 * a slab of the bin that is in no list; false when it is claimed already. What is put down is
 * bound again, but for a slab that is wholly free: true when that is to be released. */
bool hak_warm_lift(hak_unit_t *slab);
bool hak_warm_put_down(hak_bin_t *bin, hak_unit_t *slab);

/* Claims a warm slab; false when it is claimed. Ends the claim after blocks were set free
 * in it; true when the slab, unbound, is to be released. */
bool hak_warm_claim(hak_unit_t *slab);
bool hak_warm_after_free(hak_bin_t *bin, hak_unit_t *slab);

/* Blocks in use in the warm slabs of a bin, but for those that were carved. */
uint64_t hak_warm_used(unsigned shard, unsigned class_index);

/* ---- With all bin locks held ----------------------------------------------------------------- */

/* Claims all warm slabs, but sleeps `tries` milliseconds at most and takes from them what it
 * slept: the caller may have interrupted a carve, whose claim does not end. False: none. */
bool hak_warm_claim_all_within(unsigned *tries);

/* Ends that, also for what the caller has bound meanwhile. */
void hak_warm_unclaim_all(void);

/* Slabs of a class that are bound; slots of it that were taken away so far. */
uint64_t hak_warm_slabs(unsigned class_index);
uint64_t hak_warm_unbound(unsigned class_index);

/* Refills of a class that were carved, but for the last few of each thread; no lock. */
uint64_t hak_warm_carved(unsigned class_index);

#endif
