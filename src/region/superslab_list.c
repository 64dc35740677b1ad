/* superslab_list.c: lists of superslabs. */
#include "region/superslab_list.h"

HAK_COMMON void hak_superslab_link(hak_superslab_t **first, hak_superslab_t *super) {
    super->prev = NULL;
    super->next = *first;
    if (super->next) super->next->prev = super;
    *first = super;
}

HAK_BEHIND void hak_superslab_link_behind(hak_superslab_t **first, hak_superslab_t *before,
                                          hak_superslab_t *super) {
    if (!before) {
        hak_superslab_link(first, super);
        return;
    }
    super->prev = before;
    super->next = before->next;
    if (super->next) super->next->prev = super;
    before->next = super;
}

HAK_COMMON void hak_superslab_unlink(hak_superslab_t **first, hak_superslab_t *super) {
    *(super->prev ? &super->prev->next : first) = super->next;
    if (super->next) super->next->prev = super->prev;
}

void hak_dirty_remove(hak_dirty_list_t *list, hak_superslab_t *super) {
    if (!super->on_dirty) return;
    *(super->dirty_prev ? &super->dirty_prev->dirty_next : &list->oldest) = super->dirty_next;
    *(super->dirty_next ? &super->dirty_next->dirty_prev : &list->newest) = super->dirty_prev;
    super->on_dirty = false;
}

void hak_dirty_append(hak_dirty_list_t *list, hak_superslab_t *super) {
    super->dirty_next = NULL;
    super->dirty_prev = list->newest;
    *(list->newest ? &list->newest->dirty_next : &list->oldest) = super;
    list->newest = super;
    super->on_dirty = true;
}

void hak_dirty_put_first(hak_dirty_list_t *list, hak_superslab_t *super) {
    super->dirty_prev = NULL;
    super->dirty_next = list->oldest;
    *(list->oldest ? &list->oldest->dirty_prev : &list->newest) = super;
    list->oldest = super;
    super->on_dirty = true;
}
