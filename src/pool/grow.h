/* grow.h: the pool grows; internal to pool/, all under the pool's lock. */
#pragma once

#include "region/superslab.h"

/* Adds a superslab from the region to the free ones. Under SS_PREFAULT=2 all its pages are made
 * first; then all of it is charged, and dirty. */
void hak_pool_enter(hak_superslab_t *super);

/* True when large heaps have more than an eighth of all units. */
bool hak_pool_is_mixed(void);

/* True, in a mixed heap, for memory without pages that may get huge pages: it is reserved for slabs. */
bool hak_pool_is_for_slabs(const hak_superslab_t *super);

/* Takes a superslab at the end of the region for a large heap; NULL when there is no memory. The first superslab of a
 * row does not lie in a huge page in which slabs have begun: the rest of that page is left to slabs. */
hak_superslab_t *hak_pool_last_for_large(bool is_first);

/* Takes a superslab that was unmapped before, else one at the end of the region. */
hak_superslab_t *hak_pool_fresh_superslab(void);

/* Adds the superslabs that share a line of the map with a fresh one, as far as the region has them: its next one, and
 * those that were unmapped. */
void hak_pool_complete_line(hak_superslab_t *super);

/* True when a superslab is wholly free; an unmapped one is mapped again first. */
bool hak_pool_joins_row(hak_superslab_t *super);
