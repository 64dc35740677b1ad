/* whole_steps.h: what the threads of whole.c's scenarios do, as far as no other file has it. */
#pragma once

#include <string.h>
#include <sys/resource.h>

#include "cache/cpu_depot.h"
#include "hakmem.h"
#include "explore.h"
#include "forks.h"
#include "heaps.h"
#include "live_reader.h"
#include "meta/meta.h"
#include "process.h"
#include "program.h"
#include "purges.h"
#include "region/region.h"
#include "guard_sample.h"
#include "scenarios.h"
#include "thread/fork.h"
#include "thread/thread.h"

/* ---- The first calls of a process ------------------------------------------------------------ */

static void nothing_yet(void) { program_begin(); }
static void nothing_yet_on_an_old_kernel(void) {
    program_begin();
    process.names_no_mapping = true;
}
static void first_small(void) {
    program_malloc(0, SMALL);
    program_free(0);
    process_end_thread();
}
static void first_of_all_tiers(void) {
    program_malloc(1, SMALL);
    program_malloc(2, LARGE);
    program_malloc(3, HUGE);
    program_free_all(1, 3);
    process_end_thread();
}

/* A library's constructor has started a thread. The constructor of the engine made the region, as
 * does the libc that allocates for its threads. */
static void before_the_constructor(void) {
    program_begin();
    program_options(OPTIONS("LIVE=1", "STATS=json", "MID_DYN1=9000"));
    hak_region_prepare();
}
static void constructor(void) {
    process_start();
    program_malloc(0, SMALL);
}

/* As the constructor, beside a first cache. */
static void install_fork_handlers(void) { hak_fork_install(); }

/* ---- Blocks of all tiers --------------------------------------------------------------------- */

static void two_threads(void) { program_start(OPTIONS("SHARDS=0")); }
static void two_threads_of_a_shard(void) { program_start(OPTIONS("SHARDS=1", "CACHE_BUDGET=1K")); }

/* Blocks above 1 KiB are cut to measure as soon as the heap has grown. */
static void limit_addresses(void) {
    const rlim_t size = (rlim_t)1 << 38; /* four units: see SHORT_PART in mutants.py */
    EXPLORE_CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){size, size}) == 0, "no limit on addresses");
}
static void addresses_are_short(void) {
    limit_addresses();
    two_threads();
}

/* With the first growth of the heap, which one of the threads causes. */
static void addresses_become_short(void) {
    limit_addresses();
    program_begin();
}
static void use_fine(void) {
    program_malloc_all(0, 3, PAGES);
    program_malloc(3, RAGGED);
    program_free_all(0, 4);
    process_end_thread();
}
static void use_fine_too(void) {
    program_calloc(4, PAGES + 1);
    program_realloc(4, RAGGED);
    program_aligned(5, 4096, PAGES);
    program_free_all(4, 2);
    process_end_thread();
}

static void use_pages(void) {
    program_malloc_all(0, 3, PAGES);
    program_free_all(0, 3);
    process_end_thread();
}
static void use_other_pages(void) {
    program_malloc_all(8, 3, PAGES);
    program_free_all(8, 3);
    process_end_thread();
}
static void use_ragged(void) {
    program_malloc_all(0, 3, RAGGED);
    program_free_all(0, 3);
    process_end_thread();
}
static void use_other_ragged(void) {
    program_malloc_all(8, 3, RAGGED);
    program_free_all(8, 3);
    process_end_thread();
}
static void use_large(void) {
    program_malloc(0, LARGE);
    program_calloc(1, LARGE);
    program_free(0);
    program_realloc(1, 2 * LARGE);
    program_free(1);
}
static void use_other_large(void) {
    program_malloc(8, LARGE);
    program_free(8);
    program_aligned(9, 64 * KIB, LARGE);
    program_free(9);
}
static void lengthens_nothing(void) {
    program_start(OPTIONS("HUGE_CACHE=0"));
    process.lengthens_nothing = true;
}
static void use_huge(void) {
    program_malloc(0, HUGE);
    program_realloc(0, 2 * HUGE);
    program_free(0);
}
static void use_other_huge(void) {
    program_calloc(8, HUGE);
    program_realloc(8, 3 * HUGE);
    program_free(8);
}

/* A thread ends, and its cache waits with blocks; another one, which has a cache, empties that. */
static void leave_a_cache(void) {
    use_pages();
    program_post(0);
}
static void empty_a_cache(void) {
    program_malloc(8, PAGES);
    program_await(0);
    hakmem_malloc_trim(0);
}
static void await_and_begin(void) {
    program_await(0);
    program_malloc(16, PAGES);
    program_free(16);
    process_end_thread();
}
static void make_and_post(void) {
    program_malloc_all(0, 3, PAGES);
    program_malloc(3, LARGE);
    program_malloc(4, HUGE);
    program_post(0);
    program_malloc_all(5, 3, PAGES);
}
static void await_and_free(void) {
    program_await(0);
    program_free_all(0, 5);
    program_malloc_all(8, 3, PAGES);
    process_end_thread();
}

static void two_shards(void) { program_start(OPTIONS("SHARDS=2")); }
static void await_and_give(void) {
    program_await(0);
    program_free_all(0, 5);
    hakmem_malloc_trim(0);
}
static void others_first(void) { program_start(OPTIONS("SHARDS=2", "L25_PREF=remote")); }
static void send_large(void) {
    program_malloc(0, LARGE);
    program_post(0);
    program_await(1);
    program_malloc(2, LARGE);
}
static void free_large(void) {
    program_await(0);
    program_free(0);
    program_post(1);
}
static void small_rings(void) { program_start(OPTIONS("SHARDS=1", "POOL_RING_CAP=1")); }
static void empty_slabs(void) {
    program_malloc_all(0, 6, RAGGED);
    program_free_all(0, 6);
    program_malloc_all(0, 6, RAGGED);
}
static void set_threshold(void) {
    hakmem_mallopt(-3, 128 * KIB); /* M_MMAP_THRESHOLD */
    program_malloc(9, 200 * KIB);
}

/* Blocks that threads without a cache free. */
static void with_blocks(void) {
    program_start(OPTIONS("SHARDS=1"));
    program_malloc_all(0, 4, PAGES);
}
static void free_two(void) { program_free_all(0, 2); }
static void free_two_others(void) { program_free_all(2, 2); }

/* ---- Trim, statistics, options --------------------------------------------------------------- */

static void trim(void) { hakmem_malloc_trim(0); }
/* Bitmaps of slabs go to the process, and come back from there. */
static void give_bitmap(void) {
    enum { SIZE = 64 };
    void *bitmap = hak_meta_alloc_bitmap(SIZE);
    EXPLORE_CHECK(bitmap != NULL, "no bitmap");
    hak_meta_free_bitmap(bitmap, SIZE);
}
static void reuse_bitmap(void) {
    enum { SIZE = 64 };
    uint64_t *bitmap = hak_meta_reuse_bitmap(SIZE);
    if (!bitmap) return;
    EXPLORE_CHECK(bitmap != hak_meta_reuse_bitmap(SIZE), "a bitmap twice");
    hak_meta_free_bitmap(bitmap, SIZE);
}
static void read_figures(void) { program_figure("total.live"); }
static void verify(void) {
    EXPLORE_CHECK(hakmem_verify() == 0, "the records of the engine do not hold");
}
static void write_json(void) {
    static char text[4];
    hakmem_stats_json(text, sizeof text);
}
static void print_figures(void) {
    hakmem_malloc_stats();
    process.reports = 0; /* these are no errors */
}
static void with_budget(void) { program_start(OPTIONS("CACHE_BUDGET=64M")); }
static void set_budget(void) {
    EXPLORE_CHECK(hakmem_option_set("CACHE_BUDGET", "96M") == 0, "an option is refused");
}

/* Each cache has its part of what was set last, for the threads that there are. */
extern size_t hak_budget_of(hak_tier_t tier); /* an edit of mutants.py */
static void check_budgets(void) {
    size_t tiny = hak_budget_of(HAK_TINY), mid = hak_budget_of(HAK_MID);
    program_check();
    hak_thread_apply_options();
    EXPLORE_CHECK(tiny == hak_budget_of(HAK_TINY) && mid == hak_budget_of(HAK_MID),
                  "budgets of %zu and %zu bytes, not %zu and %zu", tiny, mid,
                  hak_budget_of(HAK_TINY), hak_budget_of(HAK_MID));
}

static void set_options(void) {
    EXPLORE_CHECK(hakmem_option_set("STATS", "text") == 0, "an option is refused");
    EXPLORE_CHECK(hakmem_option_set("PURGE_DELAY_MS", "0") == 0, "an option is refused");
    EXPLORE_CHECK(hakmem_option_set("TINY_POLICY_PROFILE", "c5_7_only") == 0, "one is refused");
}
static void get_options(void) {
    char value[16];
    struct hakmem_option info;
    set_options();
    EXPLORE_CHECK(hakmem_option_get("PURGE_DELAY_MS", value, sizeof value) == 0 &&
                      strcmp(value, "0") == 0,
                  "an option that was set is %s", value);
    for (size_t i = 0; hakmem_option_info(i, &info, sizeof info) == 0; i++) continue;
}
static void with_lifos(void) {
    program_start(OPTIONS("TLS_LO_MAX=8", "POOL_RING_CAP=1", "SHARDS=2"));
}
static void overflow(void) {
    program_malloc_all(0, 4, PAGES);
    program_free_all(0, 4);
    program_malloc_all(0, 2, PAGES);
}

/* More threads than CPUs, and a small share each: what leaves one ring comes to the other. */
static void with_depots_and(const char *shards) {
    program_begin();
    program_options(OPTIONS("CACHE_BUDGET=1M", "POOL_RING_CAP=1", shards));
    process.cpus = 1;
    process_start();
    hakmem_free(hakmem_malloc(1));
}
static void with_depots(void) { with_depots_and("SHARDS=2"); }
static void overflow_too(void) {
    program_malloc_all(32, 4, PAGES);
    program_free_all(32, 4);
    program_malloc_all(32, 2, PAGES);
}

/* Both threads take blocks on one CPU, and go on on another one, whose shard they make. */
static void with_depots_of_more_shards(void) { with_depots_and("SHARDS=8"); }
static void overflow_and_move(void) {
    program_malloc_all(0, 4, PAGES);
    process_move_thread();
    program_free_all(0, 4);
    program_malloc_all(0, 2, PAGES);
}
static void overflow_and_move_too(void) {
    program_malloc_all(32, 4, PAGES);
    process_move_thread();
    program_malloc_all(36, 2, PAGES);
    program_free_all(32, 4);
}

/* Two threads that get no cache, and one CPU. This class has eight blocks in a depot. */
static void with_novices(void) {
    with_depots();
    hak_depot_set_share(64 * KIB, true);
    hak_store_relaxed(&hak_depot_novice_calls, 1000);
}
static void with_full_depot(void) {
    with_novices();
    fill_depot();
}
static void overflow_depot(void) {
    program_malloc_all(0, 10, PAGES);
    program_free_all(0, 10);
    program_malloc_all(0, 3, PAGES);
}
static void overflow_depot_too(void) {
    program_malloc_all(32, 3, SMALL);
    program_free_all(32, 3);
}

/* ---- The bands ------------------------------------------------------------------------------- */

static void all_bands(void) {
    program_start(OPTIONS("TINY_POLICY_PROFILE=tinyplus_all", "SHARDS=1"));
    process.tick_ms = 300;
}
static void learning(void) {
    program_start(OPTIONS("SHARDS=1"));
    process.tick_ms = 300;
}

/* Three slabs in which used blocks are free: some are bound, and carved. */
static void bind_and_carve(void) {
    program_malloc_all(64, 96, WARM);
    program_free_all(64, 30);
    program_free_all(96, 30);
    program_free_all(128, 30);
    hakmem_malloc_trim(0);
    for (unsigned i = 0; i < 30; i += 10) program_malloc_all(64 + i, 10, WARM);
    process_end_thread();
}
static void use_warm(void) {
    program_malloc_all(32, 3, WARM);
    program_free_all(32, 3);
}
static void use_bands(void) {
    program_malloc_all(0, 4, SMALL);
    program_malloc_all(4, 4, WARM);
    program_free_all(0, 8);
}
static void use_bands_too(void) {
    program_malloc_all(32, 4, SMALL);
    program_malloc_all(36, 4, WARM);
    program_free_all(32, 8);
}
static void use_odd(void) {
    program_malloc_all(0, 10, 8300);
    program_free_all(0, 10);
}
static void use_odd_too(void) {
    program_malloc_all(32, 10, 8300);
    program_free_all(32, 10);
}
