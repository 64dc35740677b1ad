/* user_heap.h: heaps of the program's own (hakmem_heap_new): their table, and what a handle means.
 *
 * A heap is a lock, counters and lists of chunks (fine.h). It is bound to no thread. Its number stands
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
 * huge blocks are called under it, but for the notes of the latter (user_heap_huge.h). */
#pragma once

#include "base/base.h"
#include "os/lock.h"

enum { HAK_USER_HEAP_LISTS = 18 }; /* of chunks, by their longest free stretch */

typedef struct hak_user_heap {
    hak_lock_t lock;
    uint32_t number;             /* constant; of the slot */
    _Atomic uint32_t generation; /* table lock to write */
    _Atomic bool is_used;        /* table lock to write */
    uint32_t next_free;          /* table lock; number of the next slot that is not used */
    _Atomic size_t limit;        /* any thread writes; most committed bytes, 0: none */
    _Atomic size_t committed; /* lock to write, as the next four; bytes of chunks and huge blocks */
    _Atomic size_t blocks;    /* in use, in chunks */
    _Atomic size_t bytes;     /* their usable sizes */
    _Atomic size_t huge_blocks; /* the same of those with a mapping */
    _Atomic size_t huge_bytes;
    struct hak_fine *lists[HAK_USER_HEAP_LISTS]; /* lock */
    struct hak_fine *current;          /* lock; the chunk that short requests sweep, or NULL */
    struct hak_user_heap_huge *mapped; /* lock; records of huge blocks */
} HAK_ALIGNED(256) hak_user_heap_t;

extern hak_user_heap_t hak_user_heap_process; /* heap 0 */

/* A new heap without blocks; NULL without memory. */
hak_user_heap_t *hak_user_heap_make(size_t limit);

/* The handle of a heap, and back: NULL when it is none, or that heap was destroyed. */
void *hak_user_heap_handle(const hak_user_heap_t *heap);
hak_user_heap_t *hak_user_heap_of_handle(const void *handle);

/* The heap of a number from 0 on; NULL when no slot ever had it. */
hak_user_heap_t *hak_user_heap_at(size_t number);
size_t hak_user_heap_slots(void); /* numbers are smaller */

/* The two ends of a destruction. The first is NULL like hak_user_heap_of_handle. */
hak_user_heap_t *hak_user_heap_close(const void *handle);
void hak_user_heap_recycle(hak_user_heap_t *heap);

/* Counts bytes as committed before they are, inside the gate; false where the heap's limit refuses them.
 * And takes that back. Both take the lock. */
bool hak_user_heap_charge(hak_user_heap_t *heap, size_t bytes);
void hak_user_heap_discharge(hak_user_heap_t *heap, size_t bytes);

/* What a heap has, or all heaps of the program together. */
typedef struct {
    size_t count, blocks, bytes, committed;
} hak_user_heap_stats_t;
hak_user_heap_stats_t hak_user_heap_stats_of(const hak_user_heap_t *heap);
hak_user_heap_stats_t hak_user_heap_stats(void);
