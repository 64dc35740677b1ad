/* heap_purge.c: purges the free grains of a large heap. */
#include "large/heap_purge.h"

#include <string.h>

#include "commit/commit.h"
#include "os/os.h"
#include "region/region.h"

enum {
    PIECES_MAX = HAK_SUPERSLAB_UNITS_MAX + 1, /* free stretches, at most */
    SPARSE_LEAST = 2 << 8,   /* a fall that suffices after a look that purged; it leaves as much */
    SPARSE_MOST = 1024 << 8, /* each look that finds none doubles the fall, up to this */
    SPARSE_SHARE = 2,        /* sparse: fewer than half of the pages are in memory */
    DENSE_MOST = 16, /* a look ends after so many superslabs that are not sparse, or locked */
};

typedef struct {
    hak_superslab_t *super;
    uint64_t clean[HAK_SUPERSLAB_WORDS_MAX]; /* grains to purge; then those that are zero now */
    uint64_t short_clean[HAK_SUPERSLAB_WORDS_MAX]; /* the same of pieces that are not claimed */
    hak_part_t pieces[PIECES_MAX];
    unsigned count;
    unsigned calls, refused; /* calls, and those that the kernel refused because pages are locked */
    unsigned splits;         /* runs that may still be purged by halves */
    size_t room;             /* grains that may still be claimed */
    bool is_cut;             /* more is free than there was room for */
    bool has_short;          /* some pieces are in `short_clean` */
} claim_t;

/* Grains of a page of the system, or 1. */
static size_t grains_of_page(void) { return hak_max(hak_os_page_size() >> HAK_GRAIN_SHIFT, 1); }

/* The first grain of the first page that lies in a stretch and has a touched grain. */
static size_t first_page(const hak_part_t *piece) {
    const size_t rest = grains_of_page() - 1, end = (piece->first + piece->count) & ~rest;
    return hak_bits_next(piece->super->touched, (piece->first + rest) & ~rest, end, true) & ~rest;
}

/* False when there is no such page. */
static bool has_page(const hak_part_t *piece) {
    return first_page(piece) < ((piece->first + piece->count) & ~(grains_of_page() - 1));
}

/* Shortens a stretch to the room that is left, beginning at its first page to purge. The result is longer than a
 * unit. */
static void cut(claim_t *claim, hak_part_t *piece) {
    const unsigned end = piece->first + piece->count;
    piece->first = (unsigned)first_page(piece);
    piece->count = (unsigned)hak_min(end - piece->first, claim->room);
    if (piece->count <= HAK_UNIT_GRAINS) {
        piece->count = HAK_UNIT_GRAINS + 1;
        piece->first = end - piece->count;
    }
    claim->is_cut = true;
}

/* Where a page has several grains, a whole page in a free stretch can be purged however few of its grains are touched.
 * Adds the other grains of such pages: they are zero and stay so. */
static HAK_BEHIND void add_rest_of_pages(const hak_part_t *piece, uint64_t *bits) {
    const size_t page_grains = grains_of_page(), end = piece->first + piece->count;
    size_t at = hak_align_up(piece->first, page_grains);
    for (; at + page_grains <= end; at += page_grains) {
        const uint64_t page = (((uint64_t)1 << page_grains) - 1) << at % 64;
        if (bits[at / 64] & page) bits[at / 64] |= page;
    }
}

/* Notes which grains of a stretch are to be purged. */
static void note_touched(const hak_part_t *piece, uint64_t *bits) {
    for (unsigned w = piece->first / 64; w <= hak_part_last_word(piece); w++)
        bits[w] |= piece->super->touched[w] & hak_part_bits(piece, w);
    if (HAK_UNLIKELY(grains_of_page() > 1)) add_rest_of_pages(piece, bits);
}

/* Claims the free grains first .. end - 1: takes them out of the extents. A short stretch stays there and
 * is only noted, since memory outside the extents must be longer than a unit (extent.h). A stretch without
 * a page to purge is skipped: it gives nothing back, and if it took room the next piece would meet it
 * again. */
static void claim_piece(hak_heap_t *heap, claim_t *claim, unsigned first, unsigned end) {
    hak_superslab_t *super = claim->super;
    hak_part_t piece = {super, first, end - first};
    if (!has_page(&piece)) return;
    if (claim->room <= HAK_UNIT_GRAINS) {
        claim->is_cut = true;
        return;
    }
    if (piece.count > claim->room) cut(claim, &piece);
    claim->room -= piece.count;
    if (piece.count <= HAK_UNIT_GRAINS) {
        claim->has_short = true;
        note_touched(&piece, claim->short_clean);
        return;
    }
    char *start = hak_part_start(&piece);
    if (!hak_extents_take_at(&heap->extents, start, piece.count)) return;
    note_touched(&piece, claim->clean);
    HAK_ADD_OWNED(&heap->idle, -(size_t)hak_part_touched(&piece));
    hak_heap_set_used(heap, &piece);
    claim->pieces[claim->count++] = piece;
}

/* Claims the free stretches of a superslab that have touched grains. An extent covers all
 * of the superslab, or ends in it, or begins in it and ends beyond. */
static void claim(hak_heap_t *heap, claim_t *claim) {
    hak_superslab_t *super = claim->super;
    if (super->used_grains == 0) {
        claim_piece(heap, claim, 0, hak_superslab_grains());
        return;
    }
    for (unsigned i = 0; i < hak_superslab_units(); i++) {
        uint32_t last = super->units[i].extent_last, first = super->units[i].extent_first;
        unsigned base = i * HAK_UNIT_GRAINS;
        if (last) {
            unsigned end = base + last % HAK_UNIT_GRAINS + 1;
            unsigned length = (unsigned)hak_min(last / HAK_UNIT_GRAINS, end);
            claim_piece(heap, claim, end - length, end);
        }
        unsigned start = base + first % HAK_UNIT_GRAINS;
        if (first && start + first / HAK_UNIT_GRAINS > hak_superslab_grains())
            claim_piece(heap, claim, start, hak_superslab_grains());
    }
}

static void purge_halves(claim_t *claim, unsigned first, unsigned end, uint64_t *clean);

/* Purges whole pages, and sets their bits in `clean`. */
static void purge_run(claim_t *claim, unsigned first, unsigned end, uint64_t *clean) {
    hak_part_t run = {claim->super, first, end - first};
    char *start = hak_part_start(&run);
    claim->calls++;
    if (HAK_UNLIKELY(
            !hak_region_purge(claim->super, start, (size_t)run.count << HAK_GRAIN_SHIFT))) {
        purge_halves(claim, first, end, clean);
        return;
    }
    for (unsigned w = first / 64; w <= hak_part_last_word(&run); w++)
        clean[w] |= hak_part_bits(&run, w);
}

/* Purges the halves of a run that the kernel has refused, down to a unit, as often as claim->splits says. So a locked
 * page keeps only a little memory, not all of a long run. */
static HAK_BEHIND void purge_halves(claim_t *claim, unsigned first, unsigned end, uint64_t *clean) {
    const size_t page_grains = grains_of_page();
    claim->refused++;
    if (end - first <= hak_max(HAK_UNIT_GRAINS, page_grains) || !claim->splits) return;
    claim->splits--;
    unsigned middle = (unsigned)hak_align_up(first + (end - first) / 2, page_grains);
    purge_run(claim, first, middle, clean);
    purge_run(claim, middle, end, clean);
}

/* Purges grains, run by run, in whole pages. Afterwards `bits` has only those that were purged. */
static void purge_grains(claim_t *claim, uint64_t *bits) {
    const size_t page_grains = grains_of_page();
    uint64_t clean[HAK_SUPERSLAB_WORDS_MAX] = {0};
    const size_t grains = hak_superslab_grains();
    for (size_t from, i = 0; (from = hak_bits_next(bits, i, grains, true)) < grains;) {
        i = hak_bits_next(bits, from, grains, false);
        unsigned first = (unsigned)hak_align_up(from, page_grains);
        unsigned end = (unsigned)(i & ~(page_grains - 1));
        if (end > first) purge_run(claim, first, end, clean);
    }
    memcpy(bits, clean, sizeof clean);
}

static size_t set_clean(hak_superslab_t *super, const uint64_t *bits) {
    size_t cleaned = 0;
    for (unsigned w = 0; w < hak_superslab_words(); w++) {
        cleaned += hak_bit_count(super->touched[w] & bits[w]);
        super->touched[w] &= ~bits[w];
    }
    super->clean_grains = (uint16_t)(super->clean_grains + cleaned);
    return cleaned;
}

/* Ends a claim: its pieces are free again. Returns the number of grains that are clean now. */
static size_t unclaim(hak_heap_t *heap, const claim_t *claim) {
    hak_superslab_t *super = claim->super;
    uint32_t clean_units = 0;
    size_t cleaned = set_clean(super, claim->clean);
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        if (!(super->touched[i / 4] >> i % 4 * HAK_UNIT_GRAINS & 0xffff)) clean_units |= 1u << i;
    clean_units &= super->dirty;
    super->dirty &= ~clean_units;
    hak_commit_release((size_t)hak_bit_count(clean_units) << HAK_UNIT_SHIFT);
    for (unsigned p = 0; p < claim->count; p++) {
        const hak_part_t *piece = &claim->pieces[p];
        hak_heap_give(heap, hak_part_start(piece), piece->count);
    }
    if (!super->dirty && super->used_grains == 0 &&
        hak_extents_take_at(&heap->extents, super->units[0].base, hak_superslab_grains()))
        hak_heap_send_back(heap, super);
    return cleaned;
}

/* Purges the pieces of at most a unit, which takes a few microseconds. If the kernel refuses some, the superslab
 * becomes the newest in the list. Under the lock. */
static size_t purge_short(hak_heap_t *heap, claim_t *claim) {
    purge_grains(claim, claim->short_clean);
    size_t cleaned = set_clean(claim->super, claim->short_clean);
    if (HAK_UNLIKELY(claim->refused)) hak_heap_append_dirty(heap, claim->super, hak_os_now_ms());
    HAK_ADD_OWNED(&heap->idle, -cleaned);
    return cleaned;
}

/* True when few of the grains that are to be purged are in memory; false when the system does not tell. */
static bool is_sparse(const claim_t *claim) {
    unsigned char in_memory[HAK_SUPERSLAB_SIZE_MAX / HAK_GRAIN_SIZE];
    const unsigned shift = hak_lowest_bit(hak_os_page_size() >> HAK_GRAIN_SHIFT);
    size_t all = 0, present = 0;
    if (!hak_os_in_memory(claim->super->units[0].base, hak_superslab_size(), in_memory))
        return false;
    for (unsigned w = 0; w < hak_superslab_words(); w++)
        for (uint64_t bits = claim->clean[w]; bits; bits &= bits - 1, all++)
            present += in_memory[(w * 64 + hak_lowest_bit(bits)) >> shift] & 1u;
    return present * SPARSE_SHARE < all;
}

/* A purge under way. */
typedef struct {
    bool only_sparse; /* purge only superslabs that are sparse */
    unsigned in_vain; /* superslabs that were not, and those of which the kernel took nothing */
    unsigned splits;  /* of each superslab; 0 once the kernel has taken nothing of one */
} purge_t;

/* Purges one superslab, as far as the budget allows; returns the number of grains that have become clean. As in the
 * pool, stretches are claimed under the lock and purged without it. Lock held. */
static size_t purge_superslab(hak_heap_t *heap, hak_superslab_t *super, purge_t *purge,
                              hak_budget_t *budget) {
    claim_t work = {
        .super = super, .room = budget->bytes >> HAK_GRAIN_SHIFT, .splits = purge->splits};
    const uint64_t freed_ms = super->freed_ms;
    size_t cleaned = 0;
    hak_dirty_remove(&heap->dirty, super);
    claim(heap, &work);
    if (!purge->only_sparse) cleaned = purge_short(heap, &work);
    /* If a piece ends within a superslab, the next piece begins with it. */
    if (work.is_cut && !super->on_dirty) hak_dirty_put_first(&heap->dirty, super);
    if (purge->only_sparse && work.has_short && !super->on_dirty)
        hak_dirty_append(&heap->dirty, super);
    bool is_dense = purge->only_sparse && work.has_short && !work.count;
    if (work.count) {     /* the claimed grains keep the superslab in this heap */
        hak_gate_enter(); /* otherwise the child of a fork would have the claim for ever */
        hak_lock_release(&heap->lock);
        is_dense = purge->only_sparse && !is_sparse(&work);
        if (is_dense) memset(work.clean, 0, sizeof work.clean);
        purge_grains(&work, work.clean);
        hak_lock_acquire(&heap->lock);
        hak_gate_leave();
    }
    HAK_ADD_OWNED(&heap->purge_calls, work.calls);
    const bool is_newer = super->freed_ms != freed_ms; /* by a free in the gap */
    cleaned += unclaim(heap, &work);
    if (is_dense && !is_newer) super->freed_ms = freed_ms; /* a look must not make it younger */
    /* Where a page has several grains, a piece without a whole page is met again at each purge. */
    if (cleaned == 0 && work.refused > 1) purge->splits = 0;
    purge->in_vain += is_dense || (cleaned == 0 && (work.refused || work.count));
    hak_budget_look(budget, 1);
    hak_budget_give(budget, cleaned << HAK_GRAIN_SHIFT);
    return cleaned;
}

/* A superslab whose idle grains are in use again stays in the list until a purge meets it, which costs a look. A
 * superslab that the kernel refuses becomes the newest. So the loop ends at the superslab that is the newest at its
 * beginning. */
size_t hak_heap_purge(hak_heap_t *heap, uint32_t delay_ms, hak_budget_t *budget) {
    size_t purged = 0;
    purge_t purge = {.only_sparse = false, .splits = HAK_PURGE_SPLITS};
    const unsigned most_in_vain = hak_budget_refusals(budget);
    uint64_t now = hak_os_now_ms();
    if (hak_load_relaxed(&heap->idle) == 0) return 0;
    hak_lock_acquire(&heap->lock);
    hak_superslab_t *super, *last = heap->dirty.newest, *seen = NULL;
    while (seen != last && purge.in_vain < most_in_vain && !hak_budget_is_spent(budget) &&
           (super = heap->dirty.oldest) != NULL && hak_superslab_is_of_age(super, now, delay_ms)) {
        purged += purge_superslab(heap, super, &purge, budget);
        seen = super;
        hak_lock_let_fork_in(&heap->lock);
    }
    hak_lock_release(&heap->lock);
    return purged << HAK_GRAIN_SHIFT;
}

static HAK_BEHIND size_t purge_sparse(hak_heap_t *heap, hak_budget_t *budget) {
    size_t purged = 0;
    purge_t purge = {.only_sparse = true, .splits = HAK_PURGE_SPLITS};
    while (heap->dirty.oldest && hak_load_relaxed(&heap->idle) >= SPARSE_LEAST &&
           purge.in_vain < DENSE_MOST && !hak_budget_is_spent(budget)) {
        purged += purge_superslab(heap, heap->dirty.oldest, &purge, budget);
        hak_lock_let_fork_in(&heap->lock);
    }
    return purged;
}

/* If the budget ends a look, the next piece continues it. */
size_t hak_heap_purge_sparse(hak_heap_t *heap, hak_budget_t *budget) {
    HAK_HOLD(&heap->lock);
    if (!heap->wants_sparse) return 0;
    heap->wants_sparse = false; /* first: a free may set it while the lock is released */
    size_t purged = purge_sparse(heap, budget);
    const bool goes_on = hak_budget_is_spent(budget);
    if (goes_on) heap->wants_sparse = true;
    if (purged)
        heap->sparse_due = SPARSE_LEAST;
    else if (!goes_on)
        heap->sparse_due = hak_min(2 * hak_heap_sparse_due(heap), SPARSE_MOST);
    return purged << HAK_GRAIN_SHIFT;
}
