/* hardened.c: reads the options of the hardened path, and makes its secret. */
#include "hardened/hardened.h"

#include "classes/classes.h"
#include "options/options.h"
#include "os/os.h"

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
    to->quarantine_bytes = (uint64_t)hak_option(HAK_OPTION_QUARANTINE_BYTES);
    to->secret = hak_os_random();
}

void hak_hardened_switch_on(void) {
    read_options(&hak_hardened);
    for (unsigned i = 1; i < HAK_CLASS_LIMIT; i++) { /* realloc and usable size ask the state */
        hak_store_relaxed(&hak_classes[i].stays, 0);
        hak_store_relaxed(&hak_classes[i].tiny_size, 0);
    }
    hak_store_release(&hak_hardened.on, true); /* partner: hak_hardened_on */
}

void hak_random_seed(hak_random_t *random) { random->state = hak_os_random(); }
