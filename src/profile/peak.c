/* peak.c: counts what is in use, and keeps what it was at the peak. */
#include "profile/peak.h"

#include "options/options.h"
#include "os/lock.h"

enum { LOCKS_SHIFT = 6 };

typedef struct {
    hak_lock_t lock;
} HAK_ALIGNED(HAK_LINE) lane_t;

static lane_t lanes[1 << LOCKS_SHIFT] HAK_APART;
HAK_LOCK_RANKS(lanes_rank, SAMPLES, lanes, sizeof lanes, sizeof(lane_t), NULL);

/* The low bits of the number of the present peak, and the gap (peak.h). */
static _Atomic uint64_t state;
/* Half turns of those bits, or one less; the highest of the bits tells which. */
static _Atomic uint64_t halves;
enum { GAP_BITS = 44, HALF_BITS = 64 - GAP_BITS - 1 };
static const uint64_t gap_mask = ((uint64_t)1 << GAP_BITS) - 1;
static const uint64_t half_mask = ((uint64_t)1 << HALF_BITS) - 1;

static _Atomic uint64_t peak_bytes, peak_ms, allocated;

uint64_t hak_peak_bytes(void) { return hak_load_relaxed(&peak_bytes); }
uint64_t hak_peak_ms(void) { return hak_load_relaxed(&peak_ms); }

/* True when `half` is one less than the half turns of the number. */
static bool is_behind(uint64_t half, uint64_t number) { return (half ^ number >> HALF_BITS) & 1; }

/* The whole number of the present peak, which no other peak gets; not 0. */
static uint64_t present(void) {
    uint64_t now = hak_load_acquire(&halves), half, number;
    do {
        half = now;
        number = hak_load_acquire(&state) >> GAP_BITS;
        now = hak_load_acquire(&halves); /* partner: turn */
    } while (HAK_UNLIKELY(now != half));
    return 1 + ((half + is_behind(half, number)) << HALF_BITS | (number & half_mask));
}

/* Called after a peak has begun: raises `halves` if it is behind. */
static void turn(void) {
    uint64_t half = hak_load_acquire(&halves);
    if (HAK_UNLIKELY(is_behind(half, hak_load_relaxed(&state) >> GAP_BITS)))
        hak_cas_release(&halves, &half, half + 1); /* partner: present */
}

static hak_lock_t *lock_of(const hak_site_t *site) {
    return &lanes[site->hash >> (64 - LOCKS_SHIFT)].lock;
}

/* Reads the freed ones first, since each of them was allocated before. */
static uint64_t left(const hak_site_t *site, hak_site_sum_t all, hak_site_sum_t freed) {
    uint64_t gone = hak_load_acquire(&site->sums[freed]); /* partner: change */
    uint64_t made = hak_load_acquire(&site->sums[all]);
    return made - hak_min(gone, made);
}

static hak_peak_t has_now(const hak_site_t *site) {
    return (hak_peak_t){left(site, HAK_SITE_ALLOC_OBJECTS, HAK_SITE_FREED_OBJECTS),
                        left(site, HAK_SITE_ALLOC_BYTES, HAK_SITE_FREED_BYTES)};
}

/* Adds to two sums of a site. The site first keeps its present values, unless it has kept some for this peak. */
static void change(hak_site_t *site, hak_site_sum_t objects, hak_site_sum_t bytes,
                   hak_peak_t block) {
    HAK_HOLD(lock_of(site));
    uint64_t number = present();
    if (hak_load_relaxed(&site->peak) != number) {
        hak_peak_t has = has_now(site);
        hak_store_relaxed(&site->peak_objects, has.objects);
        hak_store_relaxed(&site->peak_bytes, has.bytes);
        hak_store_release(&site->peak, number); /* partner: hak_peak_of */
    }
    hak_add_release(&site->sums[objects], block.objects); /* partner: left */
    hak_add_release(&site->sums[bytes], block.bytes);
}

/* True when a multiple of the option's bytes lies between the two numbers. */
static bool crosses(uint64_t before, uint64_t after, hak_option_t option) {
    uint64_t step = (uint64_t)hak_option(option);
    return step && before / step != after / step;
}

/* Notes that `bytes` more are in use; returns the bytes by which the peak grows. */
static uint64_t raise(uint64_t bytes) {
    uint64_t now = hak_load_relaxed(&state), next, beyond;
    do {
        uint64_t gap = now & gap_mask;
        beyond = bytes - hak_min(gap, bytes);
        next = beyond ? (now | gap_mask) + 1 : now - bytes;
    } while (!hak_cas_weak_release(&state, &now, next));
    if (beyond) turn();
    return beyond;
}

static void lower(uint64_t bytes) {
    uint64_t now = hak_load_relaxed(&state), next;
    do next = now + hak_min(bytes, gap_mask - (now & gap_mask));
    while (!hak_cas_weak_release(&state, &now, next));
}

bool hak_peak_enter(hak_site_t *site, hak_peak_t block, uint64_t now_ms) {
    change(site, HAK_SITE_ALLOC_OBJECTS, HAK_SITE_ALLOC_BYTES, block);
    uint64_t before = hak_add_relaxed(&allocated, block.bytes);
    bool due = crosses(before, before + block.bytes, HAK_OPTION_PROF_INTERVAL);
    uint64_t beyond = raise(block.bytes);
    if (!beyond) return due;
    hak_store_relaxed(&peak_ms, now_ms);
    before = hak_add_relaxed(&peak_bytes, beyond);
    return due || crosses(before, before + beyond, HAK_OPTION_PROF_GROWTH);
}

void hak_peak_leave(hak_site_t *site, hak_peak_t block) {
    change(site, HAK_SITE_FREED_OBJECTS, HAK_SITE_FREED_BYTES, block);
    lower(block.bytes);
}

hak_peak_t hak_peak_of(const hak_site_t *site) {
    if (hak_load_acquire(&site->peak) != present()) {
        hak_peak_t has = has_now(site);
        if (hak_load_acquire(&site->peak) != present()) return has;
    }
    return (hak_peak_t){hak_load_relaxed(&site->peak_objects), hak_load_relaxed(&site->peak_bytes)};
}
