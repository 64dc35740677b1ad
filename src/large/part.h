/* part.h: the grains of a stretch within one superslab, and which of them are touched; internal to large/.
 *
 * `touched` of a superslab has a bit for each grain, which is set once the grain may have a page. Without clean grains
 * nobody reads it. All under the lock of the superslab's heap. */
#pragma once

#include "base/base.h"
#include "base/bits.h"
#include "region/region.h"

typedef struct {
    hak_superslab_t *super;
    unsigned first, count; /* count > 0 */
} hak_part_t;

/* The first part of a stretch, which may reach into the superslabs behind: a superslab begins at a multiple of its size,
 * and the records of neighbours are neighbours. */
hak_part_t hak_part_first(const char *start, size_t grains);

/* Goes on to the next part. *left: grains from this part on, then from the next one on. False at the end. */
HAK_FAST_PATH bool hak_part_step(hak_part_t *part, size_t *left) {
    *left -= part->count;
    if (!*left) return false;
    part->super++;
    part->first = 0;
    part->count = (unsigned)hak_min(*left, hak_superslab_grains());
    return true;
}

/* The first part of the *left grains at *at; then moves *at behind it. False at the end. */
bool hak_part_next(char **at, size_t *left, hak_part_t *part);

HAK_FAST_PATH char *hak_part_start(const hak_part_t *part) {
    return part->super->units[0].base + ((size_t)part->first << HAK_GRAIN_SHIFT);
}

/* The bits of a part that fall into word `w` of `touched`, and the last word that has some. */
HAK_FAST_PATH uint64_t hak_part_bits(const hak_part_t *part, unsigned w) {
    return hak_bits_within(w, part->first, part->first + part->count);
}
HAK_FAST_PATH unsigned hak_part_last_word(const hak_part_t *part) {
    return (part->first + part->count - 1) / 64;
}

/* How many grains are touched. The first reads their bits in any case. */
unsigned hak_part_count_touched(const hak_part_t *part);
HAK_FAST_PATH unsigned hak_part_touched(const hak_part_t *part) {
    return HAK_LIKELY(part->super->clean_grains == 0) ? part->count : hak_part_count_touched(part);
}
