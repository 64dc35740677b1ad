/* band_cost.h: when the policy samples the costs of the bands, and figures on its decisions. */
#pragma once

#include "base/base.h"
#include "policy/policy.h"

typedef struct {
    _Atomic uint64_t looks;                    /* samples; band_cost_lock to write, as all here */
    _Atomic uint64_t promotions, demotions;    /* of bands; a warm slab's owner may remember
                                                  the number of demotions it has seen */
    _Atomic uint64_t scores[HAK_POLICY_BANDS]; /* as they were compared last */
} hak_band_cost_stats_t;

extern hak_band_cost_stats_t hak_band_cost_stats;

/* Called by a thread after another round of slow calls. `own` is its cache's count of rounds that it has not added to
 * the shared sum yet. NULL without a cache: such threads use no warm slabs, and their rounds do not count. */
void hak_band_cost_tick(uint64_t now_ms, uint32_t *own);

/* The same, by time alone. For the helper thread, which runs even when no other thread makes slow
 * calls. */
void hak_band_cost_pass(uint64_t now_ms);

/* Called once the options are known. */
void hak_band_cost_start(void);

/* Called when the options of the policy have changed. */
void hak_band_cost_apply(void);
