/* warm_slab.h: warm slabs: slabs of a bin that are bound to one thread.
 *
 * A thread whose band is promoted (policy/policy.h) takes blocks directly from the bitmaps of a few
 * slabs that are bound to it (it "carves" them), without the lock of its shard. The shard knows
 * every warm slab and can take it back at any time, so an idle or dead thread keeps no memory from
 * other threads.
 *
 * A slot is a record in the thread's cache; its memory is never freed. Its state is
 *
 *   0          no slab is bound
 *   S          slab S is bound
 *   S | BUSY   the same, and a thread has claimed S: until the claim ends, only that thread
 *              accesses S's bitmap (its words, words_free, free_count, fresh)
 *
 * PROTOCOL
 *
 *   B   bind: by the thread, with the lock of its home bin, in state 0. S leaves the list, its
 *       owner word gets HAK_OWNER_WARM, S->slot points to the slot; then state = S
 *   C1  claim: CAS S -> S | BUSY. The thread itself does this without a lock. Any other thread
 *       holds the lock of S's bin, and finds the slot because of the flag in S's owner word
 *   C2  end of a claim: state = S
 *   U   unbind: with lock and claim. The owner word loses its flag, state = 0, and S is listed,
 *       kept or released like any slab
 *
 * So only the thread itself can be between C1 and C2 without the lock, in a carve, which never
 * waits. A thread that holds the lock and finds S claimed does not wait for the claim either:
 *   a give     frees the block like a block of another shard: F1..F3 of shard.h
 *   a drain    puts S back on the pending stack and leaves remote_words as it was (so no other
 *              thread has pushed S meanwhile)
 *   a take that looks for used blocks, and a sweep, skip S
 * A carve is inside the gate (os/gate.h): in the child of a fork no slab is claimed. Slabs that were bound to other
 * threads stay bound there, until a take or a sweep takes them back.
 *
 * A give claims a warm slab for its whole batch ("lifts" it): the owner word loses its flag, so the
 * give treats the slab like any other of the bin, but enters it in no list. At the end, before C2,
 * the flag is set again, and `spare` is reduced by what the give has added for the slab: the number
 * of ready blocks now minus `ready` of the slot, which the last C2 has stored. No other thread sees
 * the flag missing: threads that compare owner words and care for the flag hold the lock.
 *
 * The list, `touched` and `spare` of a bin cover slabs that are not bound: the amounts of S are
 * subtracted at B and added at U, and a carve writes only to S, its own slot and its thread's
 * counters. `used` of a ring makes it possible to count the blocks in use of warm slabs without
 * looking at the slabs. It excludes carved blocks: S's blocks in use are added at B and subtracted
 * at U, and blocks that a give or a drain sets free in S are subtracted.
 *
 *   blocks in use in the warm slabs of a class = sum of `used` + sum of HAK_WARM_TAKEN
 *
 * Other threads take a slot away (U) in these cases: a take that would otherwise touch fresh
 * memory, also one for a thread of another shard; a sweep, when nothing was carved since the last
 * sweep; a give or a drain that sets S wholly free; a new thread that gets the cache of a thread
 * that does not exist in the child of a fork (it unbinds all slots).
 *
 * Rejected races:
 *  - The thread claims S after another thread unbound it. The thread read the state when it was
 *    S; U made it 0, and only the thread itself binds again: its CAS fails.
 *  - S is released while the thread carves. Only a give or a drain can set S's last block free,
 *    with lock and claim, and both unbind S before they end the claim.
 *  - A freeing thread that found S claimed pushes S on its bin's pending stack after U. That is
 *    the same as any remote free: the block counts as in use until a drain has merged it. */
#pragma once

#include "base/base.h"
#include "shard/shard.h"

typedef struct hak_warm_slot {
    _Atomic uintptr_t state;           /* see above */
    struct hak_warm_slot *next, *prev; /* bin lock; ring of slots that have a slab */
    _Atomic uint16_t ready;            /* claim; hak_bin_ready when the last claim ended, or 0 */
    _Atomic uint16_t carves; /* the thread writes; number of batches carved and of binds */
    uint16_t carves_seen;    /* bin lock; carves at the last sweep */
} hak_warm_slot_t;

/* A thread's counters for its warm slabs of a class. */
enum {
    HAK_WARM_HITS,      /* refills that warm slabs served */
    HAK_WARM_MISSES,    /* refills that they did not serve */
    HAK_WARM_PREFILLED, /* slabs bound */
    HAK_WARM_ATTEMPTS,  /* refills that tried to carve */
    HAK_WARM_CARVED,    /* refills that carved blocks, without the lock */
    HAK_WARM_TAKEN,     /* blocks of these refills */
    HAK_WARM_COUNTERS
};

/* The warm slabs of a class, of one cache. */
typedef struct hak_warm {
    _Atomic uint64_t counts[HAK_WARM_COUNTERS]; /* the thread writes; TAKEN: in a claim */
    uint32_t count;                             /* constant; slots */
    hak_warm_slot_t slots[] HAK_ALIGNED(HAK_LINE);
} hak_warm_t;

/* The slots of a bin that have a slab, and counters. */
typedef struct {
    hak_warm_slot_t *oldest;  /* bin lock */
    _Atomic uint32_t count;   /* written under the bin lock */
    _Atomic uint32_t unbound; /* written under the bin lock; slots that were taken away */
    _Atomic uint64_t carved;  /* atomic; refills without the lock, as threads report them */
    uint64_t used;            /* bin lock; see above; wraps below 0 when more was carved */
} hak_warm_ring_t;

hak_warm_ring_t *hak_warm_ring_of(unsigned shard, unsigned class_index);

/* True once a slab was bound: until then nobody reads a ring. Rejected: a sum of all slabs that are bound,
 * which every refill would read and every bind would take from all CPUs. */
extern _Atomic bool hak_warm_seen;

/* True when a bin has warm slabs. Exact under the bin's lock, otherwise a hint. */
HAK_FAST_PATH bool hak_warm_any(unsigned shard, unsigned class_index) {
    return HAK_UNLIKELY(hak_load_relaxed(&hak_warm_seen)) &&
           hak_load_relaxed(&hak_warm_ring_of(shard, class_index)->count) != 0;
}

/* Makes a record for up to `count` slabs of a thread at home in a shard, with none bound. NULL when there is no
 * memory. */
hak_warm_t *hak_warm_make(unsigned home, unsigned count);

/* Called by the thread itself, with no lock held. Takes up to `want` free blocks that were in use
 * before from its warm slabs, as hak_shard_take does, if the slabs have at least about half as
 * many. If `locked`, accesses the bitmaps under the bin's lock. Returns how many; 0 is a miss. */
unsigned hak_warm_take(hak_warm_t *warm, unsigned home, unsigned class_index, unsigned want,
                       void **top, bool locked);

/* Gives all warm slabs of the class back. Called by the thread, with no lock held. */
void hak_warm_release(hak_warm_t *warm, unsigned home, unsigned class_index);

/* ---- With the bin lock held ------------------------------------------------------------------ */

/* Called by the thread at a miss. The first, before the take, gives warm slabs without used free
 * blocks back to the bin. The second, after the take, binds up to half of the listed slabs, of
 * those that have such blocks. */
void hak_warm_release_used_up(hak_warm_t *warm, hak_bin_t *bin);
void hak_warm_prefill(hak_warm_t *warm, hak_bin_t *bin);

/* Takes one slot away whose slab has free blocks that were in use before (with `fresh`: any free
 * blocks), and lists the slab; false when there is no such slot. */
bool hak_warm_release_one(hak_bin_t *bin, unsigned shard, unsigned class_index, bool fresh);

/* Takes away all slots that were not used since the last sweep. Prepends slabs that are to be
 * released to the list `released`; returns the list. */
hak_unit_t *hak_warm_release_idle(hak_bin_t *bin, unsigned shard, unsigned class_index,
                                  hak_unit_t *released);

/* For a give, around a batch of blocks. The first lifts a warm slab: claims it, so that the give
 * treats it as a slab of the bin that is in no list; false when it is already claimed. The second
 * binds it again, unless it is wholly free; true when the slab is to be released. */
bool hak_warm_lift(hak_unit_t *slab);
bool hak_warm_put_down(hak_bin_t *bin, hak_unit_t *slab);

/* The first claims a warm slab; false when it is already claimed. The second ends the claim after
 * blocks were set free in the slab; true when the slab was unbound and is to be released. */
bool hak_warm_claim(hak_unit_t *slab);
bool hak_warm_after_free(hak_bin_t *bin, hak_unit_t *slab);

/* Blocks in use in the warm slabs of a bin, without carved blocks (see `used`). */
uint64_t hak_warm_used(unsigned shard, unsigned class_index);

/* ---- Without a lock ---------------------------------------------------------------------------- */

/* Number of slabs of a class that are bound; number of slots that were taken away so far. */
uint64_t hak_warm_slabs(unsigned class_index);
uint64_t hak_warm_unbound(unsigned class_index);
