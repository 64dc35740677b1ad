/* fill.h: the parts of a live page that are not statistics; internal to live/. All are
 * called by one thread at a time. */
#ifndef HAK_LIVE_FILL_H
#define HAK_LIVE_FILL_H

#include "live/page.h"

void hak_live_fill_options(hak_live_page_t *page);
void hak_live_fill_caches(hak_live_page_t *page);

/* Addresses of HAKMEM's memory, and what slow calls were asked for. */
void hak_live_fill_ranges(hak_live_page_t *page);
void hak_live_fill_asked(hak_live_page_t *page);

/* What is in use of each page of the heap. */
void hak_live_fill_superslabs(hak_live_page_t *page);

#endif
