/* policy.h: which bands of the tiny tier use warm slabs.
 *
 * By default threads refill all bands from shards, under a lock. A band whose magazines are
 * often empty is promoted: threads may then bind warm slabs of its classes and refill from
 * them without a lock. This file decides on given numbers; band_cost.c gathers them.
 *
 *   score = 4 x locks + misses + 5 x warm hits, each per second, averaged over the
 *           last looks; times 1.5 for a band that is promoted by its score
 *
 * A promotion must not lower the score that led to it: a refill from a warm slab saves a lock
 * and a miss, so it counts as one of each. The factor of 1.5 is a hysteresis; it stops two
 * bands of about the same cost from oscillating. A band is promoted when its score is one of
 * the two highest and at least HAK_POLICY_SCORE_LEAST, so this one number, shown in the
 * statistics, explains each decision. */
#pragma once

#include "base/base.h"
#include "classes/classes.h"
#include "shard/stats.h"

enum {
    HAK_POLICY_BANDS = HAK_BAND_MID,  /* C0..C7 */
    HAK_POLICY_LEARNED = 2,           /* bands that are promoted by their score, beside C7 */
    HAK_POLICY_SCORE_LEAST = 1000,    /* below it the cost of a band's locks is negligible */
    HAK_POLICY_ELAPSED_MOST_MS = 500, /* the rest of a longer interval counts as idle time */
};

/* The words that the options TINY_POLICY_PROFILE and LEARN take, in their order. */
typedef enum {
    HAK_POLICY_LEGACY,
    HAK_POLICY_C5_7_ONLY,
    HAK_POLICY_TINYPLUS_ALL,
    HAK_POLICY_AUTO
} hak_policy_profile_t;
typedef enum { HAK_LEARN_OFF, HAK_LEARN_OBSERVE, HAK_LEARN_ON } hak_policy_learn_t;

/* The state that the policy keeps between two looks. */
typedef struct {
    hak_shard_costs_t seen[HAK_POLICY_BANDS];  /* totals at the last look */
    hak_shard_costs_t rates[HAK_POLICY_BANDS]; /* per second, averaged */
    uint64_t scores[HAK_POLICY_BANDS];         /* as of the last comparison */
    uint32_t looks;                            /* looks at which some cost had grown */
} hak_policy_t;

/* Takes in the present costs, `elapsed_ms` after the last look. False when no cost has grown
 * since; the rates then stay as they were. */
bool hak_policy_learn(hak_policy_t *policy, const hak_shard_costs_t *costs, uint64_t elapsed_ms);

/* The bands that a profile promotes regardless of their scores, one bit each. */
uint32_t hak_policy_fixed(hak_policy_profile_t profile);

/* Computes the scores and returns the bands to promote, one bit each; `promoted` are the bands
 * promoted at present. Of two bands with the same score the one with larger blocks wins. */
uint32_t hak_policy_choose(hak_policy_t *policy, uint32_t promoted, hak_policy_profile_t profile,
                           hak_policy_learn_t learn);

/* True when the score of a band decides whether it is promoted, not a setting. */
bool hak_policy_is_learned(unsigned band, hak_policy_profile_t profile, hak_policy_learn_t learn);

extern _Atomic uint32_t hak_policy_bands; /* promoted bands, a bit each; any thread reads it */

/* True when the band of a class is promoted: its threads may bind slabs. */
HAK_FAST_PATH bool hak_policy_promoted(unsigned class_index) {
    return (hak_load_relaxed(&hak_policy_bands) >> hak_bands[class_index] & 1) != 0;
}
