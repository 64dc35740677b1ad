/* purge_pass.h: a pass over all memory that can be given back, stage by stage, in pieces; internal to thread/. */
#pragma once

#include "pool/purge_budget.h"
#include "shard/shard.h"
#include "shard/sparse.h"

/* The stages of a pass, in their order. HUGE and UNITS are also notes; LARGE_SPARSE, a note as well, is no part of a
 * whole pass. */
enum {
    HAK_PASS_CACHES = 1, /* waiting caches, depots */
    HAK_PASS_BINS = 2,   /* remote frees, kept empty slabs */
    HAK_PASS_LARGE = 4,
    HAK_PASS_HUGE = HAK_NOTE_HUGE,
    HAK_PASS_SPARSE = 16,
    HAK_PASS_UNITS = HAK_NOTE_ROUND,
    HAK_PASS_WHOLE = 2 * HAK_PASS_UNITS - 1,
    HAK_PASS_LARGE_SPARSE = HAK_NOTE_SPARSE,
};

typedef struct {
    unsigned stages;   /* the stages that are left; 0 at the end */
    unsigned left;     /* caches that may still be emptied */
    unsigned at;       /* number of the next large heap; HUGE: see hak_kept_purge */
    hak_walk_t walk;   /* bins and their sparse slabs */
    uint32_t delay_ms; /* only memory that has been free for so long */
    hak_sparse_t bins; /* SPARE or ALL: also memory that IDLE leaves for a later look */
    unsigned
        patience; /* milliseconds to wait for locks of depots and bins; 0 in a piece of a call */
} hak_purge_pass_t;

/* A pass at its beginning. */
hak_purge_pass_t hak_purge_pass(unsigned stages, uint32_t delay_ms, hak_sparse_t bins);

/* Continues a pass as far as the budget allows, and adds what it gave back to *bytes; true at its end. */
bool hak_purge_pass_piece(hak_purge_pass_t *pass, hak_budget_t *budget, size_t *bytes);

/* Does the rest of a pass, in pieces of such a length. Returns bytes. */
size_t hak_purge_pass_all(hak_purge_pass_t *pass, hak_budget_t each);
