/* live_page.c: the hash of the tables that determine the layout of a live page. */
#include "live_stats/live_page.h"

#include <string.h>

#include "hakmem.h"

/* FNV-1a. */
static uint64_t add(uint64_t hash, const void *bytes, size_t size) {
    for (const unsigned char *at = bytes; size; at++, size--) hash = (hash ^ *at) * 0x100000001b3u;
    return hash;
}

static uint64_t add_text(uint64_t hash, const char *text) {
    return add(hash, text, strlen(text) + 1);
}

static uint64_t add_number(uint64_t hash, uint64_t number) {
    return add(hash, &number, sizeof number);
}

static uint64_t add_rows(uint64_t hash, const hak_stat_row_t *rows, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        hash = add_text(hash, rows[i].group);
        hash = add_text(hash, rows[i].name);
        hash = add_text(hash, rows[i].unit);
    }
    return hash;
}

uint64_t hak_live_layout(void) {
    uint64_t hash = add_number(0xcbf29ce484222325u, HAKMEM_VERSION);
    hash = add_number(hash, sizeof(hak_live_page_t));
    hash = add_rows(hash, hak_class_stat_rows, HAK_CLASS_STATS);
    hash = add_rows(hash, hak_tier_stat_rows, HAK_TIER_STATS);
    hash = add_rows(hash, hak_value_stat_rows, HAK_VALUE_STATS);
    for (int i = 0; i < HAK_OPTION_COUNT; i++)
        hash = add_text(hash, hak_option_row((hak_option_t)i).name);
    for (unsigned i = 0; i < HAK_CLASS_DYN; i++) hash = add_number(hash, hak_classes[i].size);
    return hash;
}
