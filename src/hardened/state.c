/* state.c: tables of the states of blocks. */
#include "hardened/state.h"

#include <string.h>

#include "os/gate.h"
#include "meta/meta.h"

static const unsigned capacities[HAK_STATE_LEVELS] = {HAK_BLOCKS_FEW, HAK_BLOCKS_SOME,
                                                      HAK_BLOCKS_MAX};

static void *make_record(size_t size) {
    void *record = hak_meta_alloc(size);
    if (record) memset(record, 0, size);
    return record;
}

/* Inside the gate: a fork's child, whose pages are copied one after the other, must not have the
 * pointer without the zeros. Returns what is published by now. */
static hak_states_t *publish_tables(hak_superslab_t *super, hak_states_t *made) {
    hak_states_t *old = NULL;
    hak_gate_enter();
    while (!old && !hak_cas_weak_release(&super->states, &old, made)) continue;
    hak_gate_leave();
    if (old) {
        hak_meta_free(made, sizeof *made);
        return hak_load_acquire(&super->states);
    }
    return made;
}

hak_states_t *hak_state_tables(hak_superslab_t *super) {
    hak_states_t *states = hak_load_acquire(&super->states);
    if (HAK_LIKELY(states != NULL)) return states;
    states = make_record(sizeof *states);
    return states ? publish_tables(super, states) : NULL;
}

static _Atomic uint32_t *publish(_Atomic(_Atomic uint32_t *) *at, _Atomic uint32_t *made,
                                 size_t size) {
    _Atomic uint32_t *old = NULL;
    hak_gate_enter();
    while (!old && !hak_cas_weak_release(at, &old, made)) continue;
    hak_gate_leave();
    if (old) {
        hak_meta_free((void *)made, size);
        return hak_load_acquire(at);
    }
    return made;
}

_Atomic uint32_t *hak_state_make(size_t unit, const hak_class_t *info, uint32_t index) {
    _Atomic uint32_t *word = hak_state_word(unit, info, index);
    if (HAK_LIKELY(word != NULL)) return word;
    hak_superslab_t *super = (hak_superslab_t *)(hak_map.supers + (unit >> hak_map.super_shift) *
                                                                      sizeof(hak_superslab_t));
    hak_states_t *states = hak_state_tables(super);
    if (!states) return NULL;
    size_t size = capacities[info->level] * sizeof(uint32_t);
    _Atomic uint32_t *words = make_record(size);
    if (!words) return NULL;
    words = publish(&states->words[hak_state_place(unit)][info->level], words, size);
    return words + index;
}

bool hak_state_is_taken(const hak_unit_t *slab, const hak_class_t *info, uint32_t index) {
    const uint64_t *bits = hak_slab_bits(slab);
    _Atomic uint64_t *remote = hak_slab_remote(slab, info->words);
    uint64_t bit = (uint64_t)1 << index % 64, at = index / 64;
    const _Atomic uint64_t *word = (const _Atomic uint64_t *)(const void *)&bits[at];
    return !(hak_load_relaxed(word) & bit) && !(hak_load_relaxed(&remote[at]) & bit);
}
