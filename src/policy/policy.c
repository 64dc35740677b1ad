/* policy.c: computes scores from the costs of bands, and chooses the bands to promote. */
#include "policy/policy.h"

enum {
    LOCK_WEIGHT = 4,
    WARM_WEIGHT = LOCK_WEIGHT + 1, /* the lock and the miss that the refill has saved */
    AVERAGED_LOOKS = 4,
    BONUS_OF = 2, /* the score of a promoted band is raised by this part */
    MS_PER_SECOND = 1000,
};

enum {
#define OPTION(name, tier, kind, change, accepted, unit, least, most, fallback, ...) \
    DEFAULT_##name = (fallback),
#include "options/each_option.def"
};

#define BAND(band) (1u << HAK_BAND_##band)
static const uint8_t fixed[] HAK_NEAR = {
    [HAK_POLICY_LEGACY] = 0,
    [HAK_POLICY_C5_7_ONLY] = BAND(C5) | BAND(C6) | BAND(C7),
    [HAK_POLICY_TINYPLUS_ALL] = UINT8_MAX,
    [HAK_POLICY_AUTO] = BAND(C7),
};

/* The bands of the default, so that a program with default options writes nothing at its start. */
_Atomic uint32_t hak_policy_bands = BAND(C7);
_Static_assert((int)DEFAULT_TINY_POLICY_PROFILE == (int)HAK_POLICY_AUTO, "the default");

/* The increase since the last look. A total that is read without its lock may be older than the one
 * seen before; that counts as no increase. */
static uint64_t added(uint64_t *seen, uint64_t now) {
    uint64_t more = now > *seen ? now - *seen : 0;
    *seen += more;
    return more;
}

static void average(uint64_t *rate, uint64_t more, uint64_t elapsed_ms, uint32_t looks) {
    int64_t now = (int64_t)(more * MS_PER_SECOND / elapsed_ms), before = (int64_t)*rate;
    *rate = (uint64_t)(before + (now - before) / (int64_t)hak_min(looks, AVERAGED_LOOKS));
}

bool hak_policy_learn(hak_policy_t *policy, const hak_shard_costs_t *costs, uint64_t elapsed_ms) {
    hak_shard_costs_t more[HAK_POLICY_BANDS];
    uint64_t sum = 0;
    for (unsigned band = 0; band < HAK_POLICY_BANDS; band++) {
        hak_shard_costs_t *seen = &policy->seen[band];
        more[band].locks = added(&seen->locks, costs[band].locks);
        more[band].misses = added(&seen->misses, costs[band].misses);
        more[band].warm = added(&seen->warm, costs[band].warm);
        sum += more[band].locks + more[band].misses + more[band].warm;
    }
    if (sum == 0) return false;
    policy->looks++;
    elapsed_ms = hak_max(hak_min(elapsed_ms, HAK_POLICY_ELAPSED_MOST_MS), 1);
    for (unsigned band = 0; band < HAK_POLICY_BANDS; band++) {
        hak_shard_costs_t *rates = &policy->rates[band];
        average(&rates->locks, more[band].locks, elapsed_ms, policy->looks);
        average(&rates->misses, more[band].misses, elapsed_ms, policy->looks);
        average(&rates->warm, more[band].warm, elapsed_ms, policy->looks);
    }
    return true;
}

bool hak_policy_is_learned(unsigned band, hak_policy_profile_t profile, hak_policy_learn_t learn) {
    return band != HAK_BAND_C7 && profile == HAK_POLICY_AUTO && learn == HAK_LEARN_ON;
}

static uint64_t score_of(const hak_shard_costs_t *rates, bool has_bonus) {
    uint64_t score = LOCK_WEIGHT * rates->locks + rates->misses + WARM_WEIGHT * rates->warm;
    return has_bonus ? score + score / BONUS_OF : score;
}

/* The band with the highest score of those that may be learned and are not in `taken`;
 * HAK_POLICY_BANDS when no score reaches the minimum. */
static unsigned best_beside(const uint64_t *scores, uint32_t taken) {
    unsigned best = HAK_POLICY_BANDS;
    uint64_t least = HAK_POLICY_SCORE_LEAST;
    for (unsigned band = 0; band < HAK_BAND_C7; band++) {
        if ((taken >> band & 1) || scores[band] < least) continue;
        best = band;
        least = scores[band];
    }
    return best;
}

HAK_COMMON uint32_t hak_policy_fixed(hak_policy_profile_t profile) { return fixed[profile]; }

uint32_t hak_policy_choose(hak_policy_t *policy, uint32_t promoted, hak_policy_profile_t profile,
                           hak_policy_learn_t learn) {
    uint32_t bands = hak_policy_fixed(profile);
    for (unsigned band = 0; band < HAK_POLICY_BANDS; band++) {
        bool has_bonus = (promoted >> band & 1) && hak_policy_is_learned(band, profile, learn);
        policy->scores[band] = score_of(&policy->rates[band], has_bonus);
    }
    if (!hak_policy_is_learned(HAK_BAND_C0, profile, learn)) return bands;
    for (unsigned i = 0; i < HAK_POLICY_LEARNED; i++)
        bands |= 1u << best_beside(policy->scores, bands);
    return bands & UINT8_MAX; /* without the bit for "none" */
}
