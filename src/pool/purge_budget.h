/* purge_budget.h: how much a piece of purge work may still do; thread/purge_trigger.c sets the amounts.
 *
 * A piece ends when its looks or its bytes are used up. Code that gives memory back asks for the budget first, so that
 * no piece gives back more than its bytes. Examining a slab, a superslab, a bin, a large heap with idle memory, a kept
 * mapping or a part of the kept mappings costs one look, and so does merging a large block.
 *
 * The kernel refuses to purge locked pages. If it refuses a range, the purge tries the halves of
 * the range, a few times, so that a locked page keeps its own unit only. A bounded piece leaves a
 * heap or the pool after 16 refused superslabs. These become the newest ones, so the next pass
 * begins with others. A purge without a bound tries each superslab once. */
#pragma once

#include "base/base.h"
#include "classes/classes.h"
#include "os/tick.h"
#include "region/superslab.h"

typedef struct {
    uint32_t looks;
    size_t bytes;
} hak_budget_t;

#define HAK_BUDGET_ALL ((hak_budget_t){UINT32_MAX, SIZE_MAX})

/* Spent as soon as less than two units are left: the smallest step gives back a unit or, in a
 * large heap, a little more. */
HAK_FAST_PATH bool hak_budget_is_spent(const hak_budget_t *budget) {
    return budget->looks == 0 || budget->bytes < 2 * (size_t)HAK_UNIT_SIZE;
}

/* Number of superslabs that the kernel may refuse until a piece leaves the pool or a heap to the
 * next pass. */
HAK_FAST_PATH uint32_t hak_budget_refusals(const hak_budget_t *budget) {
    enum { MOST = 16 };
    return budget->looks == UINT32_MAX ? UINT32_MAX : MOST;
}

/* Refused ranges of a superslab that are tried again by halves: as many as it takes to find one
 * unit among 32. */
enum { HAK_PURGE_SPLITS = 5 };
_Static_assert(1 << HAK_PURGE_SPLITS == HAK_SUPERSLAB_UNITS_MAX, "down to a unit");

/* Both leave an unlimited amount as it is. */
HAK_FAST_PATH void hak_budget_look(hak_budget_t *budget, uint32_t looks) {
    if (budget->looks != UINT32_MAX) budget->looks -= (uint32_t)hak_min(looks, budget->looks);
}
HAK_FAST_PATH void hak_budget_give(hak_budget_t *budget, size_t bytes) {
    if (budget->bytes != SIZE_MAX) budget->bytes -= hak_min(bytes, budget->bytes);
}

/* Notes: requests of lower layers that the next piece serves. A lower layer sets a bit; the thread that does the work
 * clears it. The thread that sets a note checks the notes at the end of its own call; other threads see it when they
 * check next.
 *
 * PROTOCOL. A note stands for a state: a count, or what a stage of a pass finds. No state is left without its bit:
 *
 *   N1  a lower layer changes the state; then comes a fence, then it looks at the bit, and sets it (acq_rel) if it is
 *       not set. Here the fence is that of hak_fence_after_update: the change is a read-modify-write, or its lock has
 *       been released, or N2 reads the state under the lock that N1 still holds
 *   N2  the owner of the work (thread/purge_trigger.c) takes all bits by an exchange (acq_rel); then comes a fence, then
 *       it reads the states
 *
 * If N1 sets the bit, its state comes before the exchange that takes the bit. If N1 finds the bit set, either its fence
 * comes first, and N2 sees the state; or that of N2, and what N1 found was set after the exchange. Only owners clear
 * bits, one after the other, so an owner that notes again what is left needs no fence.
 * Rejected: a look without the fence. On a CPU that orders loads weakly N1 found the bit that N2 had taken, and N2 the
 * count of before: what was counted waited for the next note, perhaps for ever. */
enum {
    HAK_NOTE_HUGE = 8,       /* more huge mappings are kept than is allowed; a stage of a pass */
    HAK_NOTE_ROUND = 32,     /* slab events have made a round of partial release due; the same */
    HAK_NOTE_GROWN = 64,     /* the heap has grown: purge as many bytes from sparse slabs */
    HAK_NOTE_VISIT = 128,    /* slabs were taken: look for idle bins */
    HAK_NOTE_PRESSURE = 256, /* committed bytes have crossed LIMIT_SOFT: purge all that is free */
    HAK_NOTE_SPARSE = 512,   /* large blocks were freed, perhaps with few touched pages; a stage */
};
extern _Atomic uint32_t hak_budget_notes;

HAK_FAST_PATH void hak_budget_note(uint32_t note) {
    hak_fence_after_update();                                         /* N1; partner: take_notes */
    if ((hak_load_relaxed(&hak_budget_notes) & note) == note) return; /* it may be several bits */
    hak_or_acq_rel(&hak_budget_notes, note);
    hak_tick_hurry();
}
