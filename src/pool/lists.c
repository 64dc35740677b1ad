/* lists.c: the pool's lists of superslabs. */
#include "pool/lists.h"

#include "pool/pool.h"

hak_lists_t hak_lists HAK_APART;

static unsigned longest_run(uint32_t mask) {
    unsigned length = 0;
    for (; mask; mask &= mask >> 1) length++;
    return length;
}

void hak_lists_remove(hak_superslab_t *super) {
    if (super == hak_lists.rows_seen) hak_lists.rows_seen = super->next;
    if (super == hak_lists.last_unasked) hak_lists.last_unasked = super->prev;
    hak_superslab_unlink(&hak_lists.by_span[super->longest], super);
}

void hak_lists_insert(hak_superslab_t *super) {
    super->longest = (uint8_t)longest_run(super->free);
    super->kept = false;
    if (super->longest == hak_superslab_units() && !hak_lists.last_unasked)
        hak_lists.last_unasked = super;
    hak_superslab_link(&hak_lists.by_span[super->longest], super);
}

HAK_BEHIND void hak_lists_insert_asked(hak_superslab_t *super, bool keeps) {
    hak_superslab_t *before = hak_lists.last_unasked;
    super->longest = (uint8_t)hak_superslab_units();
    super->kept = keeps;
    hak_superslab_link_behind(&hak_lists.by_span[super->longest], before, super);
    if (!keeps) hak_lists.last_unasked = super;
}

unsigned hak_lists_dirty_count(const hak_superslab_t *super) {
    return super->free & super->dirty ? hak_bit_count(super->free & super->dirty) : 0;
}

bool hak_lists_is_huge(const hak_superslab_t *super) {
    return hak_region_wishes_huge(super) || hak_region_refuses_huge(super);
}

static hak_dirty_list_t *dirty_of(const hak_superslab_t *super) {
    return &hak_lists.dirty[hak_lists_is_huge(super)];
}

void hak_lists_remove_dirty(hak_superslab_t *super) {
    if (!super->on_dirty) return;
    if (super->held)
        HAK_ADD_OWNED(&hak_pool_stats.held_units, -(size_t)hak_lists_dirty_count(super));
    hak_dirty_remove(super->held ? &hak_lists.held : dirty_of(super), super);
    super->held = false;
}

hak_superslab_t *hak_lists_newest(void) {
    if (hak_lists.dirty[0].newest) return hak_lists.dirty[0].newest;
    if (hak_lists.dirty[1].newest) return hak_lists.dirty[1].newest;
    return hak_lists.held.newest;
}

void hak_lists_append_dirty(hak_superslab_t *super) { hak_dirty_append(dirty_of(super), super); }

HAK_NEXT void hak_lists_hold(hak_superslab_t *super) {
    hak_lists_remove_dirty(super);
    hak_dirty_append(&hak_lists.held, super);
    super->held = true;
    HAK_ADD_OWNED(&hak_pool_stats.held_units, hak_lists_dirty_count(super));
}

void hak_lists_add_free(hak_superslab_t *super, uint32_t mask) {
    bool was_held = super->held;
    if (HAK_UNLIKELY(was_held)) hak_lists_remove_dirty(super);
    hak_lists_remove(super);
    super->free |= mask;
    hak_lists_insert(super);
    if (HAK_UNLIKELY(was_held)) hak_lists_put_first(super);
}

HAK_NEXT void hak_lists_put_first(hak_superslab_t *super) {
    if (!super->on_dirty && super->free & super->dirty) hak_dirty_put_first(dirty_of(super), super);
}
