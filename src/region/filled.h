/* filled.h: does the program fill its blocks? A look at pages before huge ones are requested.
 *
 * A program may use a page of each 32 KiB buffer and leave the others untouched. In huge pages all are
 * resident. So before a dense heap that has many blocks of more than a page gets huge pages, the kernel is
 * asked which small pages of the newest slabs are in memory. Where an eighth of them is not, the heap
 * grows without huge pages, until a later look finds the slabs filled. Where they are, a probe now and then
 * keeps its small pages (thp.h), for the next looks. Blocks of a page and little more leave hardly any untouched,
 * and nobody asks.
 *
 * Rejected: to count slabs of such classes out of the dense ones. Programs that fill their buffers, as
 * most do, would have four times as many faults, and shards would write to one more word of the process.
 *
 * Pages that are in swap, and those of free blocks that shard/sparse.c purged in a PLAIN or SPARSE zone, count
 * as absent: the next zone may then be SPARSE, with more faults and no more memory, although the program
 * fills its blocks. Slabs with purged pages are not skipped: their mark is the bin lock's, and the first take
 * from the slab clears it while most of those pages are still absent.
 *
 * A look costs at most 4 calls of the kernel and 20 superslabs, and takes place when the heap grows: in
 * steps of a quarter, of 64 MiB, or of a 64th of the heap, whichever fits. */
#pragma once

#include "region/superslab.h"
#include "region/thp.h"

/* What a heap that grows and is dense wants. Superslabs below `carved` were handed out, or are holes.
 * Region lock held; where the kernel does not tell, huge pages are requested. */
hak_thp_wish_t hak_filled_wish(const hak_superslab_t *supers, size_t carved);
