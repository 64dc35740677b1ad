/* fill.c: copies options, caches, requests, addresses and slabs into a live page. */
#include "live_stats/fill.h"

#include <string.h>

#include "hardened/guard_sample.h"
#include "large/huge.h"
#include "large/view.h"
#include "live_stats/live.h"
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
        size_t size = hak_min(strlen(text), HAK_LIVE_TEXT - 1);
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

/* ---- Requests ------------------------------------------------------------------------------- */

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

/* ---- Addresses ------------------------------------------------------------------------------ */

static void add_range(void *context, hak_range_kind_t kind, const void *start, size_t size) {
    hak_live_ranges_t *ranges = context;
    ranges->seen++;
    if (ranges->stored == HAK_LIVE_RANGES) return;
    ranges->ranges[ranges->stored++] =
        (hak_live_range_t){.start = (uintptr_t)start, .size = size, .kind = kind};
}

/* One piece of a walk over all ranges; false after the last piece. */
static bool walk_on(hak_live_walk_t *walk) {
    if (!walk->is_past_heap) {
        if (hak_region_each_piece(&walk->heap, add_range, &walk->ranges)) return true;
        walk->is_past_heap = true;
        hak_meta_each_range(add_range, &walk->ranges);
        hak_guard_sample_each_range(add_range, &walk->ranges);
    }
    return hak_huge_each_range_piece(&walk->huge, add_range, &walk->ranges);
}

static void begin_walk(hak_live_walk_t *walk) {
    walk->ranges.stored = walk->ranges.seen = 0;
    walk->heap = (hak_region_cursor_t){0};
    walk->huge = (hak_huge_cursor_t){0};
    walk->is_past_heap = false;
}

/* The page shows the result of the last complete walk. In most processes a walk is a single
 * piece. */
void hak_live_fill_ranges(hak_live_page_t *page, bool whole) {
    hak_live_walk_t *walk = &hak_live_private->walk;
    hak_live_ranges_t *found = &hak_live_private->found;
    if (whole) begin_walk(walk);
    bool more = walk_on(walk);
    while (more && whole) more = walk_on(walk);
    if (!more) {
        memcpy(found->ranges, walk->ranges.ranges, walk->ranges.stored * sizeof *found->ranges);
        found->stored = walk->ranges.stored;
        found->seen = walk->ranges.seen;
        begin_walk(walk);
    }
    memcpy(page->ranges, found->ranges, found->stored * sizeof *found->ranges);
    page->range_count = found->stored;
    page->ranges_total = found->seen;
}

/* ---- Slabs ---------------------------------------------------------------------------------- */

static void fill_unit(const hak_unit_t *unit, hak_live_unit_t *out) {
    unsigned class_index = hak_shard_used_bytes(unit, out->used);
    if (class_index == HAK_CLASS_NONE && hak_large_used_bytes(unit, out->used))
        class_index = HAK_CLASS_LARGE;
    out->class_index = (uint16_t)class_index;
}

/* A superslab that is unmapped meanwhile has no block in use. */
void hak_live_fill_superslabs(hak_live_page_t *page) {
    hak_superslab_t **supers = hak_live_private->supers;
    size_t stride;
    const unsigned count = hak_region_sample(supers, HAK_LIVE_SUPERSLABS, &stride);
    for (unsigned i = 0; i < count; i++) {
        hak_live_superslab_t *out = &page->superslabs[i];
        out->start = (uintptr_t)supers[i]->units[0].base;
        for (unsigned u = 0; u < hak_superslab_units(); u++)
            fill_unit(&supers[i]->units[u], &out->units[u]);
    }
    page->superslab_count = count;
    page->superslab_stride = (uint32_t)stride;
    page->superslab_units = hak_superslab_units();
}
