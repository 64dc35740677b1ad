/* state.c: tables of the states of blocks. */
#include "hardened/state.h"

#include "meta/once.h"
#include "os/os.h"

static const unsigned capacities[HAK_STATE_LEVELS] = {HAK_BLOCKS_FEW, HAK_BLOCKS_SOME,
                                                      HAK_BLOCKS_MAX};

hak_states_t *hak_state_tables(hak_superslab_t *super) {
    hak_states_t *states = hak_load_acquire(&super->states); /* partner: hak_once_make */
    if (HAK_LIKELY(states != NULL)) return states;
    return hak_once_make(&super->states, sizeof *states, NULL);
}

_Atomic uint32_t *hak_state_make(size_t unit, const hak_class_t *info) {
    _Atomic uint32_t *made = hak_state_word(unit, info, 0);
    if (HAK_LIKELY(made != NULL)) return made;
    hak_superslab_t *super = (hak_superslab_t *)(hak_map.supers + (unit >> hak_map.super_shift) *
                                                                      sizeof(hak_superslab_t));
    hak_states_t *states = hak_state_tables(super);
    if (!states) return NULL;
    _Atomic uint32_t *words = hak_once_make(&states->words[hak_state_place(unit)][info->level],
                                            capacities[info->level] * sizeof(uint32_t), NULL);
    if (!words) return NULL;
    if (unit < hak_map.states_end)
        hak_store_release(hak_state_near(unit, info->level), words); /* partner: hak_state_words */
    return words;
}

bool hak_state_is_taken(const hak_unit_t *slab, const hak_class_t *info, uint32_t index) {
    uint64_t *bits = hak_slab_unmarked(hak_load_acquire(&slab->bits)); /* partner: hak_slab_make */
    if (HAK_UNLIKELY(!bits)) return false;                             /* the slab is being made */
    _Atomic uint64_t *remote = hak_slab_remote_of(bits, info->words);
    uint64_t bit = (uint64_t)1 << index % 64, at = index / 64;
    const _Atomic uint64_t *word = (const _Atomic uint64_t *)(const void *)&bits[at];
    return !(hak_load_relaxed(word) & bit) && !(hak_load_relaxed(&remote[at]) & bit);
}

void hak_state_renew(const hak_unit_t *slab, unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    const bool clean = slab->zeroed && info->size <= HAK_SMALL_MAX; /* others are not compared */
    const size_t unit = hak_state_unit(slab->base);
    _Atomic uint32_t *words = clean ? hak_state_make(unit, info) : hak_state_word(unit, info, 0);
    for (unsigned i = 0; words && i < info->count; i++)
        if (clean)
            hak_store_relaxed(&words[i], HAK_STATE_CLEAN);
        else if (hak_load_relaxed(&words[i]) != HAK_STATE_NEVER)
            hak_store_relaxed(&words[i], HAK_STATE_FRESH);
}

/* Arrays below a page stay. */
static void purge_arrays(hak_states_t *states, unsigned place) {
    for (unsigned level = 0; level < HAK_STATE_LEVELS; level++) {
        const size_t size = capacities[level] * sizeof(uint32_t);
        _Atomic uint32_t *words = hak_load_acquire(&states->words[place][level]);
        if (words && size % hak_os_page_size() == 0) hak_os_purge(words, size);
    }
}

void hak_state_purge(hak_superslab_t *super, uint32_t units) {
    hak_states_t *states = hak_load_acquire(&super->states);
    const size_t first = hak_state_unit(super->units[0].base);
    for (; states && units; units &= units - 1)
        purge_arrays(states, hak_state_place(first + hak_lowest_bit(units)));
}
