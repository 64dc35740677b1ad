/* user_heap_table.h: heaps of the program's own (hakmem_heap_new): their table, and what a handle means.
 *
 * A heap is a lock, counters and lists of chunks (fine_grain.h). It is bound to no thread. Its number stands
 * in the descriptor of each of its units, so a free finds it from the pointer. The map calls these units
 * large: no thread ever caches their blocks, and what is freed is the heap's again at once.
 *
 * Heap 0 is the process's: blocks that are cut to measure where addresses are short, or sampled.
 *
 * PROTOCOL. The slots of the table are never unmapped and never anything else. So a thread may read a
 * stale number, take that heap's lock and look again under it: the number in a descriptor changes only
 * under the lock of the heap that it names. A handle is a slot's number and its generation, which grows
 * when the heap is destroyed: a call with a handle of a destroyed heap is reported. `hak_user_heap_close` makes
 * the handles stale, then the caller gives the blocks back, then `hak_user_heap_recycle` lets the slot be used
 * again. A program that allocates from a heap while it destroys it may lose that block; nothing worse.
 *
 * The lock is held for one block or one chunk, never for a walk over the heap. Neither the pool nor the
 * huge blocks are called under it, but for the notes of the latter (user_heap_huge.h).
 *
 * A thread that frees the whole heap frees what is there when it begins. It takes the next epoch; chunks
 * and huge blocks have that of their making, and stand in rings, the oldest first. It takes the oldest one
 * until that is not older than its epoch. So it ends while others allocate, two that free at once share the
 * work, and it finds a chunk whatever list that goes to meanwhile.
 *
 * BLOCKS IN FLIGHT. A thread may still write to a block when the heap has it already: zeroes, the bytes of a
 * block that is resized, a debug record, a sample. Such a block is in flight, from the section of the lock that
 * makes it to the landing. So is one that is resized where it is, while its sample or record is taken out and made,
 * and one that stays as it is, while its record is made for the new size. Who frees the whole heap leaves it, and its
 * chunk, to the heap: else its memory could be another block when the thread writes.
 *
 * A huge block that is resized may move. Its thread then changes its own flight, and no other one: the former address
 * is the kernel's again by then, and another block of the heap may be in flight there.
 *
 * The thread is outside the gate meanwhile, since no fork shall wait for long zeroes or a long copy. So in the child of
 * a fork the list may lead to flights of threads that stayed behind, on stacks that serve others by then. The heap
 * knows the process that its list is of: who takes off in another process begins a new list, and nobody else
 * looks at it there. In the child such a block is in use like any other that the thread had. A thread that forks in a
 * signal handler, while a block of its own is in flight, has another process when it lands: then its flight is in
 * no list. Its block is not spared there where a thread of the child frees the whole heap before it has landed.
 * A handler may also fork while its thread links or unlinks a flight. In the child that thread has the lock of the heap,
 * and ends the step: it may write to the links of flights that stayed behind. Their stacks serve nobody before the
 * handler has returned, unless it starts threads, which POSIX does not allow it; and the list is the parent's.
 *  - Rejected: to wait for such blocks. The one that waits must be outside the gate, and with others that
 *    allocate all the time it waits for ever, or has an epoch of its own for each wait. */
#pragma once

#include "base/base.h"
#include "base/ring.h"
#include "os/gate.h"
#include "os/lock.h"

enum { HAK_USER_HEAP_LISTS = 18 }; /* of chunks, by their longest free stretch */

struct hak_user_heap;

/* A block in flight, on the stack of its thread; `heap` is NULL where the request failed. */
typedef struct hak_flight {
    struct hak_flight *next, **at; /* lock of the heap */
    struct hak_user_heap *heap;
    const void *block; /* lock of the heap; its thread changes it when the block has moved */
    uint32_t process;  /* of the list that it is in */
} hak_flight_t;

typedef struct hak_user_heap {
    hak_lock_t lock;
    uint32_t number;             /* constant; of the slot */
    _Atomic uint32_t generation; /* table lock to write */
    _Atomic bool is_used;        /* table lock to write */
    uint32_t next_free;          /* table lock; number of the next slot that is not used */
    uint32_t epoch;              /* lock; how often all was freed */
    uint32_t process;            /* lock; to which the list of blocks in flight belongs */
    _Atomic size_t limit;        /* any thread writes; most committed bytes, 0: none */
    _Atomic size_t committed; /* lock to write, as the next four; bytes of chunks and huge blocks */
    _Atomic size_t blocks;    /* in use, in chunks */
    _Atomic size_t bytes;     /* their usable sizes */
    _Atomic size_t huge_blocks; /* the same of those with a mapping */
    _Atomic size_t huge_bytes;
    struct hak_fine *lists[HAK_USER_HEAP_LISTS]; /* lock */
    struct hak_fine *current; /* lock; the chunk that short requests sweep, or NULL */
    hak_ring_t *chunks;       /* lock, as the next two; the oldest one */
    hak_ring_t *mapped;       /* records of huge blocks; the oldest one */
    hak_flight_t *in_flight;
} HAK_ALIGNED(256) hak_user_heap_t;

_Static_assert(sizeof(hak_user_heap_t) == 256, "hakmem.h tells how long a heap is");

extern hak_user_heap_t hak_user_heap_process; /* heap 0 */

/* A new heap without blocks; NULL without memory. */
hak_user_heap_t *hak_user_heap_make(size_t limit);

/* The handle of a heap, and back: NULL when it is none, or that heap was destroyed. */
void *hak_user_heap_handle(const hak_user_heap_t *heap);
hak_user_heap_t *hak_user_heap_of_handle(const void *handle);

/* The heap of a number from 0 on; NULL when no slot ever had it. */
hak_user_heap_t *hak_user_heap_at(size_t number);
size_t hak_user_heap_slots(void); /* numbers are smaller */

/* The first heap behind a number that is made and not recycled; NULL for none. Takes no lock: a heap that is
 * there all the while is found, and any that is found has a slot. */
hak_user_heap_t *hak_user_heap_behind(size_t number);

/* The two ends of a destruction. The first is NULL like hak_user_heap_of_handle. */
hak_user_heap_t *hak_user_heap_close(const void *handle);
void hak_user_heap_recycle(hak_user_heap_t *heap);

/* Counts bytes as committed before they are, inside the gate; false where the heap's limit refuses them.
 * And takes that back. Both take the lock. */
bool hak_user_heap_charge(hak_user_heap_t *heap, size_t bytes);
void hak_user_heap_discharge(hak_user_heap_t *heap, size_t bytes);

/* The block is in flight; lock held. The second ends a flight, and takes the lock. */
void hak_user_heap_take_off(hak_user_heap_t *heap, hak_flight_t *flight, const void *block);
void hak_user_heap_land(hak_flight_t *flight);

/* The blocks in flight, by `next`. Lock held. */
HAK_FAST_PATH const hak_flight_t *hak_user_heap_flights(const hak_user_heap_t *heap) {
    return heap->in_flight && heap->process == hak_gate_process() ? heap->in_flight : NULL;
}

/* True when one of the blocks in these bytes is in flight. Lock held. */
bool hak_user_heap_is_in_flight(const hak_user_heap_t *heap, const void *start, size_t size);

/* The epoch of one that frees all that is there now: what has an earlier one. Takes the lock. */
uint32_t hak_user_heap_next_epoch(hak_user_heap_t *heap);
HAK_FAST_PATH bool hak_user_heap_is_before(uint32_t one, uint32_t other) {
    return (int32_t)(one - other) < 0;
}

/* What a heap has, or all heaps of the program together. */
typedef struct {
    size_t count, blocks, bytes, committed;
} hak_user_heap_stats_t;
hak_user_heap_stats_t hak_user_heap_stats_of(const hak_user_heap_t *heap);
hak_user_heap_stats_t hak_user_heap_stats(void);
