/* guard.c: guard pages, by advice or by protection. */
#include "hardened/guard.h"

#include "classes/classes.h"
#include "commit/commit.h"
#include "os/gate.h"
#include "os/os.h"
#include "pool/pool.h"
#include "region/region.h"

hak_guard_stats_t hak_guard_stats;

static _Atomic uint32_t unit_count;      /* guard units */
static _Atomic uint32_t uncharged_units; /* those of them whose pages are gone */

static bool protect(void *start, size_t size) {
    bool done = hak_add_relaxed(&hak_guard_stats.mapped, 1) < HAK_GUARDS_MAPPED &&
                hak_os_protect(start, size);
    if (!done) hak_add_relaxed(&hak_guard_stats.mapped, -1u);
    return done;
}

hak_guard_t hak_guard_set(void *start, size_t size) {
    if (HAK_LIKELY(hak_os_guard(start, size))) return HAK_GUARD_ADVISED;
    if (protect(start, size)) return HAK_GUARD_MAPPED;
    hak_add_relaxed(&hak_guard_stats.not_made, 1);
    return HAK_GUARD_NONE;
}

bool hak_guard_clear(void *start, size_t size, hak_guard_t guard) {
    if (guard == HAK_GUARD_ADVISED) return hak_os_unguard(start, size);
    if (guard == HAK_GUARD_NONE) return true;
    if (!hak_os_commit(start, size)) return false;
    hak_add_relaxed(&hak_guard_stats.mapped, -1u);
    return true;
}

bool hak_guard_unit_is_due(hak_random_t *random) {
    uint32_t each = hak_hardened.guard_units, made = hak_load_relaxed(&unit_count);
    if (!each || hak_region_is_short()) return false;
    size_t used = hak_load_relaxed(&hak_pool_stats.used_units);
    if (used < (size_t)made * each + hak_random_below(random, 2 * each) + 1) return false;
    return hak_cas_acquire(&unit_count, &made, made + 1); /* of two threads one makes the guard */
}

/* The shard has charged the unit as committed. */
static void uncharge(void) {
    hak_add_relaxed(&uncharged_units, 1);
    hak_commit_release(HAK_UNIT_SIZE);
}

/* Makes a guard. *gone: its pages were given back. A guard by advice gives them back itself; for one by mprotect they
 * are purged first, since a purge may write to them. */
static bool make(void *unit, bool *gone) {
    *gone = hak_os_guard(unit, HAK_UNIT_SIZE);
    if (HAK_LIKELY(*gone)) return true;
    *gone = hak_os_purge(unit, HAK_UNIT_SIZE);
    if (protect(unit, HAK_UNIT_SIZE)) return true;
    hak_add_relaxed(&hak_guard_stats.not_made, 1);
    return false;
}

bool hak_guard_unit_make(void *unit) {
    bool gone;
    hak_gate_enter(); /* no check and no fork between the two counts */
    const bool is_made = unit && make(unit, &gone);
    if (is_made && gone) uncharge();
    hak_gate_leave();
    if (!is_made) hak_add_relaxed(&unit_count, -1u);
    return is_made;
}

size_t hak_guard_units_uncharged(void) {
    return (size_t)hak_load_relaxed(&uncharged_units) << HAK_UNIT_SHIFT;
}

uint32_t hak_guard_unit_count(void) { return hak_load_relaxed(&unit_count); }
