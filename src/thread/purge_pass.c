/* purge_pass.c: what each stage of a pass gives back. */
#include "thread/purge_pass.h"

#include "cache/cpu_depot.h"
#include "large/heap.h"
#include "large/huge.h"
#include "large/large.h"
#include "os/cpu.h"
#include "pool/purge.h"
#include "thread/home_group.h"
#include "thread/thread.h"

enum {
    TRIM_PATIENCE_MS = 1000,
    CACHE_LOOKS = 64, /* of a magazine that is emptied: its blocks may belong to so many slabs */
};

/* On many CPUs more caches wait with blocks than there are CPUs (home_group.c). A later pass empties what one leaves, but
 * malloc_trim and a call that would fail have only one. */
hak_purge_pass_t hak_purge_pass(unsigned stages, uint32_t delay_ms, hak_sparse_t bins) {
    const bool is_all = bins == HAK_SPARSE_ALL;
    return (hak_purge_pass_t){.stages = stages,
                              .left = is_all && stages & HAK_PASS_CACHES ? hak_group_full()
                                                                         : hak_os_cpu_count(),
                              .delay_ms = delay_ms,
                              .bins = bins,
                              .patience = is_all ? TRIM_PATIENCE_MS : 0};
}

/* Continues the present stage; true at its end. */
static bool go_on(hak_purge_pass_t *pass, hak_budget_t *budget, size_t *bytes) {
    switch (pass->stages & -pass->stages) {
    case HAK_PASS_CACHES:
        if (hak_thread_flush_waiting(&pass->left))
            return hak_depot_sweep(&pass->walk, pass->bins != HAK_SPARSE_IDLE, &pass->patience,
                                   budget);
        hak_budget_look(budget, CACHE_LOOKS);
        return false;
    case HAK_PASS_BINS:
        return hak_shard_release_piece(
            &pass->walk, pass->bins == HAK_SPARSE_ALL ? &pass->patience : NULL, budget);
    case HAK_PASS_LARGE:
        *bytes += hak_large_purge_piece(&pass->at, pass->delay_ms, budget);
        return pass->at >= HAK_HEAPS_MAX;
    case HAK_PASS_LARGE_SPARSE:
        *bytes += hak_large_purge_sparse_piece(&pass->at, budget);
        return pass->at >= HAK_HEAPS_MAX;
    case HAK_PASS_HUGE:
        return hak_huge_purge_piece(&pass->at, pass->delay_ms, budget, bytes);
    case HAK_PASS_SPARSE:
        return hak_shard_purge_piece(&pass->walk, pass->bins, pass->delay_ms, budget, bytes);
    default:
        *bytes += hak_pool_purge_piece(pass->delay_ms, pass->bins != HAK_SPARSE_IDLE, budget) *
                  HAK_UNIT_SIZE;
        return !hak_budget_is_spent(budget);
    }
}

bool hak_purge_pass_piece(hak_purge_pass_t *pass, hak_budget_t *budget, size_t *bytes) {
    while (pass->stages && !hak_budget_is_spent(budget)) {
        if (!go_on(pass, budget, bytes)) continue;
        pass->walk = (hak_walk_t){0};
        pass->at = 0;
        pass->stages &= pass->stages - 1;
    }
    return !pass->stages;
}

size_t hak_purge_pass_all(hak_purge_pass_t *pass, hak_budget_t each) {
    size_t bytes = 0;
    for (hak_budget_t budget = each; !hak_purge_pass_piece(pass, &budget, &bytes);) budget = each;
    return bytes;
}
