/* superslab_list.h: the two kinds of lists that superslabs are in. */
#pragma once

#include "region/superslab.h"

/* A list of superslabs by next. */
void hak_superslab_link(hak_superslab_t **first, hak_superslab_t *super);
/* Inserts it behind `before`, or as the first one if that is NULL. */
void hak_superslab_link_behind(hak_superslab_t **first, hak_superslab_t *before,
                               hak_superslab_t *super);
void hak_superslab_unlink(hak_superslab_t **first, hak_superslab_t *super);

/* A list of superslabs by dirty_next, in the order of their last frees, oldest first. A superslab
 * is in at most one such list; `on_dirty` says whether it is in any. Removing one that is in none
 * does nothing. */
typedef struct {
    hak_superslab_t *oldest, *newest;
} hak_dirty_list_t;

void hak_dirty_remove(hak_dirty_list_t *list, hak_superslab_t *super);
void hak_dirty_append(hak_dirty_list_t *list, hak_superslab_t *super);
void hak_dirty_put_first(hak_dirty_list_t *list, hak_superslab_t *super);
