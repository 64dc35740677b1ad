/* bitmaps.c: a few free bitmaps for each shard. */
#include "shard/bitmaps.h"

#include <string.h>

#include "meta/meta.h"
#include "shard/table.h"

_Static_assert(HAK_BITMAP_LEAST << (HAK_BITMAP_SIZES - 1) == sizeof(uint64_t) * 2 * HAK_WORDS_MAX,
               "each size of a bitmap has places");

/* The first of HAK_BITMAPS_KEPT. */
static hak_bitmap_place_t *first_of(hak_bitmap_place_t *places, size_t size) {
    return places + (size_t)HAK_BITMAPS_KEPT * hak_lowest_bit(size / HAK_BITMAP_LEAST);
}

static void *take_kept(hak_bitmap_place_t *places) {
    for (unsigned i = 0; i < HAK_BITMAPS_KEPT; i++) {
        if (!hak_load_relaxed(&places[i])) continue;
        void *bitmap = hak_exchange_acq_rel(&places[i], NULL); /* B2 */
        if (bitmap) return bitmap;
    }
    return NULL;
}

static HAK_BEHIND void *bitmap_of_shard(hak_bitmap_place_t *places, unsigned shard, size_t size) {
    void *bitmap = take_kept(first_of(places, size));
    if (!bitmap) bitmap = hak_meta_reuse_bitmap(size);
    if (bitmap) return bitmap;
    bitmap = hak_shard_cut(shard, size); /* new: undefined contents */
    return bitmap ? memset(bitmap, 0, size) : NULL;
}

/* Replaces a bitmap in which a second free has set a remote word; that bitmap serves later. */
static HAK_BEHIND void *another(void *bitmap, size_t size) {
    void *clean = hak_meta_alloc_zeroed(size);
    hak_meta_free_bitmap(bitmap, size);
    return clean;
}

bool hak_shard_bitmap_is_clean(const void *bitmap, size_t size) {
    const _Atomic uint64_t *remote = (const void *)((const char *)bitmap + size / 2);
    const _Atomic uint64_t *const end = remote + size / 2 / sizeof *remote;
    while (remote != end)
        if (HAK_UNLIKELY(atomic_load_explicit(remote++, memory_order_seq_cst) != 0)) return false;
    return true;
}

static HAK_BEHIND bool keep(hak_bitmap_place_t *places, void *bitmap, size_t size) {
    places = first_of(places, size);
    for (unsigned i = 0; i < HAK_BITMAPS_KEPT; i++) {
        void *none = NULL;
        if (hak_load_relaxed(&places[i])) continue;
        if (hak_cas_release(&places[i], &none, bitmap)) return true; /* B1 */
    }
    return false;
}

HAK_OUT_OF_LINE void *hak_shard_bitmap(unsigned shard, size_t size) {
    hak_bitmap_place_t *places = hak_shard_bitmap_places(shard);
    void *bitmap = places ? bitmap_of_shard(places, shard, size) : NULL;
    if (!bitmap) bitmap = hak_meta_alloc_bitmap(size);
    if (!bitmap) return NULL;
    /* If a new page is read first, its first write costs a second fault. */
    *(uint64_t *)bitmap = 0;
    if (HAK_UNLIKELY(!hak_shard_bitmap_is_clean(bitmap, size))) return another(bitmap, size);
    return bitmap;
}

HAK_OUT_OF_LINE void hak_shard_free_bitmap(unsigned shard, void *bitmap, size_t size) {
    hak_bitmap_place_t *places = hak_shard_bitmap_places(shard);
    if (!places || !keep(places, bitmap, size)) hak_meta_free_bitmap(bitmap, size);
}
