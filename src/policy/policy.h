/* policy.h: which bands of the tiny tier use warm slabs.
 *
 * Bands are on the shared shards by default. Where a band's threads often find their
 * caches empty, the policy promotes it: its threads may bind slabs, and then refill
 * without a lock. This file decides on given numbers; thread/sampler.c gathers them.
 *
 *   score = 4 x locks + misses + 5 x warm hits, each per second, averaged over the
 *           last looks; half as much again for a band that is promoted by its score
 *
 * Promotion must not undo itself: a refill that a warm slab serves has saved a lock and
 * a miss, so it counts as one of each. Nor must chance: the half on top keeps two bands
 * that cost about the same from taking turns. A band is promoted when its score is one
 * of the two best and at least HAK_POLICY_SCORE_LEAST, so one number in the statistics
 * shows why a band is where it is. */
#ifndef HAK_POLICY_H
#define HAK_POLICY_H

#include "base/base.h"
#include "classes/classes.h"

enum {
    HAK_POLICY_BANDS = HAK_BAND_MID,  /* C0..C7 */
    HAK_POLICY_LEARNED = 2,           /* bands that are promoted by their score, beside C7 */
    HAK_POLICY_SCORE_LEAST = 1000,    /* below it a band's locks cost nothing to speak of */
    HAK_POLICY_ELAPSED_MOST_MS = 500, /* a longer pause was no work */
};

/* The words of TINY_POLICY_PROFILE and of LEARN. */
typedef enum {
    HAK_POLICY_LEGACY,
    HAK_POLICY_C5_7_ONLY,
    HAK_POLICY_TINYPLUS_ALL,
    HAK_POLICY_AUTO
} hak_policy_profile_t;
typedef enum { HAK_LEARN_OFF, HAK_LEARN_OBSERVE, HAK_LEARN_ON } hak_policy_learn_t;

/* What a band has cost since the process began, or costs in a second. */
typedef struct {
    uint64_t locks;  /* of its shard bins */
    uint64_t misses; /* refills that took blocks of a shard */
    uint64_t warm;   /* refills that a warm slab served, without the lock */
} hak_policy_costs_t;

/* What the policy remembers from look to look. */
typedef struct {
    hak_policy_costs_t seen[HAK_POLICY_BANDS];  /* at the last look */
    hak_policy_costs_t rates[HAK_POLICY_BANDS]; /* a second, averaged */
    uint64_t scores[HAK_POLICY_BANDS];          /* as they were compared last */
    uint32_t looks;                             /* that found something done */
} hak_policy_t;

/* The costs now, `elapsed_ms` after the last look. False when nothing was done since:
 * then all is left as it was. */
bool hak_policy_learn(hak_policy_t *policy, const hak_policy_costs_t *costs, uint64_t elapsed_ms);

/* The bands that a profile promotes whatever their scores are, a bit each. */
uint32_t hak_policy_fixed(hak_policy_profile_t profile);

/* Sets the scores and returns the bands to promote, a bit each; `promoted` are those
 * that are now. Of two bands with one score, that of the larger blocks is first. */
uint32_t hak_policy_choose(hak_policy_t *policy, uint32_t promoted, hak_policy_profile_t profile,
                           hak_policy_learn_t learn);

/* True when a band was or will be promoted for its score, not by a setting. */
bool hak_policy_is_learned(unsigned band, hak_policy_profile_t profile, hak_policy_learn_t learn);

extern _Atomic uint32_t hak_policy_bands; /* bit per band; any thread may read it */

/* True when the band of a class is promoted: its threads may bind slabs. */
HAK_FAST_PATH bool hak_policy_promoted(unsigned class_index) {
    return (hak_load_relaxed(&hak_policy_bands) >> hak_bands[class_index] & 1) != 0;
}

#endif
