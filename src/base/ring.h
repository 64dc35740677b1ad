/* ring.h: a circular doubly linked list; one pointer leads to its first and to its last node. */
#pragma once

#include "base/base.h"

/* The first member of each listed struct. An empty list is NULL. */
typedef struct hak_ring {
    struct hak_ring *next, *before;
} hak_ring_t;

/* Inserts a node behind the last one. */
static inline void hak_ring_append(hak_ring_t **first, hak_ring_t *node) {
    *node = *first ? (hak_ring_t){*first, (*first)->before} : (hak_ring_t){node, node};
    if (!*first) *first = node;
    node->next->before = node->before->next = node;
}

static inline void hak_ring_remove(hak_ring_t **first, hak_ring_t *node) {
    node->next->before = node->before;
    node->before->next = node->next;
    if (*first == node) *first = node->next == node ? NULL : node->next;
}
