/* fill.h: fills the parts of a live page that are not statistics; internal to live/. Except for
 * hak_live_note_request, one thread at a time calls these functions. */
#pragma once

#include "live/page.h"

/* Counters for the page. They are not on the page itself, since other processes may write to it,
 * and not among the variables, since most processes have no page. */
typedef struct {
    struct {
        _Atomic uint64_t asked_bytes, served_bytes; /* atomic addition, by anyone */
    } asked[HAK_CLASS_LIMIT];
} hak_live_private_t;

extern hak_live_private_t *hak_live_private; /* constant after start */

void hak_live_fill_options(hak_live_page_t *page);
void hak_live_fill_caches(hak_live_page_t *page);

/* Address ranges of HAKMEM's memory; sizes that slow calls requested. */
void hak_live_fill_ranges(hak_live_page_t *page);
void hak_live_fill_asked(hak_live_page_t *page);

/* Bytes in use in each page of the heap. */
void hak_live_fill_superslabs(hak_live_page_t *page);
