/* fill.c: copies options, caches, requests, addresses and slabs into a live page. */
#include "live/fill.h"

#include <string.h>

#include "large/huge.h"
#include "large/view.h"
#include "live/live.h"
#include "meta/meta.h"
#include "region/region.h"
#include "shard/stats.h"
#include "stats/report.h"
#include "thread/thread.h"

void hak_live_fill_options(hak_live_page_t *page) {
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_t option = (hak_option_t)i;
        hak_live_option_t *out = &page->options[i];
        out->value = hak_option(option);
        out->source = (uint8_t)hak_option_source(option);
        if (hak_option_row(option).kind != HAK_OPTION_IS_TEXT) continue;
        const char *text = hak_option_text(option);
        size_t size = strnlen(text, HAK_LIVE_TEXT - 1);
        memcpy(out->text, text, size);
        out->text[size] = 0;
    }
}

void hak_live_fill_caches(hak_live_page_t *page) {
    unsigned count = 0;
    for (hak_cache_t *cache = hak_thread_caches(); cache && count < HAK_LIVE_CACHES;
         cache = cache->next)
        hak_stats_read_cache(cache, &page->caches[count++]);
    page->cache_count = count;
}

/* ---- Requests --------------------------------------------------------------------------------- */

void hak_live_note_request(size_t size) {
    if (size > PTRDIFF_MAX) return;
    unsigned class_index = size <= HAK_CLASS_MAX ? hak_class_of(size) : HAK_CLASS_LARGE;
    size_t served = class_index == HAK_CLASS_LARGE ? hak_align_up(size, HAK_GRAIN_SIZE)
                                                   : hak_classes[class_index].size;
    hak_add_relaxed(&hak_live_private->asked[class_index].asked_bytes, size);
    hak_add_relaxed(&hak_live_private->asked[class_index].served_bytes, served);
}

void hak_live_fill_asked(hak_live_page_t *page) {
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) {
        page->asked[i].asked_bytes = hak_load_relaxed(&hak_live_private->asked[i].asked_bytes);
        page->asked[i].served_bytes = hak_load_relaxed(&hak_live_private->asked[i].served_bytes);
    }
}

/* ---- Addresses -------------------------------------------------------------------------------- */

typedef struct {
    hak_live_page_t *page;
    unsigned seen, stored, stride;
} filling_t;

static void add_range(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    filling_t *filling = context;
    filling->seen++;
    if (filling->stored == HAK_LIVE_RANGES) return;
    filling->page->ranges[filling->stored++] =
        (hak_live_range_t){.start = (uintptr_t)start, .size = size, .kind = kind};
}

void hak_live_fill_ranges(hak_live_page_t *page) {
    filling_t filling = {.page = page};
    hak_region_each_range(add_range, &filling);
    hak_meta_each_range(add_range, &filling);
    hak_huge_each_range(add_range, &filling);
    page->range_count = filling.stored;
    page->ranges_total = filling.seen;
}

/* ---- Slabs ------------------------------------------------------------------------------------ */

static void fill_unit(const hak_unit_t *unit, hak_live_unit_t *out) {
    unsigned class_index = hak_shard_used_bytes(unit, out->used);
    if (class_index == HAK_CLASS_NONE && hak_large_used_bytes(unit, out->used))
        class_index = HAK_CLASS_LARGE;
    out->class_index = (uint16_t)class_index;
}

static void count_superslab(hak_superslab_t *super, void *context) {
    (void)super;
    ((filling_t *)context)->seen++;
}

static void fill_superslab(hak_superslab_t *super, void *context) {
    filling_t *filling = context;
    if (filling->seen++ % filling->stride != 0 || filling->stored == HAK_LIVE_SUPERSLABS) return;
    hak_live_superslab_t *out = &filling->page->superslabs[filling->stored++];
    out->start = (uintptr_t)super->units[0].base;
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        fill_unit(&super->units[i], &out->units[i]);
}

void hak_live_fill_superslabs(hak_live_page_t *page) {
    filling_t filling = {.page = page};
    hak_region_each_superslab(count_superslab, &filling);
    filling.stride = filling.seen / HAK_LIVE_SUPERSLABS + 1;
    filling.seen = 0;
    hak_region_each_superslab(fill_superslab, &filling);
    page->superslab_count = filling.stored;
    page->superslab_stride = filling.stride;
    page->superslab_units = hak_superslab_units();
}
