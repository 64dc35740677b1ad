/* state.c: tables of the states of blocks. */
#include "hardened/state.h"

#include "meta/once.h"
#include "os/os.h"

/* Bytes of an array; of the first kind also for the sizes behind the words. */
static const unsigned sizes[HAK_STATE_LEVELS] = {sizeof(uint16_t) * HAK_BLOCKS_FEW * 2,
                                                 HAK_BLOCKS_SOME * sizeof(uint16_t),
                                                 HAK_BLOCKS_MAX * sizeof(uint16_t)};
_Static_assert(HAK_UNIT_SIZE / HAK_BLOCKS_FEW < HAK_STATE_LONG, "longer arrays have no LONG sizes");

hak_states_t *hak_state_tables(hak_superslab_t *super) {
    hak_states_t *states = hak_load_acquire(&super->states); /* partner: hak_once_make */
    if (HAK_LIKELY(states != NULL)) return states;
    return hak_once_make(&super->states, sizeof *states, NULL);
}

static hak_superslab_t *superslab_of(size_t unit) {
    return (hak_superslab_t *)(hak_map.supers +
                               (unit >> hak_map.super_shift) * sizeof(hak_superslab_t));
}

hak_state_word_t *hak_state_make(size_t unit, const hak_class_t *info) {
    hak_state_word_t *made = hak_state_word(unit, info, 0);
    if (HAK_LIKELY(made != NULL)) return made;
    hak_states_t *states = hak_state_tables(superslab_of(unit));
    if (!states) return NULL;
    hak_state_word_t *words =
        hak_once_make(&states->words[hak_state_place(unit)][info->level], sizes[info->level], NULL);
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

bool hak_state_is_clean(size_t unit) {
    const hak_states_t *states =
        hak_load_acquire(&superslab_of(unit)->states); /* partner: hak_once_make */
    return states && hak_load_relaxed(&states->clean) >> hak_state_place(unit) & 1;
}

/* The bits of other units of the superslab may change meanwhile. False without memory for the tables. */
static bool set_clean(size_t unit, bool clean) {
    const uint32_t bit = (uint32_t)1 << hak_state_place(unit);
    hak_states_t *states = hak_state_tables(superslab_of(unit));
    if (!states) return false;
    if (clean)
        atomic_fetch_or_explicit(&states->clean, bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&states->clean, ~bit, memory_order_relaxed);
    return true;
}

void hak_state_renew(const hak_unit_t *slab, unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    const size_t unit = hak_state_unit(slab->base);
    bool clean = slab->zeroed && info->size <= HAK_SMALL_MAX; /* larger blocks are not compared */
    clean &= set_clean(unit, clean);
    hak_state_word_t *words = hak_state_word(unit, info, 0);
    for (unsigned i = 0; words && i < info->count; i++)
        if (hak_load_relaxed(&words[i]) != HAK_STATE_NEVER)
            hak_store_relaxed(&words[i], clean ? HAK_STATE_NEVER : HAK_STATE_FRESH);
}

static bool note_old_of(const hak_unit_t *slab, unsigned class_index) {
    const hak_class_t *info = &hak_classes[class_index];
    for (unsigned i = 0; i < info->count; i++) {
        if (!hak_state_is_taken(slab, info, i)) continue;
        hak_state_word_t *words = hak_state_make(hak_state_unit(slab->base), info);
        if (!words) return false;
        hak_store_relaxed(&words[i], HAK_STATE_OLD);
    }
    return true;
}

static void note_old_in(hak_superslab_t *super, void *done) {
    for (unsigned i = 0; i < hak_superslab_units(); i++) {
        const uint16_t owner = hak_load_relaxed(&super->units[i].owner);
        if (hak_owner_is_bin(owner) && !note_old_of(&super->units[i], hak_owner_class(owner)))
            *(bool *)done = false;
    }
}

bool hak_state_note_old(void) {
    bool done = true;
    hak_region_each_superslab(note_old_in, &done);
    return done;
}

/* Arrays below a page stay. */
static void purge_arrays(hak_states_t *states, unsigned place) {
    for (unsigned level = 0; level < HAK_STATE_LEVELS; level++) {
        const size_t size = sizes[level];
        hak_state_word_t *words = hak_load_acquire(&states->words[place][level]);
        if (words && size % hak_os_page_size() == 0) hak_os_purge(words, size);
    }
}

void hak_state_purge(hak_superslab_t *super, uint32_t units) {
    hak_states_t *states = hak_load_acquire(&super->states);
    const size_t first = hak_state_unit(super->units[0].base);
    for (; states && units; units &= units - 1)
        purge_arrays(states, hak_state_place(first + hak_lowest_bit(units)));
}
