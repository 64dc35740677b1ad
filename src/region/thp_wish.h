/* thp_wish.h: checks that the program fills its blocks, before huge pages are requested.
 *
 * A program may use one page of each 32 KiB buffer and leave the other pages untouched. In a huge
 * page all of them are resident. So before a dense heap with many blocks above a page gets huge
 * pages, HAKMEM asks the kernel which small pages of the newest slabs are in memory. If more than
 * an eighth of them is absent, the heap grows without huge pages, until a later look finds the
 * slabs filled. If they are present, one zone in several keeps small pages at its beginning (a
 * probe, thp.h) for the next looks. Without many blocks above a page there is no look: smaller
 * blocks leave hardly any page untouched.
 *
 * Rejected: not to count slabs of such classes as dense. Programs that fill their buffers, as most
 * do, would have four times as many faults, and shards would write to one more shared word.
 *
 * Swapped pages, and pages of free blocks that shard/sparse.c purged in a PLAIN or SPARSE zone,
 * count as absent. The next zone may then become SPARSE although the program fills its blocks: more
 * faults, but no more memory. Slabs with purged pages are not skipped: their mark is under the bin
 * lock, and the first take from the slab clears it while most of those pages are still absent.
 *
 * Superslabs of large heaps are passed over. Where they hide all slabs, nothing is known, and the
 * heap grows without huge pages: a program with both kinds of blocks may hardly use its buffers.
 *
 * A look makes at most 4 system calls and examines at most 320 superslabs, nearly all of them by one
 * line. It takes place when the heap grows by a step (next_step in region.c). */
#pragma once

#include "region/superslab.h"
#include "region/thp.h"

/* What a dense heap that grows wants. Superslabs below `carved` were handed out, or are holes.
 * Region lock held. If the kernel does not tell which pages are in memory, huge pages are
 * requested. */
hak_thp_wish_t hak_thp_wish_of(const hak_superslab_t *supers, size_t carved);
