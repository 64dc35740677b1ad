/* fill.h: fills the parts of a live page that are not statistics; internal to live_stats/. Except for
 * hak_live_note_request, one thread at a time calls these functions. */
#pragma once

#include "large/huge.h"
#include "live_stats/live_page.h"
#include "region/region.h"

/* Ranges of addresses, as many as the page has room for. */
typedef struct {
    hak_live_range_t ranges[HAK_LIVE_RANGES];
    unsigned stored, seen;
} hak_live_ranges_t;

/* A walk over all ranges. A refresh does one piece of it, since a heap may have millions of
 * superslabs and huge blocks. */
typedef struct {
    hak_live_ranges_t ranges; /* so far */
    hak_region_cursor_t heap;
    hak_huge_cursor_t huge;
    bool is_past_heap;
} hak_live_walk_t;

/* Counters and walks for the page. They are not on the page itself, since other processes may write
 * to it, and not static, since most processes have no page. */
typedef struct {
    struct {
        _Atomic uint64_t asked_bytes, served_bytes; /* atomic addition, by anyone */
    } asked[HAK_CLASS_LIMIT];
    hak_live_walk_t walk;    /* refresh lock */
    hak_live_ranges_t found; /* refresh lock; by the last walk that came to its end */
    hak_superslab_t
        *supers[HAK_LIVE_SUPERSLABS]; /* refresh lock; too long for the stack of a malloc */
} hak_live_private_t;

extern hak_live_private_t *hak_live_private; /* constant after start */

void hak_live_fill_options(hak_live_page_t *page);
void hak_live_fill_caches(hak_live_page_t *page);

/* The first fills in the address ranges of HAKMEM's memory, as of the last complete walk over them.
 * A call does one piece of the next walk, or with `whole` all of it. The second fills in the sizes
 * that slow calls requested. */
void hak_live_fill_ranges(hak_live_page_t *page, bool whole);
void hak_live_fill_asked(hak_live_page_t *page);

/* Bytes in use in each page of some superslabs. */
void hak_live_fill_superslabs(hak_live_page_t *page);
