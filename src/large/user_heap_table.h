/* user_heap_table.h: heaps of the program's own (hakmem_heap_new): their table, and what a handle means.
 *
 * A heap is a lock, counters and lists of chunks (fine_grain.h). It is bound to no thread. Its number stands
 * in the descriptor of each of its units, so a free finds it from the pointer. In the map these units are marked as
 * large: no thread ever caches their blocks, and a freed block belongs to the heap again at once.
 *
 * Heap 0 belongs to the process: it has the fine blocks that are made because address space is scarce, and those that
 * the heap profiler samples.
 *
 * PROTOCOL. The slots of the table are never unmapped and never used for anything else. So a thread may read a stale
 * number, take that heap's lock and look again under it: the number in a descriptor changes only under the lock of the
 * heap that it names. A handle is a slot's number and its generation, which grows when the heap is destroyed: a call
 * with the handle of a destroyed heap is reported. `hak_user_heap_close` makes the handles stale, then the caller gives
 * the blocks back, then `hak_user_heap_recycle` makes the slot available again. A program that allocates from a heap
 * while it destroys the heap may lose that block; nothing worse happens.
 *
 * The lock is held for one block or one chunk, never for a walk over the heap. Under it, neither the pool nor functions
 * of huge blocks are called, except for the notes of huge blocks (user_heap_huge.h).
 *
 * A thread that frees the whole heap frees the chunks and huge blocks that exist when it begins. It takes the next
 * epoch. Each chunk and huge block has the epoch in which it was made, and they are in rings, the oldest first. The
 * thread frees the oldest one until the oldest is not older than its epoch. So it ends while other threads allocate,
 * two threads that free at once share the work, and it finds a chunk even if the chunk moves to another list in the
 * meantime.
 *
 * BLOCKS IN FLIGHT. After the heap has listed a block, the allocating thread may still write to it or for it: zeroes,
 * the bytes of a block that is resized, a debug record, a sample. Such a block is in flight: from the lock section that
 * makes it, until it lands. A block that is resized in place is in flight while its sample or record is removed and
 * made again, and a block that keeps its size while its record is made for the new size. A thread that frees the whole
 * heap leaves such a block and its chunk to the heap: otherwise its memory could be another block when the allocating
 * thread writes.
 *
 * A huge block that is resized may move. Its thread then changes its own flight only: the former address belongs to the
 * kernel again by then, and another block of the heap may be in flight there.
 *
 * A thread with a block in flight is outside the gate, because a fork must not wait for long zeroing or a long copy. So
 * in the child of a fork, the list may lead to flights of threads that do not exist there, on stacks that other threads
 * use by then. The heap therefore records the process to which its list belongs. A thread that begins a flight in
 * another process begins a new list, and no other thread reads the old one. In the child such a block is in use, like
 * any other block of the missing thread. If a thread forks in a signal handler while a block of its own is in flight,
 * it is in another process when the block lands, and its flight is in no list. Then the block is not spared if a thread
 * of the child frees the whole heap before the block has landed. A handler may also fork while its thread links or
 * unlinks a flight. In the child this thread holds the lock of the heap, and completes the step: it may write to the
 * links of flights of missing threads. Nobody uses their stacks before the handler has returned, unless the handler
 * starts threads, which POSIX does not allow; and the list is that of the parent.
 *  - Rejected: to wait for such blocks. The waiting thread would have to be outside the gate, and while others allocate
 *    all the time it would wait for ever, or need an epoch of its own for each wait. */
#pragma once

#include "base/base.h"
#include "base/ring.h"
#include "os/gate.h"
#include "os/lock.h"

enum { HAK_USER_HEAP_LISTS = 18 }; /* of chunks, by their longest free stretch */

struct hak_user_heap;

/* A block in flight, on the stack of its thread; `heap` is NULL if the request failed. */
typedef struct hak_flight {
    struct hak_flight *next, **at; /* lock of the heap */
    struct hak_user_heap *heap;
    const void *block; /* lock of the heap; its thread changes it when the block has moved */
    uint32_t process;  /* of the list that it is in */
} hak_flight_t;

typedef struct hak_user_heap {
    hak_lock_t lock;
    uint32_t number;             /* constant; number of the slot */
    _Atomic uint32_t generation; /* table lock to write */
    _Atomic bool is_used;        /* table lock to write */
    uint32_t next_free;          /* table lock; number of the next slot that is not used */
    uint32_t epoch;              /* lock; how often the whole heap was freed */
    uint32_t process;            /* lock; process to which the list of blocks in flight belongs */
    _Atomic size_t limit;        /* any thread writes; most committed bytes, 0: no limit */
    _Atomic size_t committed; /* lock to write, as the next four; bytes of chunks and huge blocks */
    _Atomic size_t blocks;    /* in use, in chunks */
    _Atomic size_t bytes;     /* sum of their usable sizes */
    _Atomic size_t huge_blocks; /* the same two sums for huge blocks */
    _Atomic size_t huge_bytes;
    struct hak_fine *lists[HAK_USER_HEAP_LISTS]; /* lock */
    struct hak_fine *current; /* lock; the chunk that short requests sweep, or NULL */
    hak_ring_t *chunks;       /* lock, as the next two; the oldest chunk */
    hak_ring_t *mapped;       /* the record of the oldest huge block */
    hak_flight_t *in_flight;
} HAK_ALIGNED(256) hak_user_heap_t;

_Static_assert(sizeof(hak_user_heap_t) == 256, "hakmem.h tells how long a heap is");

extern hak_user_heap_t hak_user_heap_process; /* heap 0 */

/* Makes a heap without blocks; NULL without memory. */
hak_user_heap_t *hak_user_heap_make(size_t limit);

/* The handle of a heap; the heap of a handle, NULL if it is not a handle or its heap was destroyed. */
void *hak_user_heap_handle(const hak_user_heap_t *heap);
hak_user_heap_t *hak_user_heap_of_handle(const void *handle);

/* The heap with a number, from 0 on; NULL if no slot has that number. */
hak_user_heap_t *hak_user_heap_at(size_t number);
size_t hak_user_heap_slots(void); /* all numbers are smaller */

/* The first heap behind a number that is not recycled; NULL for none. Takes no lock. A walk finds each heap that exists
 * all the time, and the slot of each heap that it finds stays readable. */
hak_user_heap_t *hak_user_heap_behind(size_t number);

/* The beginning and the end of a heap's destruction. The first returns NULL when hak_user_heap_of_handle does. */
hak_user_heap_t *hak_user_heap_close(const void *handle);
void hak_user_heap_recycle(hak_user_heap_t *heap);

/* The first counts bytes as committed, before they are, inside the gate; false if the heap's limit refuses them. The
 * second undoes that. Both take the lock. */
bool hak_user_heap_charge(hak_user_heap_t *heap, size_t bytes);
void hak_user_heap_discharge(hak_user_heap_t *heap, size_t bytes);

/* The first puts a block in flight; lock held. The second ends the flight, and takes the lock. */
void hak_user_heap_take_off(hak_user_heap_t *heap, hak_flight_t *flight, const void *block);
void hak_user_heap_land(hak_flight_t *flight);

/* The first of the blocks in flight; `next` leads to the others. Lock held. */
HAK_FAST_PATH const hak_flight_t *hak_user_heap_flights(const hak_user_heap_t *heap) {
    return heap->in_flight && heap->process == hak_gate_process() ? heap->in_flight : NULL;
}

/* True when one of the blocks in these bytes is in flight. Lock held. */
bool hak_user_heap_is_in_flight(const hak_user_heap_t *heap, const void *start, size_t size);

/* The epoch of a thread that frees the whole heap: it frees all that has an earlier epoch. Takes the lock. */
uint32_t hak_user_heap_next_epoch(hak_user_heap_t *heap);
HAK_FAST_PATH bool hak_user_heap_is_before(uint32_t one, uint32_t other) {
    return (int32_t)(one - other) < 0;
}

/* The figures of a heap, or of all heaps of the program together. */
typedef struct {
    size_t count, blocks, bytes, committed;
} hak_user_heap_stats_t;
hak_user_heap_stats_t hak_user_heap_stats_of(const hak_user_heap_t *heap);
hak_user_heap_stats_t hak_user_heap_stats(void);
