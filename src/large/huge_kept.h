/* huge_kept.h: the mappings of freed huge blocks that are kept for reuse, with their pages: which part of them a thread
 * uses, how much may be kept, and how they go back to the system. huge.h has the protocol.
 *
 * There is a part for each home shard of threads; with more than HAK_KEPT_PARTS shards, several shards share one. A
 * freed stretch goes into the part of the thread that freed it. A thread whose own part has none that fits searches the
 * others. Every call is made inside the gate (os/gate.h), and holds one lock at a time: that of a part.
 *
 * All parts together may keep HUGE_CACHE bytes, if that option is set. Otherwise, blocks in use and kept ones together
 * may have one and a half times the recent peak of bytes in use (hak_huge_stats), and 32 MiB may be kept in any case.
 * The sums cover the process, and every change of a part adds to them before its lock is released. So two threads that
 * keep stretches at the same time see each other's bytes: each gives back no more than it keeps, and no excess
 * stays. */
#pragma once

#include "large/huge_stretches.h"
#include "os/range.h"
#include "pool/purge_budget.h"

enum { HAK_KEPT_PARTS = 64 };

extern hak_stretches_t hak_kept_parts[HAK_KEPT_PARTS];

/* The first counts bytes that the system gave, for a block; the second, that addresses in the caller's hands are no
 * longer mapped, and releases their charge. */
void hak_kept_hold(size_t bytes);
void hak_kept_leave(size_t bytes);

/* Called after a block was taken or has changed its size: raises the recent peak, and notes the time. */
void hak_kept_note_use(void);

/* Takes a stretch of `size` bytes at a multiple of `align`, which is then in the caller's hands; NULL if there is
 * none. */
char *hak_kept_take(size_t size, size_t align);

/* Looks again into the caller's part: since the first look another thread may have kept a stretch there that is large
 * enough. If there is still none, *shorter becomes a stretch that is too short, for the caller to lengthen; its size is
 * 0 if there is none. Both happen in one lock section: if a longer stretch came in between, mremap would cut off its
 * end. */
char *hak_kept_take_or_shorter(size_t size, size_t align, hak_stretch_t *shorter);

/* Takes a piece of the caller's part for the end of a longer block: `size` bytes of the best fit, or else a whole
 * stretch that is shorter, of at least `least` bytes. False if there is none. */
bool hak_kept_take_piece(hak_stretch_t *piece, size_t size, size_t least);

/* Takes exactly these bytes; false when they are not kept. */
bool hak_kept_take_at(char *start, size_t size);

/* Keeps a stretch again, with its former age; unmaps it if there is no place left. */
void hak_kept_put_back(const hak_stretch_t *stretch);

/* Keeps memory that is in the caller's hands, and unmaps what exceeds the bound, the oldest first. */
void hak_kept_keep(char *start, size_t size);

/* Unmaps memory that is in the caller's hands and counted as held. */
void hak_kept_unmap(char *start, size_t size);

/* True when more is kept than may be. */
bool hak_kept_is_too_much(void);

/* As hak_huge_purge_piece; *at counts the parts in which nothing is left to do. */
bool hak_kept_purge(unsigned *at, uint32_t delay_ms, hak_budget_t *budget, size_t *bytes);

/* Blocks that were served from what is kept, since the process began. */
uint64_t hak_kept_reused(void);

/* True for a pointer to memory that is kept. */
bool hak_kept_has(const void *pointer);

/* Calls `visit` for every stretch, under the lock of its part. */
void hak_kept_each_range(hak_range_visitor_t visit, void *context);
