/* part.c: cuts stretches of grains at the borders of superslabs, and counts what is touched. */
#include "large/part.h"

hak_part_t hak_part_first(const char *start, size_t grains) {
    const unsigned all = hak_superslab_grains();
    const unsigned first = (unsigned)((uintptr_t)start >> HAK_GRAIN_SHIFT) & (all - 1);
    return (hak_part_t){hak_superslab_of(start), first, (unsigned)hak_min(grains, all - first)};
}

bool hak_part_next(char **at, size_t *left, hak_part_t *part) {
    if (*left == 0) return false;
    *part = hak_part_first(*at, *left);
    *at += (size_t)part->count << HAK_GRAIN_SHIFT;
    *left -= part->count;
    return true;
}

unsigned hak_part_count_touched(const hak_part_t *part) {
    unsigned count = 0;
    for (unsigned w = part->first / 64; w <= hak_part_last_word(part); w++)
        count += hak_bit_count(part->super->touched[w] & hak_part_bits(part, w));
    return count;
}
