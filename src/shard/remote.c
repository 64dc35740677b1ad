/* remote.c: remote frees: how a block gets into the remote words of its slab, and from there into its bitmap. A block is
 * remote if its slab belongs to another shard than that of the thread whose magazine is flushed (flush.c). */
#include "shard/remote.h"

#include "debug/timing.h"
#include "shard/bin.h"
#include "shard/table.h"
#include "shard/warm_slab.h"

static void pending_push(hak_unit_t *slab, hak_bin_t *bin) {
    hak_unit_t *old = hak_load_relaxed(&bin->pending);
    do {
        slab->pending_next = old;
    } while (!hak_cas_weak_release(&bin->pending, &old, slab)); /* partner: D1 */
}

/* F2 and F3, by a thread that has taken these words and does not merge them, or for blocks that rely on it. The blocks
 * stay in the remote words, so the slab stays in its bin. */
static void pass_on(hak_unit_t *slab, uint64_t words) {
    if (hak_or_acq_rel(&slab->remote_words, words) != 0) return;
    const uint16_t owner = hak_load_relaxed(&slab->owner);
    pending_push(slab, hak_bin_of(hak_owner_shard(owner), hak_owner_class(owner)));
}

/* A slab that has a record with that word, by the address of its bitmap. The slab stays in its bin as long as the word
 * is not 0; without an owner it has no block in use. */
static bool has_record(const hak_unit_t *slab, const uint64_t *bits, unsigned word) {
    if (atomic_load_explicit(&slab->bits, memory_order_seq_cst) != bits)
        return false; /* partner: L1 */
    const uint16_t owner = hak_load_acquire(&slab->owner);
    return hak_owner_is_bin(owner) && word < hak_classes[hak_owner_class(owner)].words;
}

typedef struct {
    const uint64_t *bits;
    unsigned word;
    hak_unit_t *slab; /* NULL: not found so far */
} search_t;

static HAK_BEHIND void search_superslab(hak_superslab_t *super, void *context) {
    search_t *search = context;
    for (unsigned i = 0; i < hak_superslab_units() && !search->slab; i++)
        if (has_record(&super->units[i], search->bits, search->word))
            search->slab = &super->units[i];
}

/* Undoes F1. Blocks that were freed into the word in the meantime rely on F for F2. F does F2 for the slab that has the
 * record by now; because of those blocks that slab stays until then. It is searched for only when it is another slab.
 * If no slab has the record, those blocks were freed twice, too. */
static HAK_BEHIND void undo(hak_unit_t *slab, const uint64_t *bits, unsigned word,
                            _Atomic uint64_t *remote, uint64_t mask) {
    while ((mask = atomic_fetch_and_explicit(remote, ~mask, memory_order_seq_cst) & ~mask) != 0) {
        search_t search = {bits, word, has_record(slab, bits, word) ? slab : NULL};
        if (!search.slab) hak_region_each_superslab(search_superslab, &search);
        if (!search.slab) continue;
        pass_on(search.slab, (uint64_t)1 << word);
        return;
    }
}

/* True when the slab is in the bin that F has read, and not about to leave it: then it stays until F1 is merged. */
HAK_FAST_PATH bool is_there(const hak_unit_t *slab, uint16_t owner, const uint64_t *bits) {
    return atomic_load_explicit(&slab->bits, memory_order_seq_cst) == bits && /* partner: L1 */
           ((hak_load_acquire(&slab->owner) ^ owner) & ~HAK_OWNER_WARM) == 0;
}

/* A slab that is about to leave stays if this comes before L3. True when the slab has left; F1 is then undone. */
static HAK_BEHIND bool has_left(hak_unit_t *slab, uint16_t owner, uint64_t *bits, unsigned word,
                                _Atomic uint64_t *remote, uint64_t mask) {
    uint64_t *leaves = hak_slab_marked(bits, HAK_SLAB_LEAVES);
    (void)hak_cas_acq_rel(&slab->bits, &leaves, bits);
    if (is_there(slab, owner, bits)) return false;
    undo(slab, bits, word, remote, mask);
    return true;
}

/* Only the thread that has to do F2 checks; every other thread relies on it. */
uint64_t hak_remote_free(hak_unit_t *slab, unsigned class_index, unsigned word, uint64_t mask) {
    HAK_TIMED_MID(pool_remote_push, class_index);
    /* F0, after give_remote's look at the owner */
    uint64_t *const seen = hak_load_acquire(&slab->bits), *const bits = hak_slab_unmarked(seen);
    if (HAK_UNLIKELY(seen == hak_slab_marked(bits, HAK_SLAB_CHUNK))) return mask;
    const uint16_t owner = hak_load_acquire(&slab->owner);
    if (HAK_UNLIKELY(hak_owner_class(owner) != class_index)) return mask;
    _Atomic uint64_t *remote = hak_slab_remote_of(bits, hak_classes[class_index].words);
    uint64_t old = atomic_fetch_or_explicit(&remote[word], mask, memory_order_seq_cst); /* F1 */
    if (old) return old & mask;
    if (HAK_UNLIKELY(!is_there(slab, owner, bits)) &&
        has_left(slab, owner, bits, word, &remote[word], mask))
        return mask;
    if (hak_or_acq_rel(&slab->remote_words, (uint64_t)1 << word)) return 0;         /* F2 */
    pending_push(slab, hak_bin_of(hak_owner_shard(owner), hak_owner_class(owner))); /* F3 */
    return 0;
}

/* Stores blocks of a word that came back twice. */
static HAK_BEHIND void note_twice(const hak_unit_t *slab, const hak_class_t *info, unsigned word,
                                  uint64_t bits, hak_twice_t *twice) {
    const unsigned low = hak_lowest_bit(bits);
    *twice = (hak_twice_t){hak_slab_first(slab, info) + (word * 64u + low) * (size_t)info->size,
                           bits >> low, info->size};
}

/* The same for blocks that D3 does not merge: they also leave the counts. */
static HAK_BEHIND void drop_twice(const hak_unit_t *slab, const hak_class_t *info, unsigned word,
                                  uint64_t bits, hak_twice_t *twice) {
    note_twice(slab, info, word, bits, twice);
    hak_add_relaxed(&hak_owner_rare(hak_load_relaxed(&slab->owner))->remote,
                    -(uint64_t)hak_bit_count(bits));
}

/* D3: moves the remote blocks of *words into the bitmap; returns how many. Stops after a word with a block that came
 * back twice, and leaves the later words in *words. */
static uint32_t merge_remote(hak_unit_t *slab, const hak_class_t *info, uint64_t *words,
                             hak_twice_t *twice) {
    _Atomic uint64_t *remote = hak_slab_remote(slab, info->words);
    uint32_t merged = 0;
    for (; *words && HAK_LIKELY(!twice->bits); *words &= *words - 1) {
        unsigned w = hak_lowest_bit(*words);
        uint64_t mask = hak_exchange_acq_rel(&remote[w], 0);
        const uint64_t again = mask & hak_slab_bits(slab)[w];
        if (HAK_UNLIKELY(again != 0)) drop_twice(slab, info, w, again, twice);
        mask &= ~again;
        if (!mask) continue;
        hak_slab_bits(slab)[w] |= mask;
        slab->words_free |= (uint64_t)1 << w;
        merged += hak_bit_count(mask);
    }
    slab->free_count = (uint16_t)(slab->free_count + merged);
    return merged;
}

/* Takes free blocks out of a word of the bitmap, as if they were handed out: D3 sets them free again. */
static HAK_BEHIND void take_out(hak_unit_t *slab, unsigned word, uint64_t bits) {
    uint64_t *const from = &hak_slab_bits(slab)[word];
    const unsigned behind = word * 64 + hak_highest_bit(bits) + 1;
    *from &= ~bits;
    if (*from == 0) slab->words_free &= ~((uint64_t)1 << word);
    slab->free_count = (uint16_t)(slab->free_count - hak_bit_count(bits));
    if (behind > slab->fresh) slab->fresh = (uint16_t)behind; /* one that was never handed out */
}

HAK_NEXT uint64_t hak_remote_look(const hak_unit_t *slab, const hak_class_t *info, unsigned want,
                                  unsigned *word) {
    const uint64_t come = hak_load_acquire(&slab->remote_words); /* partner: F2 */
    const uint64_t *const bits = hak_slab_bits(slab);
    const _Atomic uint64_t *remote = hak_slab_remote(slab, info->words);
    unsigned seen = 0;
    for (uint64_t words = slab->words_free; words && seen < want; words &= words - 1) {
        const unsigned w = hak_lowest_bit(words);
        const uint64_t again = come >> w & 1 ? bits[w] & hak_load_relaxed(&remote[w]) : 0;
        *word = w;
        if (HAK_UNLIKELY(again != 0)) return again;
        seen += hak_bit_count(bits[w]);
    }
    return 0;
}

/* The check before this call has found some, and only a drain can take them away. */
HAK_BEHIND unsigned hak_remote_take_out(hak_unit_t *slab, const hak_class_t *info, unsigned want,
                                        hak_twice_t *twice) {
    if (twice->bits) return 0;
    unsigned word;
    const uint64_t again = hak_remote_look(slab, info, want, &word);
    HAK_ASSERT(again != 0);
    note_twice(slab, info, word, again, twice);
    take_out(slab, word, again);
    return hak_bit_count(again);
}

/* Pushes back the slabs that a bounded drain leaves. No other thread can have pushed one of them, because their
 * remote_words stayed non-zero. They go behind the slabs that were pushed in the meantime, because those are few and
 * this list may be long. */
static void push_back(hak_unit_t *rest, hak_bin_t *bin) {
    hak_unit_t *none = NULL;
    while (!hak_cas_release(&bin->pending, &none, rest)) {
        hak_unit_t *first = hak_exchange_acq_rel(&bin->pending, NULL), *last = first;
        while (last->pending_next) last = last->pending_next;
        last->pending_next = rest;
        rest = first;
        none = NULL;
    }
}

/* Lists a slab that `some` blocks were merged into; true when it is to be released. */
static bool drained(hak_bin_t *bin, hak_unit_t *slab, uint32_t some) {
    HAK_ADD_OWNED(&bin->spare, some);
    return slab->free_count > 0 && hak_bin_after_free(bin, slab);
}

HAK_NEXT hak_unit_t *hak_remote_merge(hak_bin_t *bin, unsigned shard, unsigned class_index,
                                      uint32_t *most, hak_twice_t *twice) {
    hak_unit_t *released = NULL;
    if (HAK_UNLIKELY(twice->bits != 0)) {
        *most = 0;
        return NULL;
    }
    HAK_TIMED_MID(pool_tc_drain, class_index);
    hak_unit_t *slab = hak_exchange_acq_rel(&bin->pending, NULL); /* D1; partner: F3 */
    const uint16_t mine = hak_owner(shard, class_index);
    while (slab && *most) {
        hak_unit_t *next = slab->pending_next;
        const bool is_warm = hak_owner_is_warm(hak_load_relaxed(&slab->owner), mine);
        if (HAK_UNLIKELY(is_warm) && !hak_warm_claim(slab)) {
            pending_push(slab, bin);
            slab = next;
            continue;
        }
        uint64_t words = hak_exchange_acq_rel(&slab->remote_words, 0); /* D2; partner: F2 */
        uint32_t some = merge_remote(slab, &hak_classes[class_index], &words, twice);
        if (HAK_UNLIKELY(words != 0)) pass_on(slab, words);
        hak_bin_count(shard, class_index, HAK_SHARD_DRAINED, some);
        *most -= HAK_UNLIKELY(twice->bits != 0) ? *most : (uint32_t)hak_min(some, *most);
        if (is_warm ? hak_warm_after_free(bin, slab) : drained(bin, slab, some)) {
            slab->next = released;
            released = slab;
        }
        slab = next;
    }
    if (HAK_UNLIKELY(slab != NULL)) push_back(slab, bin);
    hak_bin_look_at_spare(bin, shard, class_index);
    return released;
}
