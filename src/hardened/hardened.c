/* hardened.c: reads the options of the hardened path, and makes its secret. */
#include "hardened/hardened.h"

#include "base/bytes.h"
#include "cache/sampler.h"
#include "classes/classes.h"
#include "hardened/canary.h"
#include "hardened/state.h"
#include "options/options.h"
#include "os/os.h"
#include "pool/purge.h"
#include "shard/bin.h"

hak_hardened_t hak_hardened HAK_ALIGNED(HAK_LINE);

static bool is_set(hak_option_t option) { return hak_option(option) != 0; }

static void read_options(hak_hardened_t *to) {
    to->random = is_set(HAK_OPTION_RANDOM_PLACEMENT);
    to->zero = is_set(HAK_OPTION_ZERO_ON_FREE);
    to->check_freed = to->zero && is_set(HAK_OPTION_CHECK_FREED);
    to->canary = is_set(HAK_OPTION_CANARY);
    to->match = is_set(HAK_OPTION_CHECK_MISMATCH);
    to->guard = is_set(HAK_OPTION_GUARD_LARGE);
    to->empty = is_set(HAK_OPTION_GUARD_EMPTY);
    to->guard_units = (uint32_t)hak_option(HAK_OPTION_GUARD_UNITS);
    size_t blocks = (size_t)hak_option(HAK_OPTION_QUARANTINE);
    to->quarantine = blocks ? (uint32_t)hak_ceil_pow2(blocks) : 0;
    to->all = to->random && to->check_freed && to->canary && to->match &&
              to->quarantine == HAK_QUARANTINE_USUAL && !hak_sampler_has(HAK_SAMPLER_PROFILE);
    to->secret = hak_os_random();
    to->factor = hak_os_random() | 1;
    to->ones = 0x0101010101010101u | (uint64_t)HAK_CANARY_MARK << 56;
    to->wide = hak_wide_least();
}

/* Five eighths of QUARANTINE_BYTES are for light blocks. So with the profile's values a request of 1 KiB, which is
 * frequent, is light with its canary. */
static void share_quarantine(hak_hardened_t *to) {
    uint64_t bytes = (uint64_t)hak_option(HAK_OPTION_QUARANTINE_BYTES);
    to->quarantine_bytes = bytes;
    to->light_size = HAK_TINY_MAX;
    if (!to->quarantine) return;
    to->quarantine_mask = to->quarantine - 1;
    to->light_size = (uint32_t)hak_min(bytes / 8 * 5 / to->quarantine, HAK_TINY_MAX);
    to->quarantine_bytes -= (uint64_t)to->light_size * to->quarantine;
    if (to->light_size < HAK_WIDE_LEAST)
        to->all = false;
    else if (to->wide == HAK_WIDE_LEAST)
        to->wide_light = to->light_size - HAK_WIDE_LEAST + 1;
}

static void make_routes(hak_hardened_t *to) {
    for (unsigned i = 0; i < HAK_TINY_MAX / 8; i++)
        to->route[i] =
            (uint16_t)(hak_class_of(hak_max(i * 8 + 8, HAK_CANARY_LEAST)) << HAK_MAGAZINE_SHIFT);
}

/* Makes the table of near arrays (state.h), whose pages come as units are used. */
static void make_near_table(void) {
    const size_t size = sizeof(hak_state_array_t) * HAK_STATE_NEAR * (HAK_STATE_NO_LEVEL + 1);
    void *table = hak_os_address_limit() == SIZE_MAX ? hak_os_map(size, HAK_UNIT_SIZE) : NULL;
    if (!table) return;
    hak_os_wish_huge(table, size,
                     false); /* a huge page that is made without a request would hold all of it */
    hak_os_name(table, size, "hakmem: states");
    hak_map.states = (uintptr_t)table;
    hak_map.states_end = HAK_STATE_NEAR;
}

void hak_hardened_switch_on(void) {
    read_options(&hak_hardened);
    share_quarantine(&hak_hardened);
    make_routes(&hak_hardened);
    make_near_table();
    if (hak_hardened.check_freed) hak_slab_set_watcher(hak_state_renew);
    hak_pool_set_purge_watcher(hak_state_purge);
    for (unsigned i = 1; i < HAK_CLASS_LIMIT; i++) { /* realloc and usable size ask the state */
        hak_store_relaxed(&hak_classes[i].stays, 0);
        hak_store_relaxed(&hak_classes[i].tiny_test, 0);
    }
    hak_store_release(&hak_hardened.on, true); /* partner: hak_hardened_on */
}

void hak_random_seed(hak_random_t *random) { *random = (hak_random_t){hak_os_random(), 0}; }
