/* budget.h: how much a piece of purge work may still do; thread/purge.c says who has how much.
 *
 * A piece ends when one of the two is used up. Whoever gives memory back asks first how much
 * it may, so that no piece ever gives back more than its bytes; a slab, a superslab, a bin
 * and a kept mapping are one look each. */
#ifndef HAK_BUDGET_H
#define HAK_BUDGET_H

#include "base/base.h"
#include "classes/classes.h"
#include "os/tick.h"

typedef struct {
    uint32_t looks;
    size_t bytes;
} hak_budget_t;

#define HAK_BUDGET_ALL ((hak_budget_t){UINT32_MAX, SIZE_MAX})

/* The least step is a unit or, in a large heap, a little more. */
HAK_FAST_PATH bool hak_budget_is_spent(const hak_budget_t *budget) {
    return budget->looks == 0 || budget->bytes < 2 * HAK_UNIT_SIZE;
}

/* What is endless stays so. */
HAK_FAST_PATH void hak_budget_look(hak_budget_t *budget, uint32_t looks) {
    if (budget->looks != UINT32_MAX) budget->looks -= (uint32_t)hak_min(looks, budget->looks);
}
HAK_FAST_PATH void hak_budget_give(hak_budget_t *budget, size_t bytes) {
    if (budget->bytes != SIZE_MAX) budget->bytes -= hak_min(bytes, budget->bytes);
}

/* What lower layers ask for, and the next piece does. Each is set here before anybody looks,
 * and taken by who does the work; a layer that counts what it asks for does that first. Who sets
 * one looks at the end of its call; others find it when they look. */
enum {
    HAK_NOTE_ROUND = 1,     /* slab events have made a round of partial release due */
    HAK_NOTE_GROWN = 2,     /* the heap has grown: as many sparse pages */
    HAK_NOTE_VISIT = 4,     /* slabs were taken: a look at bins that rest */
    HAK_NOTE_HUGE = 8,      /* more is kept of huge mappings than may be */
    HAK_NOTE_PRESSURE = 16, /* committed bytes have crossed LIMIT_SOFT: all that is free */
};
extern _Atomic uint32_t hak_budget_notes;

HAK_FAST_PATH void hak_budget_note(uint32_t note) {
    if (hak_load_relaxed(&hak_budget_notes) & note) return;
    hak_or_acq_rel(&hak_budget_notes, note);
    hak_tick_hurry();
}

#endif
