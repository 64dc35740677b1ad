/* lists.c: the pool's lists of superslabs. */
#include "pool/lists.h"

#include "base/bits.h"

hak_lists_t hak_lists[HAK_NODES_MAX] HAK_APART;

bool hak_pool_has_much_dirty(size_t dirty, size_t used) { return dirty > used / HAK_ABOUT_PART; }

static void tell(_Atomic bool *word, bool now) {
    if (now != hak_load_relaxed(word)) hak_store_relaxed(word, now);
}

HAK_OUT_OF_LINE void hak_pool_add(size_t used, size_t dirty) {
    HAK_ADD_OWNED(&hak_pool_stats.used_units, used);
    HAK_ADD_OWNED(&hak_pool_stats.dirty_units, dirty);
    const size_t used_now = hak_load_relaxed(&hak_pool_stats.used_units),
                 dirty_now = hak_load_relaxed(&hak_pool_stats.dirty_units);
    const uint32_t now = (uint32_t)used_now, about = hak_load_relaxed(&hak_pool_about.used_units);
    if ((now > about ? now - about : about - now) > about / HAK_ABOUT_PART)
        hak_store_relaxed(&hak_pool_about.used_units, now);
    tell(&hak_pool_about.has_dirty, dirty_now != 0);
    tell(&hak_pool_about.has_much_dirty, hak_pool_has_much_dirty(dirty_now, used_now));
}

static hak_lists_t *lists_of(const hak_superslab_t *super) { return &hak_lists[super->node]; }

void hak_lists_remove(hak_superslab_t *super) {
    hak_lists_t *lists = lists_of(super);
    if (super == lists->rows_seen) lists->rows_seen = super->next;
    if (super == lists->last_unasked) lists->last_unasked = super->prev;
    hak_superslab_unlink(&lists->by_span[super->longest], super);
}

static void insert(hak_superslab_t *super, unsigned longest) {
    hak_lists_t *lists = lists_of(super);
    super->longest = (uint8_t)longest;
    super->kept = false;
    if (longest == hak_superslab_units() && !lists->last_unasked) lists->last_unasked = super;
    hak_superslab_link(&lists->by_span[longest], super);
}

void hak_lists_insert(hak_superslab_t *super) { insert(super, hak_bits_longest(super->free)); }

/* The first of a list stays there if its span does: it would only come back to its place. */
void hak_lists_set_free(hak_superslab_t *super, uint32_t free) {
    const unsigned longest = hak_bits_longest(free);
    const bool stays = longest == super->longest && !super->prev;
    if (!stays) hak_lists_remove(super);
    super->free = free;
    if (!stays) insert(super, longest);
}

HAK_BEHIND void hak_lists_insert_asked(hak_superslab_t *super, bool keeps) {
    hak_lists_t *lists = lists_of(super);
    hak_superslab_t *before = lists->last_unasked;
    super->longest = (uint8_t)hak_superslab_units();
    super->kept = keeps;
    hak_superslab_link_behind(&lists->by_span[super->longest], before, super);
    if (!keeps) lists->last_unasked = super;
}

unsigned hak_lists_dirty_count(const hak_superslab_t *super) {
    return super->free & super->dirty ? hak_bit_count(super->free & super->dirty) : 0;
}

static hak_dirty_list_t *dirty_of(const hak_superslab_t *super) {
    return &lists_of(super)->dirty[super->had_huge];
}

bool hak_lists_is_newest(const hak_superslab_t *super) { return dirty_of(super)->newest == super; }

void hak_lists_remove_dirty(hak_superslab_t *super) {
    if (!super->on_dirty) return;
    if (super->held)
        HAK_ADD_OWNED(&hak_pool_stats.held_units, -(size_t)hak_lists_dirty_count(super));
    hak_dirty_remove(super->held ? &lists_of(super)->held : dirty_of(super), super);
    super->held = false;
}

HAK_BEHIND void hak_lists_place(hak_superslab_t *super, unsigned node) {
    if (super->free == hak_all_units() && !super->dirty) super->node = (uint8_t)node;
}

hak_superslab_t *hak_lists_newest(const hak_lists_t *lists) {
    if (lists->dirty[0].newest) return lists->dirty[0].newest;
    if (lists->dirty[1].newest) return lists->dirty[1].newest;
    return lists->held.newest;
}

void hak_lists_append_dirty(hak_superslab_t *super) { hak_dirty_append(dirty_of(super), super); }

HAK_NEXT void hak_lists_hold(hak_superslab_t *super) {
    hak_lists_remove_dirty(super);
    hak_dirty_append(&lists_of(super)->held, super);
    super->held = true;
    HAK_ADD_OWNED(&hak_pool_stats.held_units, hak_lists_dirty_count(super));
}

void hak_lists_add_free(hak_superslab_t *super, uint32_t mask) {
    bool was_held = super->held;
    if (HAK_UNLIKELY(was_held)) hak_lists_remove_dirty(super);
    hak_lists_set_free(super, super->free | mask);
    if (HAK_UNLIKELY(was_held)) hak_lists_put_first(super);
}

HAK_NEXT void hak_lists_put_first(hak_superslab_t *super) {
    if (!super->on_dirty && super->free & super->dirty) hak_dirty_put_first(dirty_of(super), super);
}
