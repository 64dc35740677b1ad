/* bin.c: one shard bin: its slabs and their bitmaps. */
#include "shard/bin.h"

#include <string.h>

#include "debug/timing.h"
#include "error/error.h"
#include "error/log.h"
#include "options/options.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bitmaps.h"
#include "shard/flush.h"
#include "shard/remote.h"
#include "shard/stock.h"
#include "shard/verify.h"
#include "shard/table.h"
#include "shard/warm_slab.h"

enum {
    LIKE_LARGE = 17 << 5, /* the word of the shortest large block */
    PASS_OVER_MAX = 2,    /* slabs without used blocks that one take skips */
    ROW_LEAST = 0x1f,     /* bits of the shortest row that is worth the look */
    DENSE_LEAST = 32,     /* if a word had more blocks, zeros of the next are written, too */
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "free_count is the low half of `large`");

_Atomic uint32_t hak_bin_carries[HAK_CLASS_COUNT + 1][HAK_SHARD_COUNTERS] HAK_APART;

HAK_SLOW_PATH void hak_bin_carry(unsigned class_index, unsigned counter) {
    hak_add_release(&hak_bin_carries[class_index][counter], 1); /* partner: hak_bin_carried */
}

void hak_bin_list_last(hak_bin_t *bin, hak_unit_t *slab) {
    slab->next = NULL;
    slab->prev = bin->tail;
    *(bin->tail ? &bin->tail->next : &bin->head) = slab;
    bin->tail = slab;
    slab->listed = true;
    HAK_ADD_OWNED(&bin->listed_count, 1);
}

void hak_bin_list_first(hak_bin_t *bin, hak_unit_t *slab) {
    slab->prev = NULL;
    slab->next = bin->head;
    *(bin->head ? &bin->head->prev : &bin->tail) = slab;
    bin->head = slab;
    slab->listed = true;
    HAK_ADD_OWNED(&bin->listed_count, 1);
}

static void list_remove(hak_bin_t *bin, hak_unit_t *slab) {
    *(slab->prev ? &slab->prev->next : &bin->head) = slab->next;
    *(slab->next ? &slab->next->prev : &bin->tail) = slab->prev;
    slab->listed = false;
    HAK_ADD_OWNED(&bin->listed_count, -1u);
}

void hak_bin_pass_over(hak_bin_t *bin, hak_unit_t *slab) {
    if (slab == bin->tail) return;
    bin->tail->next = bin->head;
    bin->head->prev = bin->tail;
    bin->tail = slab;
    bin->head = slab->next;
    bin->head->prev = slab->next = NULL;
}

/* Counts purged pages as touched, because the next take touches them. Bin lock held. */
static void count_as_touched(hak_bin_t *bin, hak_unit_t *slab, const hak_class_t *info) {
    uint32_t blocks = hak_bin_purged_blocks(slab, info);
    HAK_ADD_OWNED(&bin->touched, blocks);
    HAK_ADD_OWNED(&bin->spare, blocks);
    slab->purged = 0;
}

/* A slab's share of touched and spare, added or, with a sign of -1, subtracted. */
static void account(hak_bin_t *bin, const hak_unit_t *slab, size_t sign) {
    const hak_class_t *info = &hak_classes[hak_owner_class(hak_load_relaxed(&slab->owner))];
    HAK_ADD_OWNED(&bin->touched, sign * slab->fresh);
    HAK_ADD_OWNED(&bin->spare, sign * hak_bin_ready(slab, info));
}

void hak_bin_leave(hak_bin_t *bin, hak_unit_t *slab) {
    if (slab->purged)
        count_as_touched(bin, slab, &hak_classes[hak_owner_class(hak_load_relaxed(&slab->owner))]);
    slab->looked = 0;
    list_remove(bin, slab);
    account(bin, slab, (size_t)-1);
}

void hak_bin_return(hak_bin_t *bin, hak_unit_t *slab) { account(bin, slab, 1); }

/* Bytes of a class's bitmap with its remote words. */
static size_t bitmap_size(const hak_class_t *info) {
    return sizeof(uint64_t) * 2 * hak_ceil_pow2(info->words);
}

HAK_BEHIND bool hak_slab_moves(hak_unit_t *slab, unsigned class_index) {
    uint64_t *bits = hak_slab_unmarked(hak_slab_bits(slab));
    if (!hak_shard_bitmap_is_clean(bits, bitmap_size(&hak_classes[class_index]))) return false;
    hak_store_release(&slab->bits, bits); /* partner: F0 */
    return true;
}

static _Atomic(hak_slab_watcher_t) slab_watcher HAK_READ_OFTEN;

HAK_OPTIONAL void hak_slab_set_watcher(hak_slab_watcher_t watcher) {
    hak_store_release(&slab_watcher, watcher); /* partner: hak_slab_make */
}

bool hak_slab_make(hak_unit_t *slab, unsigned shard, unsigned class_index, bool zeroed) {
    const hak_class_t *info = &hak_classes[class_index];
    uint64_t *bits = hak_shard_bitmap(shard, bitmap_size(info));
    if (!bits) return false;
    for (unsigned w = 0; w < info->words; w++) bits[w] = ~(uint64_t)0;
    unsigned rest = info->count % 64u;
    if (rest) bits[info->words - 1] = ((uint64_t)1 << rest) - 1;
    hak_store_release(&slab->bits, bits); /* partner: hak_remote_free */
    slab->words_free = info->words == 64 ? ~(uint64_t)0 : ((uint64_t)1 << info->words) - 1;
    /* One store, in which `fresh` is not 0 if the count alone would read as the word of a large block: a late second
     * free of a large block finds none here (large/heap.h). */
    const uint32_t fresh = zeroed ? info->count >= LIKE_LARGE : info->count;
    hak_store_relaxed(&slab->large, fresh << 16 | info->count);
    slab->zeroed = zeroed;
    slab->listed = slab->lifted = false;
    slab->purged = slab->looked = 0;
    if (HAK_UNLIKELY(hak_class_is_ragged(class_index)))
        hak_add_relaxed(&hak_pool_stats.ragged_units, 1);
    /* Partner: hak_slab_set_watcher. A thread may be here when the hardened path is switched on. */
    const hak_slab_watcher_t watcher = hak_load_acquire(&slab_watcher);
    if (HAK_UNLIKELY(watcher != NULL)) watcher(slab, class_index);
    return true;
}

void hak_bin_adopt(hak_bin_t *bin, unsigned shard, unsigned class_index, hak_unit_t *slab) {
    hak_store_release(&slab->owner, hak_owner(shard, class_index)); /* partner: any look at it */
    hak_region_set_class(slab, 1, class_index);
    hak_bin_add_slabs(shard, 1);
    uint32_t blocks = slab->fresh - hak_bin_purged_blocks(slab, &hak_classes[class_index]);
    if (hak_load_relaxed(&bin->adopted) == 0) hak_bin_add_class(shard, class_index);
    HAK_ADD_OWNED(&bin->adopted, 1);
    HAK_ADD_OWNED(&bin->touched, blocks);
    HAK_ADD_OWNED(&bin->spare, blocks);
    hak_bin_list_last(bin, slab);
}

/* L1 to L3 of shard.h; true when the slab has left. Bin lock held. */
static bool lets_go(hak_unit_t *slab, const hak_class_t *info) {
    uint64_t *const bits = hak_slab_bits(slab);
    uint64_t *leaves = hak_slab_marked(bits, HAK_SLAB_LEAVES);
    atomic_exchange_explicit(&slab->bits, leaves, memory_order_seq_cst); /* L1 */
    if (HAK_UNLIKELY(!hak_shard_bitmap_is_clean(bits, bitmap_size(info)))) {
        hak_store_release(&slab->bits, bits); /* L2; partner: F0 */
        return false;
    }
    if (HAK_UNLIKELY(!hak_cas_acq_rel(&slab->bits, &leaves, hak_slab_marked(bits, HAK_SLAB_GONE))))
        return false; /* L3; F was faster */
    hak_store_release(&slab->owner, 0);
    return true;
}

/* Takes a wholly free slab out of its bin; it then belongs to nobody. False when a second free of one of its blocks is
 * under way; the slab then stays until a drain finds that. Bin lock held. */
static HAK_NEXT bool disown(hak_bin_t *bin, hak_unit_t *slab) {
    const uint16_t owner = hak_load_relaxed(&slab->owner);
    const hak_class_t *info = &hak_classes[hak_owner_class(owner)];
    if (HAK_UNLIKELY(!lets_go(slab, info))) return false;
    size_t blocks = slab->fresh - hak_bin_purged_blocks(slab, info);
    hak_bin_add_slabs(hak_owner_shard(owner), -1u);
    /* In one step although the lock is held: a new page is not read first, see hak_shard_touch. */
    hak_add_relaxed(&hak_owner_rare(owner)->left, 1);
    HAK_ADD_OWNED(&bin->touched, -blocks);
    HAK_ADD_OWNED(&bin->spare, -blocks);
    hak_region_set_class(slab, 1, HAK_CLASS_NONE);
    return true;
}

void hak_bin_log_hand_over(const char *event, const hak_unit_t *slab, unsigned class_index) {
    hak_log("pagebox: %s slab %p of %u-byte blocks", event, (void *)slab->base,
            hak_classes[class_index].size);
}

uint32_t hak_slab_release_list(hak_unit_t *list, unsigned shard, unsigned class_index, bool keeps) {
    if (!list) return 0;
    uint32_t count = 0;
    bool logs = hak_option(HAK_OPTION_TINY_PAGEBOX_LOG) != 0;
    for (hak_unit_t *slab = list; slab; slab = slab->next, count++) {
        if (HAK_UNLIKELY(logs)) hak_bin_log_hand_over("release", slab, class_index);
        hak_shard_free_bitmap(shard, hak_slab_unmarked(hak_slab_bits(slab)),
                              bitmap_size(&hak_classes[class_index]));
    }
    if (HAK_UNLIKELY(hak_class_is_ragged(class_index)))
        hak_add_relaxed(&hak_pool_stats.ragged_units, -(size_t)count);
    if (keeps)
        hak_stock_keep(shard, list);
    else
        hak_pool_give_list(list);
    return count;
}

/* Returns the kept empty slab, which is then no longer kept; NULL when there is none. Bin lock held. */
static hak_unit_t *unkeep(hak_bin_t *bin) {
    hak_unit_t *slab = hak_load_relaxed(&bin->empty);
    if (!slab) return NULL;
    hak_store_relaxed(&bin->empty, NULL);
    HAK_ADD_OWNED(&bin->listed_count, -1u);
    return slab;
}

hak_unit_t *hak_bin_release_empty(hak_bin_t *bin) {
    hak_unit_t *kept = hak_load_relaxed(&bin->empty);
    return kept && disown(bin, kept) ? unkeep(bin) : NULL;
}

/* 64 addresses, `size` apart: the lowest to *end, the next to end[-1]. */
static HAK_NEXT void write_whole_word(void **end, char *lowest, size_t size) {
    uintptr_t first = (uintptr_t)lowest;
    const hak_pair_t two = {2 * size, 2 * size}, eight = 4 * two;
    hak_pair_t a = {first + size, first}, b = a + two, c = b + two, d = c + two;
    for (void **const stop = end - 64; end != stop;
         end -= 8, a += eight, b += eight, c += eight, d += eight) {
        memcpy(end - 1, &a, sizeof a);
        memcpy(end - 3, &b, sizeof b);
        memcpy(end - 5, &c, sizeof c);
        memcpy(end - 7, &d, sizeof d);
    }
}

/* `count` addresses, likewise. */
HAK_FAST_PATH void write_row(void **end, char *lowest, size_t size, size_t count) {
    uintptr_t first = (uintptr_t)lowest;
    hak_pair_t next = {first + size, first};
    const hak_pair_t two = {2 * size, 2 * size};
    void **const last = end - (count & ~(size_t)1);
    for (; end != last; end -= 2, next += two) memcpy(end - 1, &next, sizeof next);
    if (count & 1) *end = (void *)next[1];
}

/* Writes the blocks of the bits of a word, as above; `lowest` is the block of its lowest bit. Each bit costs the same:
 * a bit that is 0 leaves an address that the next block overwrites. There must be room for 64. Returns the new end. */
static HAK_NEXT void **write_dense(void **end, uint64_t x, char *lowest, size_t size) {
    intptr_t at = 0;
    for (; x; lowest += 4 * size) {
        end[at] = lowest;
        hak_subtract_bit(&x, &at);
        end[at] = lowest + size;
        hak_subtract_bit(&x, &at);
        end[at] = lowest + 2 * size;
        hak_subtract_bit(&x, &at);
        end[at] = lowest + 3 * size;
        hak_subtract_bit(&x, &at);
    }
    return end + at;
}

/* Writes the blocks of the bits of a word, the lowest to *end, the next to end[-1], and so on down to *stop if there
 * are enough. Removes their bits from the word; returns the new end. `is_dense`: probably most bits are set. */
HAK_FAST_PATH void **write_bits(void **end, void **stop, uint64_t *word, char *base, uint32_t size,
                                bool is_dense) {
    uint64_t x = *word;
    const unsigned low = hak_lowest_bit(x);
    const uint64_t row = x >> low;
    if (row >= ROW_LEAST && (row & (row + 1)) == 0) { /* adjacent blocks, as most fresh ones are */
        const size_t length = hak_highest_bit(row) + 1u;
        const size_t count = hak_min(length, (size_t)(end - stop));
        write_row(end, base + (size_t)low * size, size, count);
        *word = count < length ? x & ~(uint64_t)0 << (low + count) : 0;
        return end - count;
    }
    if (HAK_UNLIKELY(end - stop < 64)) {
        for (; x && end != stop; x &= x - 1) *end-- = base + (size_t)(hak_lowest_bit(x) * size);
    } else if (is_dense) {
        end = write_dense(end, row, base + (size_t)low * size, size);
        x = 0;
    } else {
        for (; x; x &= x - 1) *end-- = base + (size_t)(hak_lowest_bit(x) * size);
    }
    *word = x;
    return end;
}

/* Writes up to `want` of a slab's free blocks below index `limit` to *end, end[-1],
 * ..., lowest address first; whole words go out as 64 addresses in a row. Returns
 * how many. */
HAK_FAST_PATH unsigned take_blocks(hak_unit_t *slab, const hak_class_t *info, unsigned want,
                                   unsigned limit, void **end) {
    uint64_t words_free = slab->words_free, *const bits = hak_slab_bits(slab);
    char *first = hak_slab_first(slab, info);
    const uint32_t size = info->size;
    void **out = end, **const stop = end - want;
    uint64_t last = 0; /* bits of the last word that was taken from, as they were */
    unsigned last_word = 0;
    bool is_dense = true;
    while (out != stop && words_free) {
        unsigned w = hak_lowest_bit(words_free);
        uint64_t x = bits[w], beyond = 0;
        if (limit < w * 64 + 64) {
            if (limit <= w * 64) break;
            beyond = x & ~(uint64_t)0 << (limit & 63);
            x ^= beyond;
            if (!x) break;
        }
        char *base = first + (size_t)w * 64 * size;
        last = x;
        last_word = w;
        if (x == ~(uint64_t)0 && out - stop >= 64) {
            write_whole_word(out, base, size);
            out -= 64;
            x = 0;
        } else {
            void **const from = out;
            out = write_bits(out, stop, &x, base, size, is_dense);
            is_dense = from - out > DENSE_LEAST;
        }
        last ^= x;
        bits[w] = x | beyond;
        if (beyond) break;
        if (!x) words_free &= words_free - 1;
    }
    const unsigned taken = (unsigned)(end - out);
    slab->words_free = words_free;
    slab->free_count = (uint16_t)(slab->free_count - taken);
    const unsigned behind = last ? last_word * 64 + hak_highest_bit(last) + 1 : 0;
    if (behind > slab->fresh) slab->fresh = (uint16_t)behind;
    return taken;
}

/* After `count` blocks were taken from a slab of which `used` had been handed out before. */
HAK_FAST_PATH void count_taken(hak_bin_t *bin, hak_unit_t *slab, unsigned used, unsigned count) {
    HAK_ADD_OWNED(&bin->touched, slab->fresh - used);
    HAK_ADD_OWNED(&bin->spare, (size_t)slab->fresh - used - count);
    if (slab->free_count == 0) list_remove(bin, slab);
}

/* Free blocks of the slab were freed again: takes them out. False when others must be reported first. */
static HAK_BEHIND bool take_out_twice(hak_bin_t *bin, hak_unit_t *slab, const hak_class_t *info,
                                      unsigned want, hak_twice_t *twice) {
    const unsigned used = slab->fresh, lost = hak_remote_take_out(slab, info, want, twice);
    count_taken(bin, slab, used, lost);
    return lost != 0;
}

/* Takes one block to *to: the lowest of the first slab. False, and nothing is done, where hak_bin_take has more to do
 * than that. */
HAK_FAST_PATH bool take_one(hak_bin_t *bin, const hak_class_t *info, void **to, bool fresh,
                            const hak_told_t *told) {
    hak_unit_t *slab = bin->head;
    if (!slab || slab->purged || (hak_load_relaxed(&slab->remote_words) & slab->words_free))
        return false;
    const unsigned w = hak_lowest_bit(slab->words_free), used = slab->fresh;
    uint64_t *const word = &hak_slab_bits(slab)[w], rest = *word & (*word - 1);
    const unsigned index = w * 64 + hak_lowest_bit(*word);
    if (index >= used) {
        if (!fresh) return false;
        slab->fresh = (uint16_t)(index + 1);
        HAK_ADD_OWNED(&bin->touched, index + 1 - used);
        HAK_ADD_OWNED(&bin->spare, index - used);
    } else {
        HAK_ADD_OWNED(&bin->spare, (size_t)-1);
    }
    *word = rest;
    if (!rest) slab->words_free &= slab->words_free - 1;
    slab->looked = 0;
    *to = hak_slab_first(slab, info) + (size_t)index * info->size;
    if (told->zeroed) *told->zeroed = slab->zeroed && index >= used;
    if (--slab->free_count == 0) list_remove(bin, slab);
    return true;
}

unsigned hak_bin_take(hak_bin_t *bin, unsigned class_index, unsigned want, void **top, bool fresh,
                      hak_told_t *told) {
    const hak_class_t *info = &hak_classes[class_index];
    void **end = top + want;
    /* One by one: as many as most refills of classes above 4 KiB want, or as slabs of few blocks have. */
    if (want == 1 || info->count <= HAK_FEW_BLOCKS) {
        while (take_one(bin, info, end, fresh, told))
            if (--end == top) return want;
    }
    unsigned passed_over = 0;
    while (end > top) {
        hak_unit_t *slab = bin->head;
        if (!slab) {
            slab = unkeep(bin);
            if (!slab) break;
            HAK_ADD_OWNED(&hak_owner_rare(hak_load_relaxed(&slab->owner))->stage1, 1);
            hak_bin_list_last(bin, slab);
        }
        if (HAK_UNLIKELY(slab->purged)) count_as_touched(bin, slab, info);
        slab->looked = 0;
        if (hak_remote_finds_twice(slab, info, want)) {
            if (take_out_twice(bin, slab, info, want, &told->twice)) continue;
            break;
        }
        unsigned used = slab->fresh;
        unsigned count =
            take_blocks(slab, info, (unsigned)(end - top), fresh ? info->count : used, end);
        if (count == 0) {
            /* The slab has only blocks that were never used: it comes last. */
            if (slab == bin->tail || passed_over++ == PASS_OVER_MAX) break;
            hak_bin_pass_over(bin, slab);
            continue;
        }
        end -= count;
        if (told->zeroed) {
            size_t offset = (size_t)((char *)top[1] - hak_slab_first(slab, info));
            *told->zeroed = slab->zeroed && offset >= (size_t)used * info->size;
        }
        count_taken(bin, slab, used, count);
    }
    unsigned taken = want - (unsigned)(end - top);
    if (end > top && taken) memmove(top + 1, end + 1, taken * sizeof *top);
    return taken;
}

HAK_NEXT unsigned hak_bin_carve(hak_unit_t *slab, unsigned class_index, unsigned want, void **end) {
    return take_blocks(slab, &hak_classes[class_index], want, slab->fresh, end);
}

bool hak_bin_after_free(hak_bin_t *bin, hak_unit_t *slab) {
    unsigned class_index = hak_owner_class(hak_load_relaxed(&slab->owner));
    const bool is_free = slab->free_count == hak_classes[class_index].count;
    const hak_unit_t *kept = hak_load_relaxed(&bin->empty);
    const bool leaves = is_free && kept && kept != slab && disown(bin, slab);
    if (is_free && !kept) {
        if (slab->listed) list_remove(bin, slab);
        hak_store_relaxed(&bin->empty, slab);
        bin->empty_age = 0;
        HAK_ADD_OWNED(&bin->listed_count, 1);
    } else if (leaves) {
        if (slab->listed) list_remove(bin, slab);
    } else if (!slab->listed && kept != slab) {
        hak_bin_list_first(bin, slab);
    }
    return leaves;
}

/* The block may have another class: a request may have drained bins of several classes. */
HAK_BEHIND void hak_shard_report_one(const void *block, unsigned class_index) {
    const hak_unit_t *unit = hak_region_unit_of(block);
    const uint16_t owner = unit ? hak_load_acquire(&unit->owner) : 0; /* partner: hak_slab_make */
    if (hak_owner_is_bin(owner)) class_index = hak_owner_class(owner);
    hak_error_double_free("free", block, hak_classes[class_index].size);
}

HAK_BEHIND void hak_shard_report_twice(const hak_twice_t *twice, unsigned class_index) {
    for (uint64_t bits = twice->bits; bits; bits &= bits - 1)
        hak_shard_report_one(twice->first + hak_lowest_bit(bits) * (size_t)twice->size,
                             class_index);
}
