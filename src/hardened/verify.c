/* verify.c: checks that the bytes behind each block in use are unchanged. */
#include "hardened/verify.h"

#include "hardened/big.h"
#include "hardened/canary.h"
#include "hardened/state.h"
#include "large/huge.h"

static const char statement[] = "the bytes behind the block are as they were";

/* The owner may free the block meanwhile, and so write to it. */
HAK_RACES static bool canary_holds(const char *block, size_t used, const hak_class_t *info) {
    return hak_canary_holds(block, used, info->size, hak_canary_marks(info));
}

/* state.h has the protocol. */
static void check_block(hak_check_t *check, const char *block, const hak_class_t *info,
                        hak_state_word_t *at) {
    uint16_t used = hak_load_acquire(at), seen = (uint16_t)(used - HAK_STATE_USED + HAK_STATE_SEEN);
    size_t size = hak_state_size_at(at, used);
    if (hak_state_of(used) != HAK_STATE_USED || canary_holds(block, size, info)) return;
    if (!hak_state_swap(at, &(uint16_t){used}, seen)) return;
    size = hak_state_size_at(at, used); /* the block may be another one with a LONG size */
    bool holds = canary_holds(block, size, info);
    if (!hak_cas_release(at, &seen, used)) return; /* partner: hak_state_claim */
    hak_check_that(check, "block", block, statement, holds);
}

static void check_slab(hak_check_t *check, const hak_unit_t *slab, const hak_class_t *info) {
    const char *first = hak_slab_first(slab, info);
    hak_state_word_t *words = hak_state_word(hak_state_unit(first), info, 0);
    for (unsigned i = 0; words && i < info->count; i++)
        check_block(check, first + (size_t)i * info->size, info, &words[i]);
}

static void check_unit(hak_check_t *check, const hak_unit_t *unit) {
    uint16_t owner = hak_load_acquire(&unit->owner);
    if (hak_owner_is_bin(owner)) {
        check_slab(check, unit, &hak_classes[hak_owner_class(owner)]);
    } else if (hak_owner_class(owner) == HAK_CLASS_LARGE) {
        const void *block = hak_big_in_unit(unit);
        uint64_t note = block ? hak_big_note(block) : 0;
        if (hak_state_of(note) == HAK_STATE_USED && !hak_big_holds(block, note))
            hak_check_that(check, "block", block, statement, false);
    }
}

static void check_superslab(hak_superslab_t *super, void *check) {
    if (!hak_load_acquire(&super->states)) return;
    for (unsigned i = 0; i < hak_superslab_units(); i++) check_unit(check, super->units + i);
}

static bool check_huge(const hak_mapping_t *mapping, void *check) {
    const void *block = (const void *)mapping->start;
    if (hak_state_of(mapping->note) == HAK_STATE_USED && !hak_big_holds(block, mapping->note))
        hak_check_that(check, "block", block, statement, false);
    return true;
}

void hak_hardened_check(hak_check_t *check) {
    if (!hak_hardened_on() || !hak_hardened.canary) return;
    hak_region_each_superslab(check_superslab, check);
    hak_huge_each(check_huge, check);
}
