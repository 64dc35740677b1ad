/* shard.c: taking and giving batches, over all shards; the protocol is in shard.h. */
#include "shard/shard.h"

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

/* One locked visit: what is listed, else what remote frees brought. Blocks that
 * came back twice are passed over here: the one who gave them was told, or is by
 * the next flush of that slab. */
static unsigned take_locked(hak_shard_bin_t *bin, unsigned shard, unsigned class_index,
                            unsigned want, void **top, bool *zeroed) {
    hak_slab_t *released = NULL;
    void *ignored = NULL;
    if (!bin->head) released = hak_bin_drain(bin, shard, class_index, &ignored);
    unsigned taken = hak_bin_take(bin, class_index, want, top, zeroed);
    hak_lock_release(&bin->lock);
    if (HAK_UNLIKELY(released != NULL)) hak_slab_release_list(released, class_index);
    return taken;
}

static unsigned take_from_others(unsigned home, unsigned class_index, unsigned want, void **top,
                                 bool *zeroed, unsigned probes, bool wait) {
    unsigned count = hak_shard_count();
    for (unsigned i = 1; i < count && i <= probes; i++) {
        unsigned shard = (home + i) % count;
        hak_shard_bin_t *bin = hak_bin_of(shard, class_index);
        if (!hak_load_relaxed(&bin->listed_count) && !hak_load_relaxed(&bin->pending)) continue;
        if (wait)
            hak_lock_acquire(&bin->lock);
        else if (!hak_lock_try(&bin->lock))
            continue;
        unsigned taken = take_locked(bin, shard, class_index, want, top, zeroed);
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
    return take_locked(bin, home, class_index, want, top, zeroed);
}

unsigned hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                        bool *zeroed) {
    hak_shard_bin_t *bin = hak_bin_of(home, class_index);
    hak_lock_acquire(&bin->lock);
    unsigned taken = take_locked(bin, home, class_index, want, top, zeroed);
    if (taken) return taken;
    unsigned probes = (unsigned)hak_option(HAK_OPTION_TRYLOCK_PROBES);
    taken = take_from_others(home, class_index, want, top, zeroed, probes, false);
    if (!taken) taken = take_from_pool(home, class_index, want, top, zeroed);
    if (!taken)
        taken = take_from_others(home, class_index, want, top, zeroed, HAK_SHARDS_MAX, true);
    return taken;
}

/* One word's worth of blocks of a slab. Returns those that were free already. */
static uint64_t give_word(hak_slab_t *slab, bool local, unsigned word, uint64_t mask,
                          unsigned count) {
    if (!local) return hak_bin_remote_free(slab, word, mask);
    uint64_t old = slab->bits[word];
    uint64_t twice = old & mask;
    slab->bits[word] = old | mask;
    slab->words_free |= (uint64_t)1 << word;
    if (HAK_UNLIKELY(twice)) count = hak_bit_count(mask & ~twice);
    slab->free_count = (uint16_t)(slab->free_count + count);
    return twice;
}

/* A batch on its way back. */
typedef struct {
    void *const *next, *const *end;
    const hak_class_t *info;
    void *bad; /* first block found free already, or beyond the last block */
} batch_t;

static void note_bad(batch_t *batch, void *block) {
    if (!batch->bad) batch->bad = block;
}

/* Gives all blocks at the head of the batch that lie in `slab`. The bits of one
 * word are gathered in a register and written, or sent, together. */
static void give_to_slab(batch_t *batch, hak_slab_t *slab, bool local) {
    uintptr_t base = (uintptr_t)slab->base;
    uint32_t reciprocal = batch->info->reciprocal, size = batch->info->size;
    unsigned limit = batch->info->count;
    unsigned word = 0, count = 0;
    uint64_t mask = 0;
    void *const *next = batch->next, *const *end = batch->end;
    for (; next < end; next++) {
        uintptr_t offset = (uintptr_t)*next - base;
        if (offset >= HAK_UNIT_SIZE) break;
        unsigned index = hak_block_index((uint32_t)offset, reciprocal);
        if (HAK_UNLIKELY(index >= limit)) {
            note_bad(batch, *next);
            continue;
        }
        if (index >> 6 != word) {
            if (mask) {
                uint64_t twice = give_word(slab, local, word, mask, count);
                if (HAK_UNLIKELY(twice))
                    note_bad(batch, (void *)(base + (word * 64u + hak_lowest_bit(twice)) * size));
            }
            word = index >> 6;
            mask = 0;
            count = 0;
        }
        uint64_t bit = (uint64_t)1 << (index & 63);
        if (HAK_UNLIKELY(mask & bit)) {
            note_bad(batch, *next);
            continue;
        }
        mask |= bit;
        count++;
    }
    batch->next = next;
    uint64_t twice = mask ? give_word(slab, local, word, mask, count) : 0;
    if (HAK_UNLIKELY(twice))
        note_bad(batch, (void *)(base + (word * 64u + hak_lowest_bit(twice)) * size));
}

void *hak_shard_give(unsigned home, unsigned class_index, void *const *blocks, unsigned count) {
    hak_shard_bin_t *bin = hak_bin_of(home, class_index);
    hak_slab_t *released = NULL;
    bool locked = false;
    batch_t batch = {.next = blocks, .end = blocks + count, .info = &hak_classes[class_index]};
    while (batch.next < batch.end) {
        hak_slab_t *slab = hak_region_slab_of(*batch.next);
        bool local = hak_load_relaxed(&slab->shard) == home;
        if (local && !locked) {
            hak_lock_acquire(&bin->lock);
            locked = true;
        }
        /* A slab of another class: the block was free, and its slab went its way. */
        if (HAK_UNLIKELY(hak_load_relaxed(&slab->class_index) != class_index)) {
            note_bad(&batch, *batch.next++);
            continue;
        }
        give_to_slab(&batch, slab, local);
        if (local && hak_bin_after_free(bin, slab)) {
            slab->next = released;
            released = slab;
        }
    }
    if (locked) hak_lock_release(&bin->lock);
    if (released) hak_slab_release_list(released, class_index);
    return batch.bad;
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
            void *ignored = NULL;
            hak_slab_t *released = hak_bin_drain(bin, shard, class_index, &ignored);
            hak_slab_t *slab = bin->empty_age++ > 0 ? hak_bin_drop_empty(bin) : NULL;
            if (slab) {
                slab->next = released;
                released = slab;
            }
            hak_lock_release(&bin->lock);
            hak_slab_release_list(released, class_index);
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
    const hak_class_t *info = &hak_classes[hak_load_relaxed(&slab->class_index)];
    _Atomic uint64_t *remote = hak_slab_remote(slab, info->words);
    unsigned count = slab->free_count;
    for (unsigned w = 0; w < info->words; w++)
        count += hak_bit_count(hak_load_relaxed(&remote[w]));
    return count;
}
