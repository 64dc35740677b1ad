/* mid_figures.h - figures that the options of thread caches and of the mid tier move; each is taken in
 * a process of its own. */
#pragma once

long cached_kib(void);
long ring_depth(void);
long ring_hits(void);
long lifo_hits(void);
long blocks_returned(void);
long blocks_of_first_refill(void);
long refills_of_small_rings(void);
long refills_of_large_rings(void);
long refills_after_remote_frees(void);
long size_of_many(void);
long size_of_one(void);
