/* commit.c: one sum, two limits. */
#include "commit/commit.h"

#include "options/options.h"
#include "os/cpu.h"
#include "os/tick.h"

static _Atomic size_t committed HAK_OWN_LINE;
static _Atomic uint64_t refused;
static _Atomic size_t soft_next
    HAK_READ_OFTEN; /* the next sum that calls for a purge; 0: not set yet */
static _Atomic bool pressure HAK_READ_OFTEN;

HAK_COMMON size_t hak_commit_soft(void) {
    int64_t soft = hak_option(HAK_OPTION_LIMIT_SOFT);
    return soft != HAK_SOFT_AUTO ? (size_t)soft : (size_t)(hak_os_memory_limit() / 3 * 2);
}

size_t hak_commit_soft_near(void) {
    size_t soft = hak_commit_soft();
    bool is_far = hak_option(HAK_OPTION_LIMIT_SOFT) == HAK_SOFT_AUTO &&
                  hak_load_relaxed(&committed) <= soft / 2;
    return is_far ? 0 : soft;
}

/* Requests a purge. The release pairs with hak_commit_pressure: the thread that takes the request reads a sum that is
 * no older than the caller's. Rejected: a relaxed store. That thread could read the former sum and find nothing to do;
 * the next request would come a sixteenth of the limit later. */
static void call_for_purge(void) {
    hak_store_release(&pressure, true);
    hak_tick_hurry();
}

/* Under `auto`: requests the first look at the control groups. */
static void ask_for_limit(void) {
    if (hak_option(HAK_OPTION_LIMIT_SOFT) != HAK_SOFT_AUTO) return;
    call_for_purge();
}

static void watch_soft(size_t sum, size_t soft) {
    size_t next = hak_load_relaxed(&soft_next);
    if (HAK_LIKELY(sum <= hak_max(next, soft))) return;
    hak_store_relaxed(&soft_next, sum + soft / 16);
    call_for_purge();
}

/* Adds bytes unless the sum would exceed the limit; no thread ever sees a sum above it. *sum: the sum before. */
static bool add_below(size_t limit, size_t bytes, size_t *sum) {
    *sum = hak_load_relaxed(&committed);
    do {
        if (bytes > limit || *sum > limit - bytes) return false;
    } while (!hak_cas_weak_release(&committed, sum, *sum + bytes));
    return true;
}

HAK_COMMON bool hak_commit_charge(size_t bytes) {
    size_t limit = (size_t)hak_option(HAK_OPTION_LIMIT);
    size_t soft = hak_commit_soft();
    size_t sum;
    if (HAK_LIKELY(!limit)) {
        sum = hak_add_release(&committed, bytes);
    } else if (!add_below(limit, bytes, &sum)) {
        hak_add_relaxed(&refused, 1);
        return false;
    }
    if (HAK_UNLIKELY(soft != 0))
        watch_soft(sum + bytes, soft);
    else if (HAK_UNLIKELY(sum + bytes > HAK_COMMIT_SMALL))
        ask_for_limit();
    return true;
}

void hak_commit_release(size_t bytes) {
    size_t sum = hak_add_relaxed(&committed, -bytes) - bytes;
    size_t next = sum + hak_commit_soft() / 16;
    if (HAK_UNLIKELY(next < hak_load_relaxed(&soft_next))) hak_store_relaxed(&soft_next, next);
}

size_t hak_commit_bytes(void) { return hak_load_relaxed(&committed); }

/* Partner: call_for_purge. */
bool hak_commit_pressure(void) {
    return HAK_UNLIKELY(hak_load_relaxed(&pressure)) &&
           atomic_exchange_explicit(&pressure, false, memory_order_acquire);
}

uint64_t hak_commit_refused(void) { return hak_load_relaxed(&refused); }
