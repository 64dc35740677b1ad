/* shard.c: taking and giving batches, over all shards; the protocol is in shard.h. */
#include "shard/shard.h"

#include "error/error.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"
#include "shard/bin.h"

static _Atomic unsigned shard_count; /* 0 until the first look */
static _Atomic unsigned next_shard;

unsigned hak_shard_count(void) {
    unsigned count = hak_load_relaxed(&shard_count);
    if (HAK_UNLIKELY(count == 0)) {
        count = (unsigned)hak_option(HAK_OPTION_SHARDS);
        if (count == 0) count = hak_os_cpu_count();
        if (count > HAK_SHARDS_MAX) count = HAK_SHARDS_MAX;
        hak_store_relaxed(&shard_count, count);
    }
    return count;
}

unsigned hak_shard_assign(void) { return hak_add_relaxed(&next_shard, 1) % hak_shard_count(); }

bool hak_shard_has_slabs(unsigned home, unsigned class_index) {
    return hak_load_relaxed(&hak_bin_of(home, class_index)->adopted) != 0;
}

/* A block that was given twice: found where its frees meet. No lock held. */
static HAK_SLOW_PATH void report_twice(const void *block, unsigned class_index) {
    hak_error_double_free("free", block, hak_classes[class_index].size);
}

/* One locked visit: what is listed, else what remote frees brought. */
static unsigned take_locked(hak_shard_bin_t *bin, unsigned shard, unsigned class_index,
                            unsigned want, void **top, bool fresh, bool *zeroed) {
    hak_slab_t *released = NULL;
    void *twice = NULL;
    if (!bin->head || !fresh) released = hak_bin_drain(bin, shard, class_index, &twice);
    unsigned taken = hak_bin_take(bin, class_index, want, top, fresh, zeroed);
    hak_lock_release(&bin->lock);
    if (HAK_UNLIKELY(released != NULL)) hak_slab_release_list(released, class_index);
    if (HAK_UNLIKELY(twice != NULL)) report_twice(twice, class_index);
    return taken;
}

/* Whether a visit could bring anything; a look without the lock. */
static bool has_free(const hak_shard_bin_t *bin) {
    return hak_load_relaxed(&bin->listed_count) || hak_load_relaxed(&bin->pending);
}

static unsigned take_home(hak_shard_bin_t *bin, unsigned home, unsigned class_index,
                          unsigned want, void **top, bool fresh, bool *zeroed) {
    if (!has_free(bin)) return 0;
    hak_lock_acquire(&bin->lock);
    return take_locked(bin, home, class_index, want, top, fresh, zeroed);
}

/* Searches other shards: `probes` of them by trylock for used blocks, or with
 * HAK_SHARDS_MAX all of them, waiting, for any. */
static unsigned take_from_others(unsigned home, unsigned class_index, unsigned want, void **top,
                                 bool *zeroed, unsigned probes) {
    unsigned count = hak_shard_count();
    bool all = probes == HAK_SHARDS_MAX;
    for (unsigned i = 1; i < count && i <= probes; i++) {
        unsigned shard = (home + i) % count;
        hak_shard_bin_t *bin = hak_bin_of(shard, class_index);
        if (!has_free(bin)) continue;
        if (all)
            hak_lock_acquire(&bin->lock);
        else if (!hak_lock_try(&bin->lock))
            continue;
        unsigned taken = take_locked(bin, shard, class_index, want, top, all, zeroed);
        if (taken) return taken;
    }
    return 0;
}

static unsigned take_from_pool(unsigned home, unsigned class_index, unsigned want, void **top,
                               bool *zeroed) {
    bool fresh;
    hak_slab_t *slab = hak_pool_take(1, &fresh);
    if (slab && !hak_slab_make(slab, class_index, fresh)) {
        hak_pool_give(slab, 1);
        slab = NULL;
    }
    if (!slab) return 0;
    hak_shard_bin_t *bin = hak_bin_of(home, class_index);
    hak_lock_acquire(&bin->lock);
    hak_bin_adopt(bin, home, class_index, slab);
    return take_locked(bin, home, class_index, want, top, true, zeroed);
}

/* Blocks that have been in use come first, wherever they are: their pages are there. */
unsigned hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                        bool *zeroed) {
    hak_shard_bin_t *bin = hak_bin_of(home, class_index);
    unsigned probes = (unsigned)hak_option(HAK_OPTION_TRYLOCK_PROBES);
    unsigned taken = take_home(bin, home, class_index, want, top, false, zeroed);
    if (!taken) taken = take_from_others(home, class_index, want, top, zeroed, probes);
    if (!taken) taken = take_home(bin, home, class_index, want, top, true, zeroed);
    if (!taken) taken = take_from_pool(home, class_index, want, top, zeroed);
    if (!taken) taken = take_from_others(home, class_index, want, top, zeroed, HAK_SHARDS_MAX);
    return taken;
}

/* A batch on its way back. Every function that gets its address is inlined, so
 * that its fields stay in registers. */
typedef struct {
    void *const *next, *const *end;
    hak_class_t info;
    void *bad; /* first block found free already, or behind the last one */
} batch_t;

HAK_FAST_PATH void note_bad(batch_t *batch, void *block) {
    if (!batch->bad) batch->bad = block;
}

/* True when the next 64 blocks of a batch are a whole word's, in order or in reverse:
 * what a program leaves that frees as it allocated. The compiler makes vector code
 * of the comparison, a fraction of the cost of 64 indices. */
static HAK_OUT_OF_LINE bool is_whole_word(void *const *next, intptr_t step) {
    uintptr_t expected = (uintptr_t)*next, wrong = 0;
    if ((uintptr_t)next[63] != expected + (uintptr_t)(63 * step)) return false;
    for (unsigned i = 0; i < 64; i++) wrong |= (uintptr_t)next[i] ^ (expected + i * (uintptr_t)step);
    return wrong == 0;
}

/* Takes the next block of the batch and those after it that share its word of the
 * bitmap; returns their bits, the word in *word and their number in *count. */
HAK_FAST_PATH uint64_t gather_word(batch_t *batch, unsigned *word, unsigned *count) {
    void *const *next = batch->next;
    const uintptr_t first = (uintptr_t)*next;
    const uint32_t reciprocal = batch->info.reciprocal;
    uint32_t index = hak_block_index((uint16_t)first, reciprocal);
    uint64_t mask = 0;
    *word = index >> 6;
    if (((index + 1) & 62) == 0 && batch->end - next >= 64 && (index | 63) < batch->info.count &&
        is_whole_word(next, index & 1 ? -(intptr_t)batch->info.size : (intptr_t)batch->info.size)) {
        batch->next = next + 64;
        *count = 64;
        return ~(uint64_t)0;
    }
    *count = 0;
    do {
        uint64_t bit = (uint64_t)1 << (index & 63);
        if (HAK_UNLIKELY((mask & bit) || index >= batch->info.count)) {
            note_bad(batch, *next);
        } else {
            mask |= bit;
            ++*count;
        }
        if (++next == batch->end || ((uintptr_t)*next ^ first) >= HAK_UNIT_SIZE) break;
        index = hak_block_index((uint16_t)(uintptr_t)*next, reciprocal);
    } while (index >> 6 == *word);
    batch->next = next;
    return mask;
}

HAK_FAST_PATH void note_twice(batch_t *batch, const hak_slab_t *slab, unsigned word,
                                     uint64_t twice) {
    note_bad(batch, slab->base + (word * 64u + hak_lowest_bit(twice)) * (size_t)batch->info.size);
}

/* Gives a word's worth of blocks to the slab's own bin; true when the slab must
 * be released. Bin lock held. */
HAK_FAST_PATH bool give_local(batch_t *batch, hak_shard_bin_t *bin, hak_slab_t *slab) {
    unsigned word, count;
    uint64_t mask = gather_word(batch, &word, &count);
    if (HAK_UNLIKELY(mask == 0)) return false; /* `word` may be beyond the bitmap */
    uint64_t free_already = slab->bits[word];
    if (HAK_UNLIKELY(hak_load_relaxed(&slab->remote_words) != 0))
        free_already |= hak_load_relaxed(&hak_slab_remote(slab, batch->info.words)[word]);
    if (HAK_UNLIKELY(free_already & mask)) {
        note_twice(batch, slab, word, free_already & mask);
        mask &= ~free_already;
        count = mask ? hak_bit_count(mask) : 0;
    }
    slab->bits[word] |= mask;
    slab->words_free |= (uint64_t)1 << word;
    unsigned free_count = slab->free_count + count;
    slab->free_count = (uint16_t)free_count;
    if (HAK_LIKELY(slab->listed && free_count < batch->info.count)) return false;
    return hak_bin_after_free(bin, slab);
}

/* The same for a slab of another shard. A slab of another class: the block was
 * free already, and its slab has gone its way since. */
HAK_FAST_PATH void give_remote(batch_t *batch, unsigned class_index, hak_slab_t *slab) {
    unsigned word, count;
    if (hak_owner_class(hak_load_relaxed(&slab->owner)) != class_index) {
        note_bad(batch, *batch->next++);
        return;
    }
    uint64_t mask = gather_word(batch, &word, &count);
    uint64_t twice = mask ? hak_bin_remote_free(slab, word, mask) : 0;
    if (HAK_UNLIKELY(twice)) note_twice(batch, slab, word, twice);
}

void hak_shard_give(unsigned home, unsigned class_index, void *const *blocks, unsigned count) {
    hak_shard_bin_t *bin = hak_bin_of(home, class_index);
    const uint16_t mine = hak_owner(home, class_index);
    batch_t batch = {blocks, blocks + count, hak_classes[class_index], NULL};
    hak_slab_t *released = NULL;
    bool locked = false;
    while (batch.next < batch.end) {
        hak_slab_t *slab = hak_slab_of(*batch.next);
        if (HAK_UNLIKELY(hak_load_relaxed(&slab->owner) != mine)) {
            give_remote(&batch, class_index, slab);
            continue;
        }
        if (!locked) {
            hak_lock_acquire(&bin->lock);
            locked = true;
            continue; /* look again: the owner is certain only under the lock */
        }
        if (HAK_UNLIKELY(give_local(&batch, bin, slab))) {
            slab->next = released;
            released = slab;
        }
    }
    if (locked) hak_lock_release(&bin->lock);
    if (released) hak_slab_release_list(released, class_index);
    if (HAK_UNLIKELY(batch.bad != NULL)) report_twice(batch.bad, class_index);
}

/* Bins are visited one by one; one that is busy is not idle. */
void hak_shard_sweep(void) {
    unsigned count = hak_shard_count();
    for (unsigned shard = 0; shard < count; shard++) {
        for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++) {
            hak_shard_bin_t *bin = hak_bin_of(shard, class_index);
            if (!hak_load_relaxed(&bin->listed_count) && !hak_load_relaxed(&bin->pending))
                continue;
            if (!hak_lock_try(&bin->lock)) continue;
            void *twice = NULL;
            hak_slab_t *released = hak_bin_drain(bin, shard, class_index, &twice);
            hak_slab_t *slab = bin->empty_age++ > 0 ? hak_bin_drop_empty(bin) : NULL;
            if (slab) {
                slab->next = released;
                released = slab;
            }
            hak_lock_release(&bin->lock);
            hak_slab_release_list(released, class_index);
            if (HAK_UNLIKELY(twice != NULL)) report_twice(twice, class_index);
        }
    }
}

/* Calls `visit` for every bin, in lock order. */
static void each_bin(void (*visit)(hak_shard_bin_t *bin)) {
    unsigned count = hak_shard_count();
    for (unsigned shard = 0; shard < count; shard++)
        for (unsigned class_index = 1; class_index <= HAK_CLASS_COUNT; class_index++)
            visit(hak_bin_of(shard, class_index));
}

static void lock_bin(hak_shard_bin_t *bin) { hak_lock_acquire(&bin->lock); }
static void unlock_bin(hak_shard_bin_t *bin) { hak_lock_release(&bin->lock); }

static void forget_pending(hak_shard_bin_t *bin) {
    hak_lock_reset(&bin->lock);
    hak_store_relaxed(&bin->pending, NULL);
}

static void repend_superslab(hak_superslab_t *super, void *context) {
    (void)context;
    for (unsigned i = 0; i < HAK_SUPERSLAB_UNITS; i++) hak_bin_repend(&super->slabs[i]);
}

void hak_shard_lock_all(void) { each_bin(lock_bin); }
void hak_shard_unlock_all(void) { each_bin(unlock_bin); }

void hak_shard_rebuild(void) {
    each_bin(forget_pending);
    hak_region_each_superslab(repend_superslab, NULL);
}

unsigned hak_shard_free_count(const hak_slab_t *slab) {
    const hak_class_t *info = &hak_classes[hak_owner_class(hak_load_relaxed(&slab->owner))];
    _Atomic uint64_t *remote = hak_slab_remote(slab, info->words);
    unsigned count = slab->free_count;
    for (unsigned w = 0; w < info->words; w++)
        count += hak_bit_count(hak_load_relaxed(&remote[w]));
    return count;
}
