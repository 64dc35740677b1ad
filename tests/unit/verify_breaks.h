/* verify_breaks.h: one function for each invariant, which breaks it in the world of verify_world.h; for verify.c. */
#pragma once

#include "verify_world.h"

#include "commit/commit.h"
#include "large/huge.h"
#include "large/huge_kept.h"
#include "large/huge_table.h"
#include "meta/meta.h"
#include "pool/lists.h"
#include "pool/pool.h"
#include "region/verify.h"

static void free_count(void) { world.slab->free_count++; }
static void words_free(void) { world.slab->words_free ^= (uint64_t)1 << 60; }
static void bit_behind(void) { hak_slab_bits(world.slab)[0] |= (uint64_t)1 << 63; }
static void fresh_beyond(void) { world.slab->fresh = 1000; }
static void fresh_low(void) { world.slab->fresh = 0; }
static void purged(void) { world.slab->purged = 255; }
static void remote_word(void) { hak_slab_remote(world.slab, 1)[0] = 1; }
static void lifted(void) { world.slab->lifted = true; }
static void owner(void) { world.slab->owner ^= 1; }
static void listed(void) { world.slab->listed = false; }
static void slab_prev(void) { world.slab->prev = world.warm; }
static void tail(void) { world.bin->tail = world.bin->empty; }
static void empty_owner(void) { world.bin->empty->owner ^= 1; }
static void empty_used(void) { world.bin->empty->free_count--; }
static void empty_listed(void) { world.bin->empty->listed = true; }
static void listed_count(void) { world.bin->listed_count++; }
static void lost_slab(void) { world.bin->empty = NULL; }
static void adopted(void) { world.bin->adopted++; }
static void touched(void) { world.bin->touched++; }
static void spare(void) { world.bin->spare--; }
static void pending(void) { world.bin->pending = world.slab; }
static void warm_listed(void) { world.warm->listed = true; }
static void warm_flag(void) { world.warm->owner &= (uint16_t)~HAK_OWNER_WARM; }
static void warm_slot(void) { world.warm->slot = NULL; }
static void claimed(void) { world.slot->state |= 1; }
static void ready(void) { world.slot->ready++; }
static void ring_next(void) { world.slot->next->prev = NULL; }
static hak_warm_ring_t *ring(void) {
    return hak_warm_ring_of(hak_owner_shard(world.warm->owner), hak_owner_class(world.warm->owner));
}
static void ring_count(void) { ring()->count++; }
static void ring_none(void) { ring()->oldest = NULL; }
static void ring_used(void) { ring()->used++; }
static void ragged(void) { hak_pool_stats.ragged_units++; }
static void shard_slabs(void) { hak_bin_add_slabs(0, 1); }

static void longest(void) { world.super->longest++; }
static void other_list(void) { hak_lists[0].by_span[world.super->longest] = NULL; }
static void last_unasked(void) { hak_lists[0].last_unasked = world.super; }
static void super_prev(void) { world.super->prev = world.super; }
static void on_dirty(void) { world.dirty->on_dirty = false; }
static void clean_listed(void) { world.dirty->dirty = 0; }
static void held(void) {
    world.dirty->held = true;
    world.dirty->on_dirty = false;
}
static void held_free(void) {
    world.dirty->held = true;
    world.dirty->free = UINT32_MAX >> (32 - hak_superslab_units());
    world.dirty->longest = (uint8_t)hak_superslab_units();
}
static void dirty_prev(void) { world.dirty->dirty_prev = world.dirty; }
static void free_unit(void) { world.super->free |= 1u << (world.slab - world.super->units); }
static void no_pages(void) { world.super->dirty &= ~(1u << (world.slab - world.super->units)); }
static void unit_base(void) { world.slab->base += HAK_UNIT_SIZE; }
static void map_class(void) { hak_region_set_class(world.slab, 1, 1); }
static void superslab_count(void) { hak_pool_stats.stage3++; }
static void used_units(void) { hak_pool_stats.used_units++; }
static void dirty_units(void) { hak_pool_stats.dirty_units++; }
static void held_units(void) { hak_pool_stats.held_units++; }

static hak_superslab_t *large_super(void) { return hak_region_superslab_of(world.block); }
static void large_free(void) { large_super()->free = 1; }
static void clean_grains(void) { large_super()->clean_grains++; }
static void touched_clean(void) { large_super()->dirty = 0; }
static void clean_dirty(void) { large_super()->dirty = UINT32_MAX >> (32 - hak_superslab_units()); }
static void used_beyond(void) { large_super()->used_grains = UINT16_MAX; }
static void used_grains(void) { large_super()->used_grains--; }
static void not_large(void) { large_super()->large = false; }
static void heap_owner(void) { large_super()->heap_owner ^= 0x100; }
static void unit_owner(void) { world.extent->owner ^= 0x100; }
static void extent_gone(void) { world.extent->extent_first = 0; }
static unsigned extent_bin(void) {
    for (unsigned bin = 0; bin < HAK_EXTENT_BINS; bin++)
        if (world.heap->extents.bins[bin]) return bin;
    return 0;
}
static void extent_filled(void) { world.heap->extents.filled[0] ^= 2; }
static void extent_other_bin(void) {
    hak_extents_t *extents = &world.heap->extents;
    unsigned bin = extent_bin();
    extents->bins[1] = extents->bins[bin];
    extents->filled[0] |= 2;
}
static void extent_prev(void) { world.heap->extents.bins[extent_bin()]->prev = world.block; }
static void extent_end(void) {
    for (hak_unit_t *unit = world.heap->extents.bins[extent_bin()];; unit++)
        if (unit->extent_last) {
            unit->extent_last++;
            break;
        }
}
static void idle(void) { world.heap->idle++; }
static void live(void) { world.heap->live++; }
static void live_count(void) { world.heap->live_count++; }
static void run_longer(void) { world.block->large += 1 << 5; }
static void lent(void) { world.heap->lent++; }
static void published(void) { world.heap->idle_published += 5; }
static void idle_list(void) { world.heap->dirty.newest->dirty_prev = world.heap->dirty.newest; }
static void idle_newest(void) { world.heap->dirty.newest = NULL; }
static void idle_short(void) { world.heap->dirty.oldest = world.heap->dirty.newest = NULL; }
static void recent_count(void) { world.heap->recent.count = HAK_RECENT_MAX + 1; }
static void recent_grains(void) { world.heap->recent.grains += 5; }
static void recent_used(void) { hak_recent_put(&world.heap->recent, world.block, 1); }
static void transfer_count(void) { world.heap->transfer_count = HAK_TRANSFER_MAX + 1; }
static void transfer_grains(void) { world.heap->transfer_grains++; }
static void transfer_used(void) {
    world.heap->transfer[world.heap->transfer_count++] = world.block;
}

static void huge_count(void) { hak_huge_table[0].in_hand++; }
static void huge_bytes(void) { hak_huge_stats.held_bytes += 4096; }
static void huge_kept(void) { hak_huge_stats.kept_bytes += 4096; }
static hak_stretches_t *kept_part(void) {
    hak_stretches_t *part = hak_kept_parts;
    while (!part->count) part++;
    return part;
}
static hak_stretch_t *kept(void) { return kept_part()->kept; }
static void kept_longer(void) { kept()[0].size += 4096; }
static void kept_empty(void) { kept()[0].size = 0; }
static void kept_twice(void) {
    kept()[1] = kept()[0];
    kept_part()->count++;
}
static void huge_lost(void) {
    hak_huge_table_t *table = hak_huge_table;
    while (!table->current.used) table++;
    hak_mapping_t *slot = table->current.slots;
    while (!slot->start) slot++;
    do slot->start += 1 << 20;
    while (hak_huge_table_find(table, slot->start)); /* until it is not where its hash leads */
}

static void cache_top(void) { world.magazine->top = world.magazine->base + world.magazine->slots; }
static void cache_slots(void) { world.magazine->slots--; }
static void cache_sentinel(void) { world.magazine->base[0] = world.magazine; }
static void cache_foreign(void) { *world.magazine->top = &world; }
static void cache_class(void) { *world.magazine->top = world.warm->base; }
static void cache_inside(void) { *world.magazine->top = (char *)*world.magazine->top + 16; }
static void cache_limit(void) { world.magazine->limit += 1 << 20; }
static void cache_capacity(void) { hak_cache->capacity[HAK_TINY]++; }
static hak_magazine_t *unused_magazine(void) {
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++)
        if (!hak_cache->magazines[i].slots) return &hak_cache->magazines[i];
    CHECK(false, "all bins are in use");
    return NULL;
}
static void *some_block[1];
static void no_stack_block(void) {
    some_block[0] = world.magazine;
    unused_magazine()->top = some_block;
}
static void no_stack_limit(void) { unused_magazine()->limit = 1; }

static void area_guard(void) { region()->areas[0].committed = region()->areas[0].reserved; }
static void area_limit(void) { region()->areas[1].limit = 0; }
static void area_uncharged(void) {
    region()->areas[0].uncharged = region()->areas[0].committed + hak_os_page_size();
}
static void area_odd(void) { region()->areas[2].committed++; }
static void carved(void) { region()->carved = region()->limit + 1; }
static void few_records(void) { region()->areas[0].committed = 0; }
static void map_end(void) { hak_map.unit_end++; }
static void mapped(void) { region()->mapped++; }
static void pieces(void) { region()->pieces++; }
static void holes(void) { region()->unmapped = world.super; }
static void hole(void) { world.super->unmapped = true; }
static void descriptors(void) { world.super->units++; }

static void record_bytes(void) {
    ++*(size_t *)find_static("meta.c", "bytes_total", sizeof(size_t));
}
static void record_odd(void) { *(char **)world.record = (char *)world.record + 8; }
static void record_far(void) {
    static _Alignas(65536) char outside[65536];
    *(void **)world.record = outside;
}
static void record_ring(void) { *(void **)world.record = world.record; }
static void chunk(void) {
    char **end = find_static("meta.c", "chunk_end", sizeof(char *));
    *end += (size_t)1 << 36;
}

static void waiting_tid(void) { world.waiting->tid = 1; }
/* As group_t (thread/home_group.c). */
typedef struct {
    hak_lock_t lock;
    uint16_t full, ending;
    void *empty;
    unsigned homes[8];
    _Alignas(HAK_LINE) char holding[8][HAK_LINE];
    _Alignas(HAK_LINE) unsigned threads;
    unsigned told;
} group_t;
static group_t *first_group(void) { return find_static("home_group.c", "first", sizeof(group_t)); }

static void waiting_full(void) { ++first_group()->full; }
static void threads(void) { ++first_group()->homes[0]; }
static void committed(void) { hak_commit_charge(4096); }
