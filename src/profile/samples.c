/* samples.c: the table of samples. */
#include "profile/samples.h"

#include "base/probe.h"
#include "cache/sampler.h"
#include "meta/meta.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/unwind.h"
#include "profile/peak.h"
#include "profile/site.h"

enum {
    LISTS_SHIFT = 20, /* lists; a page of the table is touched for 32 KiB of sampled blocks */
    LOCKS_SHIFT = 6,
    STEP_SHIFT = 6, /* blocks begin at multiples of 64 bytes */
};

struct hak_sample {
    hak_sample_t *next; /* lock */
    const void *block;
    hak_site_t *site;
    uint64_t weight, requested, born_ms;
    uintptr_t thread;
};

typedef struct {
    hak_lock_t lock;
} HAK_ALIGNED(HAK_LINE) lane_t;

_Atomic bool hak_sample_on;
hak_sample_stats_t hak_sample_stats;

static _Atomic(hak_sample_t *) *lists; /* constant once on; written under the lock of the lane */
static lane_t lanes[1 << LOCKS_SHIFT] HAK_APART;
HAK_LOCK_RANKS(lanes_rank, SAMPLES, lanes, sizeof lanes, sizeof(lane_t), NULL);

bool hak_sample_start(void) {
    lists = hak_os_map(sizeof *lists << LISTS_SHIFT, hak_os_page_size());
    if (lists) hak_store_release(&hak_sample_on, true); /* partner: hak_samples_on */
    return lists != NULL;
}

/* 1 / (1 - exp(-x)) for x = size / rate. With y = x / 1024 the series of 1 - exp(-y) needs four terms;
 * p becomes 1 - (1 - p)^2 ten times. Nothing cancels out where x is small. */
uint64_t hak_sample_weight(size_t size) {
    const double one = (double)(1u << HAK_SITE_WEIGHT_BITS);
    double x = (double)size / (double)hak_sampler_rate();
    if (x > 32 || hak_sampler_rate() == 1) return (uint64_t)one;
    double y = x / 1024, p = y * (1 - y / 2 * (1 - y / 3 * (1 - y / 4)));
    for (int i = 0; i < 10; i++) p *= 2 - p;
    return (uint64_t)(one / p + 0.5);
}

/* Adjacent blocks have adjacent lists. The address bits above 64 MiB count, too, since large blocks begin at multiples
 * of 4 KiB. */
static size_t index_of(const void *block) {
    uintptr_t at = (uintptr_t)block >> STEP_SHIFT;
    return (at ^ at >> LISTS_SHIFT) & (((size_t)1 << LISTS_SHIFT) - 1);
}

static hak_lock_t *lock_of(size_t index) {
    return &lanes[index >> 4 & ((1 << LOCKS_SHIFT) - 1)].lock;
}

static uint64_t scaled(uint64_t weight, uint64_t amount) {
    return (uint64_t)((unsigned __int128)weight * amount >> HAK_SITE_WEIGHT_BITS);
}

/* Inline, since a frame of HAKMEM costs the walk as much as one of the program. */
HAK_FAST_PATH hak_sample_t *make(const void *site, uint64_t weight, size_t requested,
                                 uint32_t class_size) {
    uintptr_t frames[HAK_SITE_DEPTH];
    unsigned depth = hak_os_unwind(site, frames, HAK_SITE_DEPTH);
    hak_site_t *place = hak_site_of(frames, depth, class_size);
    hak_sample_t *sample = hak_meta_alloc(sizeof *sample);
    if (!sample) return NULL;
    if (HAK_UNLIKELY(place == &hak_site_rest)) hak_add_relaxed(&hak_sample_stats.dropped, 1);
    *sample = (hak_sample_t){.site = place,
                             .weight = weight,
                             .requested = requested,
                             .born_ms = hak_os_now_ms(),
                             .thread = hak_os_thread()};
    return sample;
}

static void put_in(hak_sample_t *sample) {
    size_t index = index_of(sample->block);
    HAK_HOLD(lock_of(index));
    sample->next = hak_load_relaxed(&lists[index]);
    hak_store_relaxed(&lists[index], sample);
}

void hak_sample_miss(void) {
    hak_add_relaxed(&hak_sample_stats.unknown, 1);
    hak_add_relaxed(&hak_sample_stats.dropped, 1);
}

bool hak_sample_enter(const void *block, const void *site, size_t requested, size_t given,
                      uint32_t class_size) {
    uint64_t weight = hak_sample_weight(given);
    hak_sample_t *sample = make(site, weight, requested, class_size);
    if (!sample) {
        hak_sample_miss();
        return false;
    }
    sample->block = block;
    HAK_PROBE(sample, block, requested);
    hak_add_relaxed(&hak_sample_stats.taken, 1);
    hak_add_relaxed(&hak_sample_stats.live, 1);
    bool is_due = hak_peak_enter(sample->site, (hak_peak_t){weight, scaled(weight, requested)},
                                 sample->born_ms);
    put_in(sample); /* from here on another thread may remove it */
    return is_due;
}

void hak_sample_reach(const void *block) {
    hak_sample_t *sample = hak_sample_take(block);
    if (!sample) return;
    hak_site_add(sample->site, HAK_SITE_REACHED, sample->weight);
    hak_site_add(sample->site, HAK_SITE_REACHED_BYTES, scaled(sample->weight, sample->requested));
    put_in(sample);
}

/* Out of line, so that a look at an empty list saves no registers. */
static HAK_OUT_OF_LINE hak_sample_t *take_from(size_t index, const void *block) {
    HAK_HOLD(lock_of(index));
    hak_sample_t *before = NULL, *sample = hak_load_relaxed(&lists[index]);
    for (; sample && sample->block != block; sample = sample->next) before = sample;
    if (sample && before) before->next = sample->next;
    if (sample && !before) hak_store_relaxed(&lists[index], sample->next);
    return sample;
}

hak_sample_t *hak_sample_take(const void *block) {
    size_t index = index_of(block);
    return HAK_LIKELY(!hak_load_relaxed(&lists[index])) ? NULL : take_from(index, block);
}

void hak_sample_end(hak_sample_t *sample, bool stays) {
    if (stays) return put_in(sample);
    HAK_PROBE(sample_end, sample->block, sample->requested);
    hak_site_t *site = sample->site;
    hak_peak_leave(site, (hak_peak_t){sample->weight, scaled(sample->weight, sample->requested)});
    if (sample->thread != hak_os_thread()) hak_site_add(site, HAK_SITE_REMOTE, sample->weight);
    hak_site_add(site, HAK_SITE_LIFETIME_MS,
                 scaled(sample->weight, hak_os_now_ms() - sample->born_ms));
    hak_meta_free(sample, sizeof *sample);
    hak_add_relaxed(&hak_sample_stats.live, -(uint64_t)1);
}

size_t hak_sample_class_size(const hak_sample_t *sample) { return sample->site->size; }

void hak_sample_leave(const void *block) {
    hak_sample_t *sample = hak_sample_take(block);
    if (sample) hak_sample_end(sample, false);
}
