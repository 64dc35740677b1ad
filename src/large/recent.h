/* recent.h: the blocks that a large heap's own CPU freed last. They stay whole, for a request of the same length.
 * Programs that compress or decode request the same few buffers again and again; cutting an extent and merging it each
 * time costs three times as much as everything else in the call. Everything is under the heap's lock.
 *
 * The bounds are low, because best fit cannot use these blocks. With 1 MiB for each heap, programs whose blocks have
 * eight sizes needed up to 10 % more memory; recent blocks of up to 320 KiB cost python3, whose lists grow, 3 %. */
#pragma once

#include "base/base.h"
#include "region/unit.h"

enum {
    HAK_RECENT_MAX = 4,      /* blocks */
    HAK_RECENT_LONGEST = 24, /* grains of one: 96 KiB */
    HAK_RECENT_GRAINS = 80,  /* of all together: 320 KiB */
};

typedef struct {
    unsigned count;
    _Atomic size_t grains;              /* sum of the lengths; to others a hint */
    hak_unit_t *blocks[HAK_RECENT_MAX]; /* newest last */
    uint16_t lengths[HAK_RECENT_MAX];   /* of the same; grains */
} hak_recent_t;

HAK_FAST_PATH hak_unit_t *hak_recent_remove(hak_recent_t *recent, unsigned i) {
    hak_unit_t *unit = recent->blocks[i];
    HAK_ADD_OWNED(&recent->grains, -(size_t)recent->lengths[i]);
    for (recent->count--; i < recent->count; i++) {
        recent->blocks[i] = recent->blocks[i + 1];
        recent->lengths[i] = recent->lengths[i + 1];
    }
    return unit;
}

/* The newest of exactly the length; NULL for none. */
HAK_FAST_PATH hak_unit_t *hak_recent_take(hak_recent_t *recent, size_t grains) {
    for (unsigned i = recent->count; i-- > 0;)
        if (recent->lengths[i] == grains) return hak_recent_remove(recent, i);
    return NULL;
}

HAK_FAST_PATH bool hak_recent_is_beyond(const hak_recent_t *recent, unsigned count, size_t grains) {
    return recent->count > count || hak_load_relaxed(&recent->grains) > grains;
}

/* The oldest, unless at most `count` blocks of `grains` together are left: then NULL. */
HAK_FAST_PATH hak_unit_t *hak_recent_take_beyond(hak_recent_t *recent, unsigned count,
                                                 size_t grains) {
    return hak_recent_is_beyond(recent, count, grains) ? hak_recent_remove(recent, 0) : NULL;
}

/* There must be room. */
HAK_FAST_PATH void hak_recent_put(hak_recent_t *recent, hak_unit_t *unit, size_t grains) {
    recent->blocks[recent->count] = unit;
    recent->lengths[recent->count++] = (uint16_t)grains;
    HAK_ADD_OWNED(&recent->grains, grains);
}
