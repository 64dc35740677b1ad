/* guard_sample.c: what threads do on the hardened path, where blocks are sampled and under the profiler. */
#include "guard_sample.h"

#include "hakmem.h"
#include "explore.h"
#include "process.h"
#include "profile/peak.h"
#include "program.h"
#include "region/region.h"

/* ---- The hardened path ----------------------------------------------------------------------- */

#define HARDENED OPTIONS("PROFILE=HARDENED", "SHARDS=1", "QUARANTINE=1", "GUARD_UNITS=1")

void hardened(void) { program_start(HARDENED); }
void hardened_on_an_old_kernel(void) {
    hardened();
    process.guards_nothing = true;
}

/* A library's constructor has started a thread; see before_the_constructor. */
void before_the_hardened_path(void) {
    program_begin();
    program_options(HARDENED);
    hak_region_prepare();
}
void use_both_paths(void) {
    program_malloc(16, SMALL);
    program_realloc(16, SMALL - 1);
    program_malloc(17, LARGE);
    EXPLORE_CHECK(program_usable(16) >= SMALL - 1, "a block got too small");
    program_realloc(16, SMALL);
    program_free_all(16, 2);
    process_end_thread();
}

/* Units whose pages go beside the start of the path. */
void use_and_trim(void) {
    program_malloc_all(16, 3, PAGES);
    program_free_all(16, 3);
    hakmem_malloc_trim(0);
}
/* Blocks of malloc are deleted, which a library with operators of its own explains (an edit of mutants.py). */
void delete_malloced(void) {
    program_malloc_all(0, 2, SMALL);
    program_delete(0);
    program_delete(1);
}
void delete_malloced_too(void) {
    program_malloc(8, SMALL);
    program_delete(8);
}
void use_nothing(void) {
    program_malloc_all(0, 2, 0);
    program_free_all(0, 2);
}
void use_nothing_too(void) {
    program_malloc_all(8, 2, 0);
    program_realloc(8, SMALL);
    program_free_all(8, 2);
}
void make_small_and_post(void) {
    program_malloc(0, SMALL);
    program_malloc(1, LARGE);
    program_post(0);
    program_malloc(2, SMALL);
}
void await_and_resize(void) {
    program_await(0);
    program_realloc(0, SMALL - 10);
    program_realloc(1, 2 * LARGE);
    program_free_all(0, 2);
}

/* One call in two gets a page of its own. */
void sampled(void) { program_start(OPTIONS("GUARD_SAMPLE=2", "SHARDS=1")); }
void sampled_on_an_old_kernel(void) {
    program_begin();
    process.guards_nothing = true;
    program_options(OPTIONS("GUARD_SAMPLE=1", "SHARDS=1"));
    process_start();
    hakmem_free(hakmem_malloc(1));
}
void before_sampling(void) {
    program_begin();
    program_options(OPTIONS("GUARD_SAMPLE=1", "SHARDS=1"));
    hak_region_prepare();
}
void make_sampled_and_post(void) {
    program_malloc_all(0, 5, SMALL);
    program_aligned(5, 64, SMALL);
    program_post(0);
    program_calloc(6, SMALL);
    program_realloc(6, 2 * SMALL);
    program_free(6);
}
void await_and_free_sampled(void) {
    program_malloc_all(8, 3, SMALL);
    program_free(8);
    program_await(0);
    program_realloc(0, SMALL + 1);
    program_free_all(0, 6);
    process_end_thread();
}

/* ---- The heap profiler ----------------------------------------------------------------------- */

#define PROFILED OPTIONS("PROF=1", "PROF_RATE=1", "SHARDS=1", "PURGE_THREAD=0")

void profiled(void) { program_start(PROFILED); }
void hardened_and_profiled(void) {
    program_start(OPTIONS("PROFILE=HARDENED", "QUARANTINE=1", "GUARD_UNITS=1", "PROF=1",
                          "PROF_RATE=1", "SHARDS=1", "PURGE_THREAD=0"));
}

/* See before_the_constructor. */
void before_the_profile(void) {
    program_begin();
    program_options(PROFILED);
    hak_region_prepare();
}
void make_samples(void) {
    program_malloc_all(0, 2, SMALL);
    program_malloc(2, LARGE);
    program_post(0);
    hakmem_prof_dump(NULL); /* there are no files */
}
void sample_at_one_site(void) {
    unsigned slot = 16 * explore_thread();
    program_malloc_all(slot, 2, SMALL);
    program_free_all(slot, 2);
}

static uint64_t sum_of_peaks;

static bool check_site(const hak_site_t *site, void *unused) {
    (void)unused;
    hak_peak_t had = hak_peak_of(site);
    uint64_t all = hak_load_relaxed(&site->sums[HAK_SITE_ALLOC_OBJECTS]) >> HAK_SITE_WEIGHT_BITS;
    bool alike = hak_load_relaxed(&site->sums[HAK_SITE_ALLOC_BYTES]) == all * SMALL;
    sum_of_peaks += had.bytes;
    EXPLORE_CHECK(!alike || had.bytes == (had.objects >> HAK_SITE_WEIGHT_BITS) * SMALL,
                  "at the peak a site has %lu bytes in %lu blocks", (unsigned long)had.bytes,
                  (unsigned long)(had.objects >> HAK_SITE_WEIGHT_BITS));
    return true;
}

/* What sites had at the peak is the peak, but for a block that the other thread had in hand. Before the check of the
 * program, which allocates more. */
void check_peaks(void) {
    sum_of_peaks = 0;
    hak_site_each(check_site, NULL);
    uint64_t peak = hak_peak_bytes();
    EXPLORE_CHECK(peak >= 2 * SMALL && sum_of_peaks <= peak + SMALL && sum_of_peaks + SMALL >= peak,
                  "the peak is %lu bytes, and sites had %lu", (unsigned long)peak,
                  (unsigned long)sum_of_peaks);
    program_check();
}

/* A site that rests while its peak's number would come again (mutants.py makes it short). */
void rest_at_a_peak(void) {
    program_malloc(0, SMALL);
    program_free(0);
    program_post(0);
}
void make_peaks(void) {
    program_malloc(16, PAGES);
    program_await(0);
    program_malloc_all(17, 4, PAGES);
}
void check_all_at_peak(void) {
    sum_of_peaks = 0;
    hak_site_each(check_site, NULL);
    EXPLORE_CHECK(sum_of_peaks == hak_peak_bytes(), "the peak is %lu bytes, and sites had %lu",
                  (unsigned long)hak_peak_bytes(), (unsigned long)sum_of_peaks);
    program_check();
}
void free_samples(void) {
    program_malloc(8, SMALL);
    program_await(0);
    program_free_all(0, 3);
    program_free(8);
    hakmem_prof_dump(NULL);
}
