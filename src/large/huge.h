/* huge.h: blocks above 1 MiB, or aligned beyond 2 MiB: each a mapping of its own.
 *
 * Tables outside the blocks hold the addresses. So HAKMEM knows whether a pointer is a huge block or foreign
 * without a look at the memory.
 *
 * A freed block is kept for a while with its pages (huge_stretches.h; huge_kept.h says how many bytes). What
 * has been kept for PURGE_DELAY_MS goes back to the system, many mappings at a time. So a program that
 * allocates and frees steadily makes no system calls for these blocks. A stretch that is too short is lengthened, and
 * pages of other stretches are moved to its new end, so that they need not be given back while the block gets new
 * ones. calloc asks the kernel, a few MiB at a time, which pages are in memory, and brings in hardly any of the others.
 *
 * Thread-safe. A hash of a block's address chooses its table (huge_table.h). Kept blocks are divided into
 * parts, by the home shard of the thread that freed them (huge_kept.h). Each table and each part has a lock,
 * and a thread holds only one of them at a time. An address is in exactly one place: in a table, in a part, or
 * in the hands of one thread. What a thread has taken out under a lock is in its hands; it uses nothing else
 * that it saw under the lock after it has released the lock. So no thread acts on what another one may have
 * changed between two lock sections.
 *
 * No system call is made under a lock: its addresses are in the caller's hands. So an address is in a table
 * or a part only while it is mapped and ours:
 *   taken out   before the call that may give it back: unmap, and lengthen, which may move the mapping
 *   entered     after the call that has made it
 * Once a call has given an address back, the kernel may give it to any other mapping at once, also to a block
 * of another thread, which enters it. So the old address must be out of its table by then. The new address
 * belongs to nobody but the caller.
 *
 * A block that is being resized is out of its table; the table keeps room for it, and it still counts. The
 * block stays where it is if it becomes shorter, or if the memory behind it is kept; otherwise the system
 * lengthens it. Then it is entered again, under its new address if it has moved. If the system refuses, it is
 * entered as it was. If the block has moved to an address of another table, and that table cannot grow, the
 * block goes back into its former table; has_strays then says that a search must look in all tables. Other
 * threads, which ask for other blocks, miss nothing. If the program frees or resizes the block meanwhile, it
 * uses a block that it has given up; this is reported as a free of an unknown pointer. Rejected: to leave the
 * block in the table with a mark. At the end of the resize its old address may be another block's.
 *
 * The sums in hak_huge_stats cover the process and are changed by atomic additions, since the bound on kept
 * bytes holds for all parts together. kept_bytes changes with every block, held_bytes only with system calls;
 * their difference is in use.
 *
 * What a thread has in its hands is in no table, so the child of a fork would lose it. Therefore a call is
 * inside the gate (os/gate.h) from the lock section in which it takes something out to the one in which it
 * puts it back, system calls included, and a fork waits for it.
 * Rejected: a list of the stretches in hand. Nobody could tell whether a system call that was under way has
 * been made, and by then the address may belong to another mapping. */
#pragma once

#include "base/base.h"
#include "large/huge_table.h"
#include "os/range.h"
#include "pool/purge_budget.h"

/* Any thread reads them. What changes with every block has a cache line of its own, and so has what changes with system
 * calls only; requests and frees read the bytes, but not the numbers of calls. */
typedef struct {
    _Atomic size_t kept_bytes; /* freed, with their pages */
    HAK_ALIGNED(HAK_LINE)
    _Atomic size_t held_bytes; /* kept, in use, or in hand */
    HAK_ALIGNED(HAK_LINE)
    _Atomic uint64_t mapped, grown, unmapped; /* mappings made, kept ones lengthened, given back */
    _Atomic uint64_t moved; /* pieces whose pages have come to the end of a longer block */
    HAK_ALIGNED(HAK_LINE)
    _Atomic size_t
        recent_peak; /* most bytes in use lately; every 250 ms it sinks by an eighth of its
                                distance to the bytes in use */
    _Atomic uint64_t sunk_ms, allocated_ms; /* time of the last subtraction; of the last request */
} hak_huge_stats_t;

extern hak_huge_stats_t hak_huge_stats;

/* Pieces that a process moves: each may add two mappings, which the kernel never joins again. */
enum { HAK_HUGE_MOVED_MOST = 1024 };

/* Bytes of blocks in use, those in hand included, while `kept` are kept. */
HAK_FAST_PATH size_t hak_huge_bytes_beside(size_t kept) {
    size_t held = hak_load_relaxed(&hak_huge_stats.held_bytes);
    return held - hak_min(kept, held); /* the two are read one after the other */
}
HAK_FAST_PATH size_t hak_huge_bytes(void) {
    return hak_huge_bytes_beside(hak_load_relaxed(&hak_huge_stats.kept_bytes));
}

/* Number of blocks in use. Locks one table after the other. */
size_t hak_huge_count(void);

/* Allocates at least `size` bytes at a multiple of `align`, a power of two; zeroed if `zero`.
 * NULL without memory. */
void *hak_huge_alloc(size_t size, size_t align, bool zero);

/* The same with a note, not zeroed. *dirty: number of bytes at the block's start that may not be zero. */
void *hak_huge_take(size_t size, size_t align, uint64_t note, size_t *dirty);

/* Size of the mapping that starts at `block`, 0 when there is none. */
size_t hak_huge_size(const void *block);

/* The note of the block that starts at `block`; 0 for none. The second function passes the note to `look` under the
 * lock of the block's table, so that no thread swaps it meanwhile. The third swaps the note; if it is not *note any
 * more, the function returns false and stores in *note what it is. Notes belong to the hardened path (hardened/big.h)
 * or to a heap of the program (user_heap_huge.h). A block has its note from the lock section that enters it to the one
 * that takes it out, also across a resize. So the note decides which thread may take the block out, whatever another
 * one does by mistake. */
uint64_t hak_huge_note(const void *block);
void hak_huge_look(const void *block, void (*look)(uint64_t note, void *context), void *context);
bool hak_huge_swap_note(const void *block, uint64_t *note, uint64_t new_note);

/* Calls `visit` for each block, under the lock of its table, until it returns false. The lock is held for
 * a few blocks at a time. */
void hak_huge_each(hak_mapping_visitor_t visit, void *context);

/* Start and size of the mapping around `pointer`; false when there is none. Slow, but no
 * lock is held for more than a part of a table: for diagnosis. */
bool hak_huge_find(const void *pointer, void **start, size_t *size);

/* `pointer` is in no block now. True if a block began there that was freed or has moved away, or that a thread is
 * freeing or moving, as far as this is still known: each table knows the last HAK_FREED_MAX blocks that were taken out
 * of it. Also true if a part keeps the memory there. *size: size of the former block; 0 if only its memory is known. */
bool hak_huge_was_freed(const void *pointer, size_t *size);

/* Frees a block, whatever its note. Returns its bytes; 0 when no huge block begins there. */
size_t hak_huge_free(void *block);

/* The same in two steps, inside the gate. After the first step the block is in no table, and the caller owns it and the
 * record to which *note leads. The first step returns 0 and does nothing if there is no block, or if its note has one
 * of the bits `refused`. */
size_t hak_huge_take_out(const void *block, uint64_t refused, uint64_t *note);
void hak_huge_drop(void *block, size_t size);

/* Unmaps what has been kept for `delay_ms`, as far as the budget allows, and adds the bytes to *bytes. True when all is
 * done; otherwise the next piece continues at *at, which is 0 at first. */
bool hak_huge_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget, size_t *bytes);

/* Calls `visit` for each huge block and each kept mapping, under a lock: it must not allocate. The second does a piece of
 * that; the cursor is all 0 at first. False after the last piece. */
typedef struct {
    unsigned table;
    size_t at;
} hak_huge_cursor_t;
void hak_huge_each_range(hak_range_visitor_t visit, void *context);
bool hak_huge_each_range_piece(hak_huge_cursor_t *cursor, hak_range_visitor_t visit, void *context);

/* Resize by moving pages, never bytes. NULL if the system refuses; then the block is as it was. The first resizes only
 * blocks without a note, the second only blocks with the given note, which they keep. */
void *hak_huge_resize(void *block, size_t size);
void *hak_huge_resize_noted(void *block, size_t size, uint64_t note);
