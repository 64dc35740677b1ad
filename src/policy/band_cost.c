/* band_cost.c: samples the costs of the bands for the policy, now and then.
 *
 * Threads drive it by their slow calls. A sample is due 250 ms after the last one. So that a short
 * program learns, too, a sample is also due after 4, 8, 16, ... rounds of slow calls; since the
 * number doubles, these samples cost a long-running program nothing. A sample reads lines of all shards. So with more
 * than a few shards the number begins with some rounds of each shard and grows eightfold, and a sample has several
 * pieces; as soon as one is made, the next one is due.
 *
 * One thread samples at a time; a thread that finds the lock taken goes on without a sample. The
 * lock is innermost: no other lock is taken while it is held. */
#include "policy/band_cost.h"

#include <stdio.h>
#include <string.h>

#include "error/log.h"
#include "options/options.h"
#include "os/lock.h"
#include "shard/stats.h"

enum {
    INTERVAL_MS = 250,
    FIRST_ROUNDS = 4, /* before a first sample that is due by rounds */
    FEW_SHARDS = 4,
    ROUNDS_EACH = 16, /* the same for each shard, if they are more than FEW_SHARDS */
    ADDED_PART = 64,  /* a thread adds this part of the rounds until the next sample at once */
};

hak_band_cost_stats_t hak_band_cost_stats;

static hak_lock_t band_cost_lock;
HAK_LOCK_RANK(BAND_COST, band_cost_lock, NULL);
static _Atomic uint64_t next_ms HAK_READ_OFTEN; /* lock to write; when the next sample is due */
static _Atomic uint64_t next_rounds
    HAK_READ_OFTEN;                          /* lock to write; the same, in rounds; at first 0 */
static _Atomic uint64_t rounds HAK_OWN_LINE; /* atomic; rounds of slow calls, of all threads */
static hak_policy_t policy;                  /* lock */
static uint64_t last_ms;                     /* lock; time of the last sample */
static bool is_counting;                     /* lock; the last sample read the costs */
static hak_shard_costs_t sums[HAK_POLICY_BANDS]; /* lock; what a sample has read so far... */
static unsigned at;                              /* ...and where it goes on; 0: it begins */

static hak_policy_profile_t profile_now(void) {
    return (hak_policy_profile_t)hak_option(HAK_OPTION_TINY_POLICY_PROFILE);
}

static hak_policy_learn_t learn_now(void) {
    return (hak_policy_learn_t)hak_option(HAK_OPTION_LEARN);
}

/* ---- The log -------------------------------------------------------------------------------- */

/* NAME=value of the option that fixes the choice now. */
static int format_setting(char *text, size_t size) {
    bool by_learn = profile_now() == HAK_POLICY_AUTO && learn_now() != HAK_LEARN_ON;
    hak_option_t option = by_learn ? HAK_OPTION_LEARN : HAK_OPTION_TINY_POLICY_PROFILE;
    char value[32];
    hak_option_format_now(option, value, sizeof value);
    return snprintf(text, size, "by %s=%s", hak_option_row(option).name, value);
}

/* Why a band was promoted or demoted. */
static void format_reason(unsigned band, uint32_t bands, char *text, size_t size) {
    bool is_promoted = bands >> band & 1;
    if (!hak_policy_is_learned(band, profile_now(), learn_now())) {
        format_setting(text, size);
    } else if (is_promoted) {
        snprintf(text, size, "one of the %d best", HAK_POLICY_LEARNED);
    } else if (policy.scores[band] < HAK_POLICY_SCORE_LEAST) {
        snprintf(text, size, "below %d", HAK_POLICY_SCORE_LEAST);
    } else {
        uint32_t ahead = bands & ~(1u << HAK_BAND_C7);
        snprintf(text, size, "C%u and C%u are ahead", hak_lowest_bit(ahead),
                 hak_highest_bit(ahead));
    }
}

static void write_log(unsigned band, uint32_t before, uint32_t bands) {
    char reason[64];
    const hak_shard_costs_t *rates = &policy.rates[band];
    bool has_bonus =
        (before >> band & 1) && hak_policy_is_learned(band, profile_now(), learn_now());
    format_reason(band, bands, reason, sizeof reason);
    hak_log("policy: look %u: C%u %s, %s; score %llu = %s4 x %llu locks/s + %llu misses/s + "
            "5 x %llu warm hits/s%s",
            (unsigned)policy.looks, band, bands >> band & 1 ? "promoted" : "demoted", reason,
            (unsigned long long)policy.scores[band], has_bonus ? "1.5 x (" : "",
            (unsigned long long)rates->locks, (unsigned long long)rates->misses,
            (unsigned long long)rates->warm, has_bonus ? ")" : "");
}

/* ---- Sampling ------------------------------------------------------------------------------- */

/* Lock held, here and below. */
static void publish(uint32_t bands) {
    uint32_t before = hak_load_relaxed(&hak_policy_bands);
    hak_store_relaxed(&hak_policy_bands, bands);
    HAK_ADD_OWNED(&hak_band_cost_stats.promotions, hak_bit_count(bands & ~before));
    HAK_ADD_OWNED(&hak_band_cost_stats.demotions, hak_bit_count(before & ~bands));
    for (unsigned band = 0; band < HAK_POLICY_BANDS; band++) {
        hak_store_relaxed(&hak_band_cost_stats.scores[band], policy.scores[band]);
        if (((before ^ bands) >> band & 1) && hak_option(HAK_OPTION_TINY_POLICY_LOG))
            write_log(band, before, bands);
    }
}

static void choose(void) {
    uint32_t promoted = hak_load_relaxed(&hak_policy_bands);
    publish(hak_policy_choose(&policy, promoted, profile_now(), learn_now()));
}

/* Makes a piece of a sample; true at the end of it. */
static bool sample(uint64_t now_ms) {
    bool learns = learn_now() != HAK_LEARN_OFF;
    if (at == 0) memset(sums, 0, sizeof sums);
    if (learns && !hak_shard_add_costs(sums, &at)) return false;
    uint64_t elapsed_ms = now_ms - last_ms;
    last_ms = now_ms;
    if (learns && is_counting && hak_policy_learn(&policy, sums, elapsed_ms)) {
        HAK_ADD_OWNED(&hak_band_cost_stats.looks, 1);
        choose();
    }
    if (!is_counting) memcpy(policy.seen, sums, sizeof sums);
    is_counting = learns;
    at = 0;
    return true;
}

/* The rounds after which the next sample is due. */
static uint64_t rounds_due(void) {
    const unsigned shards = hak_shard_homes();
    const size_t first = shards > FEW_SHARDS ? (size_t)shards * ROUNDS_EACH : (size_t)FIRST_ROUNDS;
    return hak_max(hak_load_relaxed(&next_rounds), first);
}

static bool is_due_by_rounds(uint64_t rounds_now) { return rounds_now >= rounds_due(); }

static bool is_due(uint64_t now_ms, uint64_t rounds_now) {
    return now_ms >= hak_load_relaxed(&next_ms) || is_due_by_rounds(rounds_now);
}

/* Writes only what changes, since all slow calls read this line. */
static void set_next_ms(uint64_t ms) {
    if (hak_load_relaxed(&next_ms) != ms) hak_store_relaxed(&next_ms, ms);
}

/* While a sample is under way, its next piece is due. */
static void sample_when_due(uint64_t now_ms, uint64_t rounds_now) {
    if (!is_due(now_ms, rounds_now) || !hak_lock_try(&band_cost_lock)) return;
    if (is_due(now_ms, rounds_now)) {
        const unsigned shift = hak_shard_homes() > FEW_SHARDS ? 3 : 1;
        if (is_due_by_rounds(rounds_now)) hak_store_relaxed(&next_rounds, rounds_now << shift);
        set_next_ms(sample(now_ms) ? now_ms + INTERVAL_MS : 0);
    }
    hak_lock_release(&band_cost_lock);
}

/* The more rounds lie between two samples, the more of them a thread counts by itself before it
 * adds them to the shared sum. */
void hak_band_cost_tick(uint64_t now_ms, uint32_t *own) {
    if (!own) return hak_band_cost_pass(now_ms);
    const uint32_t added = *own + 1;
    const bool waits = added < rounds_due() / ADDED_PART;
    *own = waits ? added : 0;
    sample_when_due(now_ms, waits ? 0 : hak_add_relaxed(&rounds, added) + added);
}

void hak_band_cost_pass(uint64_t now_ms) { sample_when_due(now_ms, 0); }

/* Most programs have the default, with which hak_policy_bands is initialized: they write
 * nothing. */
HAK_COMMON void hak_band_cost_start(void) {
    if (hak_policy_fixed(profile_now()) != hak_load_relaxed(&hak_policy_bands))
        hak_band_cost_apply();
}

void hak_band_cost_apply(void) {
    HAK_HOLD(&band_cost_lock);
    if (learn_now() == HAK_LEARN_OFF) {
        memset(&policy, 0, sizeof policy);
        is_counting = false;
        at = 0;
    }
    choose();
}
