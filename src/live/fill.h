/* fill.h: the parts of a live page that are not statistics; internal to live/. All are
 * called by one thread at a time. */
#ifndef HAK_LIVE_FILL_H
#define HAK_LIVE_FILL_H

#include "live/page.h"

/* What is not to be on the page, which others may have written to, nor in the data of a process
 * that has no page. */
typedef struct {
    struct {
        _Atomic uint64_t asked_bytes, served_bytes; /* atomic addition, by anyone */
    } asked[HAK_CLASS_LIMIT];
} hak_live_private_t;

extern hak_live_private_t *hak_live_private; /* constant after start */

void hak_live_fill_options(hak_live_page_t *page);
void hak_live_fill_caches(hak_live_page_t *page);

/* Addresses of HAKMEM's memory, and what slow calls were asked for. */
void hak_live_fill_ranges(hak_live_page_t *page);
void hak_live_fill_asked(hak_live_page_t *page);

/* What is in use of each page of the heap. */
void hak_live_fill_superslabs(hak_live_page_t *page);

#endif
