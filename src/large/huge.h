/* huge.h: blocks above 1 MiB, or aligned beyond 2 MiB: each a mapping of its own.
 *
 * Their addresses are kept in a table beside, so a pointer is known or foreign
 * without a look at the memory.
 *
 * A freed one is kept for a while with its pages (huge_stretches.h): blocks in use and those
 * kept come to at most one and a half times what was in use at once lately, or to
 * HUGE_CACHE bytes. What has been kept for PURGE_DELAY_MS goes back, many mappings
 * at a time; so no call is made while a program allocates and frees at a rate. calloc asks for each few
 * MiB which pages are there: it brings none into memory that the program does not use.
 *
 * Thread-safe. The table consists of several (huge_table.h), by a hash of the address, and what is kept
 * of parts, by the shard of the thread (huge_kept.h); each has a lock, and a thread holds one of them at a
 * time. An address is in one place: in a table, kept in a part, or in the hands of one thread. What a
 * section took out of its place is in the hands of its thread; nothing else that it saw is used after
 * it. So no thread acts on what another one may have changed between two locks.
 *
 * No system call is made under a lock: what one is made for is in hand. So an address is in a table
 * or a part only while it is mapped and ours:
 *   it goes out   before the call that may give it back: unmap, and lengthen, which may move
 *   it comes in   after the call that has made it
 * Once a call has given an address back, the kernel may give it to anybody at once, and so to
 * another thread of ours, which enters it: the old address must be out by then, the new one can
 * be nobody's but the caller's.
 *
 * A block that is resized is taken out of its table, which keeps room for it; it still counts. It stays
 * where it is when it becomes shorter, or when what is behind it is kept; else the system lengthens
 * it. Then it goes back, under whatever address; refused, as it was. Where it has moved to the
 * addresses of another table that cannot grow, it goes back into its former one: has_strays says that
 * such a block must be looked for in all tables. To other threads, which ask for other blocks, nothing
 * is missing. A program that frees or resizes the block meanwhile uses it after its end; that is a free
 * of an unknown pointer, and is reported. Rejected: to leave the block in the table with a mark, since
 * the old address may be another block's in the end.
 *
 * The sums in hak_huge_stats are the process's, and changed by atomic additions: whether more is kept
 * than may be is decided over all parts. What is kept changes with every block, what is held with
 * system calls only; their difference is in use.
 *
 * What a thread has in its hands is in no table, so a fork's child would lose it: a call that may
 * come to that is inside the gate (os/gate.h) from the section in which it takes something out to
 * the one in which it puts it back, system calls included, and a fork waits for it.
 * Rejected: a list of the stretches in hand. Nobody can tell whether the system call that
 * was under way has been made, and by now the address may be another mapping's. */
#pragma once

#include "base/base.h"
#include "large/huge_table.h"
#include "os/range.h"
#include "pool/purge_budget.h"

/* Read by anyone. A line for what changes with every block, one for what changes by system calls, one for the rest. */
typedef struct {
    _Atomic size_t kept_bytes; /* freed, with their pages */
    HAK_ALIGNED(HAK_LINE)
    _Atomic size_t held_bytes;                /* kept, in use, or in hand */
    _Atomic uint64_t mapped, grown, unmapped; /* mappings made, kept ones lengthened, given back */
    HAK_ALIGNED(HAK_LINE)
    _Atomic size_t
        recent_peak; /* bytes in use lately, at most; sinks by an eighth of the distance at
                                   every interval */
    _Atomic uint64_t sunk_ms, allocated_ms; /* when it last did; the last request */
} hak_huge_stats_t;

extern hak_huge_stats_t hak_huge_stats;

/* Bytes of blocks in use, those in hand included, while `kept` are kept. */
HAK_FAST_PATH size_t hak_huge_bytes_beside(size_t kept) {
    size_t held = hak_load_relaxed(&hak_huge_stats.held_bytes);
    return held - hak_min(kept, held); /* the two are read one after the other */
}
HAK_FAST_PATH size_t hak_huge_bytes(void) {
    return hak_huge_bytes_beside(hak_load_relaxed(&hak_huge_stats.kept_bytes));
}

/* Blocks in use: one table after the other is locked. */
size_t hak_huge_count(void);

/* At least `size` bytes at a multiple of `align`, a power of two; zeroed if told so.
 * NULL without memory. */
void *hak_huge_alloc(size_t size, size_t align, bool zero);

/* The same with a note, not zeroed. *dirty: so many bytes at its start may not be zero. */
void *hak_huge_take(size_t size, size_t align, uint64_t note, size_t *dirty);

/* Size of the mapping that starts at `block`, 0 when there is none. */
size_t hak_huge_size(const void *block);

/* The note of the block that starts at `block`; 0 for none. The second calls a function with it
 * under the lock of its table, so that nobody swaps it meanwhile. The third swaps it; false when it is not
 * `*note` any more, which is then what it is. Notes are of the hardened path (hardened/big.h), or of a heap of the
 * program (user_heap_huge.h). A block has its note from the section that enters it to the one that takes it out, also
 * where it is resized: so the note decides who may take it out, whatever another thread does by mistake. */
uint64_t hak_huge_note(const void *block);
void hak_huge_look(const void *block, void (*look)(uint64_t note, void *context), void *context);
bool hak_huge_swap_note(const void *block, uint64_t *note, uint64_t new_note);

/* Calls `visit` for each block, under the lock of its table, until it returns false. The lock is held for
 * a few blocks at a time. */
void hak_huge_each(hak_mapping_visitor_t visit, void *context);

/* The same in pieces; the cursor is all 0 at first. False when it has been all. */
typedef struct {
    unsigned table;
    size_t at;
} hak_huge_cursor_t;
bool hak_huge_each_piece(hak_huge_cursor_t *cursor, hak_mapping_visitor_t visit, void *context);

/* Start and size of the mapping around `pointer`; false when there is none. Slow, but no
 * lock is held for more than a part of a table: for diagnosis. */
bool hak_huge_find(const void *pointer, void **start, size_t *size);

/* True for a pointer to a block that was freed or moved away, or that a thread is freeing or moving, as far as that is
 * still known; the pointer is in no block now. Each table knows the last HAK_FREED_MAX blocks that were taken out of
 * it, and each part knows the stretches that it keeps. *size: size of that block; 0 if only its memory is known,
 * because it is kept. */
bool hak_huge_was_freed(const void *pointer, size_t *size);

/* Bytes of the block, whatever its note; 0 when `block` is no huge block. */
size_t hak_huge_free(void *block);

/* The same in two steps, inside the gate. After the first step the block is in no table, and the caller owns it and the
 * record to which *note leads. Returns 0 and does nothing if there is no block, or if its note has one of the bits
 * `refused`. */
size_t hak_huge_take_out(const void *block, uint64_t refused, uint64_t *note);
void hak_huge_drop(void *block, size_t size);

/* Unmaps what has been kept for `delay_ms`, as far as the budget allows, and adds the bytes; true when all is done.
 * *at, 0 at first, says where the next piece goes on. */
bool hak_huge_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget, size_t *bytes);

/* Calls `visit` for each huge block and each kept mapping, under a lock: it must not allocate. */
void hak_huge_each_range(hak_range_visitor_t visit, void *context);
bool hak_huge_each_range_piece(hak_huge_cursor_t *cursor, hak_range_visitor_t visit, void *context);

/* Resize by moving pages, never bytes. NULL if the system refuses; then the block is as it was. The first resizes only
 * blocks without a note, the second only blocks with the given note, which they keep. */
void *hak_huge_resize(void *block, size_t size);
void *hak_huge_resize_noted(void *block, size_t size, uint64_t note);
