/* whole.c: the whole engine, in the orders of a few threads with few preemptions.
 *
 *   whole             every scenario must hold
 *   whole --heavy     the long ones, too
 *   whole --broken    the sources were broken on purpose: some scenario must fail */
#include <string.h>
#include <sys/resource.h>

#include "cache/cpu_depot.h"
#include "hakmem.h"
#include "explore.h"
#include "forks.h"
#include "heaps.h"
#include "live_reader.h"
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
static void with_depots(void) {
    program_begin();
    program_options(OPTIONS("CACHE_BUDGET=1M", "POOL_RING_CAP=1", "SHARDS=2"));
    process.cpus = 1;
    process_start();
    hakmem_free(hakmem_malloc(1));
}
static void overflow_too(void) {
    program_malloc_all(32, 4, PAGES);
    program_free_all(32, 4);
    program_malloc_all(32, 2, PAGES);
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

/* ---- The table ------------------------------------------------------------------------------- */

/* The short dose of the unbroken sources has fewer: short_dose. */
static explore_bounds_t some = {.preemptions = 1, .most = 100, .samples = 60};
static const explore_bounds_t many = {.preemptions = 2, .most = 4000, .samples = 2000};

#define CHECKED(check, how) .finally = check, .describe = program_describe, how
#define RULES CHECKED(program_check, .bounds = &some)
#define RULES_OF_HEAP CHECKED(check_heap, .bounds = &some)
#define RULES_OF_NOVICES CHECKED(check_depots_of_child, .bounds = &some)
#define LONG CHECKED(program_check, .bounds = &many), .heavy = true

static const explore_scenario_t scenarios[] = {
    {"two threads allocate first", nothing_yet, {first_small, first_of_all_tiers}, RULES},
    {"two threads allocate first, on an old kernel",
     nothing_yet_on_an_old_kernel,
     {first_of_all_tiers, first_small},
     RULES},
    {"the constructor, and a thread is there",
     before_the_constructor,
     {constructor, first_of_all_tiers},
     RULES},
    {"fork handlers are installed", nothing_yet, {install_fork_handlers, first_small}, RULES},
    {"blocks of pages", two_threads, {use_pages, use_other_pages}, RULES},
    {"blocks that have a slab each", two_threads, {use_ragged, use_other_ragged}, RULES},
    {"a cache that waits is emptied",
     two_threads,
     {leave_a_cache, empty_a_cache, await_and_begin},
     RULES},
    {"caches that wait, and trim", two_threads, {use_pages, use_other_pages, trim}, RULES},
    {"budgets are shared",
     with_budget,
     {use_pages, set_budget},
     CHECKED(check_budgets, .bounds = &some)},
    {"small budgets", two_threads_of_a_shard, {use_pages, use_other_pages}, RULES},
    {"addresses are short", addresses_are_short, {use_fine, use_fine_too, verify}, RULES},
    {"addresses become short", addresses_become_short, {use_fine, use_fine_too}, RULES},
    {"a heap of the program's own, blocks of another thread, and statistics",
     with_heap,
     {fill_heap_and_post, await_and_free_of_heap, read_figures},
     RULES_OF_HEAP},
    {"a heap becomes empty beside requests",
     without_blocks,
     {use_heap, use_heap_too, verify},
     RULES_OF_HEAP},
    {"huge blocks of a heap",
     with_limit,
     {huge_of_heap, huge_of_heap_too, list_heaps},
     RULES_OF_HEAP},
    {"a heap is emptied beside huge blocks",
     with_reports,
     {huge_and_free_one, empty_heap},
     CHECKED(check_empty_heap, .bounds = &some)},
    {"a heap is emptied beside zeroes",
     without_records,
     {zeroes_of_heap, empty_heap_and_allocate},
     CHECKED(check_left_heap, .bounds = &some)},
    {"a heap is emptied beside copies",
     without_records,
     {copies_to_heap, empty_heap_and_allocate},
     CHECKED(check_left_heap, .bounds = &some)},
    {"a heap is emptied beside samples",
     with_samples,
     {blocks_of_heap, empty_heap_and_allocate},
     CHECKED(check_left_heap, .bounds = &some)},
    {"a heap is emptied beside debug records",
     with_records,
     {blocks_of_heap, empty_heap_and_allocate},
     CHECKED(check_left_heap, .bounds = &some)},
    {"a block is in flight, and a fork",
     without_records,
     {zeroes_of_heap, fork_beside_flight},
     CHECKED(check_forked_heap, .bounds = &some)},
    {"blocks of a heap are resized",
     with_heap,
     {resize_in_heap, huge_of_heap_too, use_heap_too},
     RULES_OF_HEAP},
    {"a heap is emptied beside a huge block that is resized",
     with_reports,
     {resize_huge_only, empty_heap},
     CHECKED(check_empty_heap, .bounds = &some)},
    {"heaps begin and end",
     two_threads,
     {begin_and_end_heaps, begin_and_end_heaps_too, list_heaps},
     RULES_OF_HEAP},
    {"a block of a heap is freed twice",
     with_one_block,
     {free_one_block, free_one_block},
     CHECKED(check_one_report, .bounds = &some)},
    {"a heap, and a fork",
     with_heap,
     {use_heap_and_fork, use_heap_too, thread_of_child},
     RULES_OF_HEAP,
     .later = 1 << 3},
    {"large blocks", two_threads, {use_large, use_other_large}, RULES},
    {"huge blocks", two_threads, {use_huge, use_other_huge}, RULES},
    {"huge blocks that do not grow", lengthens_nothing, {use_huge, use_other_huge}, RULES},
    {"blocks of another thread", two_threads, {make_and_post, await_and_free}, RULES},
    {"blocks of another shard, and statistics",
     two_shards,
     {make_and_post, await_and_give, read_figures},
     RULES},
    {"large blocks of another thread, and statistics",
     others_first,
     {send_large, free_large, read_figures},
     RULES},
    {"empty slabs are kept, and statistics", small_rings, {empty_slabs, read_figures}, RULES},
    {"frees without a cache", with_blocks, {free_two, free_two_others}, RULES},
    {"a threshold is set", two_threads, {use_large, set_threshold}, RULES},
    {"the hardened path, and statistics",
     hardened,
     {make_and_post, await_and_free, read_figures},
     RULES},
    {"the hardened path, large blocks",
     hardened,
     {use_large, use_other_large, read_figures},
     RULES},
    {"the hardened path, huge blocks", hardened, {use_huge, use_other_huge, read_figures}, RULES},
    {"the hardened path begins, and a thread is there",
     before_the_hardened_path,
     {constructor, use_both_paths},
     RULES},
    {"the hardened path, guards on an old kernel",
     hardened_on_an_old_kernel,
     {use_large, use_other_large},
     RULES},
    {"the hardened path, blocks of size 0", hardened, {use_nothing, use_nothing_too}, RULES},
    {"the hardened path, blocks of another thread are resized, and statistics",
     hardened,
     {make_small_and_post, await_and_resize, read_figures},
     RULES},
    {"trim", two_threads, {make_and_post, await_and_free, trim}, RULES},
    {"statistics", two_threads, {use_pages, read_figures, write_json}, RULES},
    {"reports, and statistics", two_threads, {print_figures, print_figures, read_figures}, RULES},
    {"verification", two_threads, {use_pages, verify, verify}, RULES},
    {"options", two_threads, {set_options, get_options, use_pages}, RULES},
    {"lifos, and statistics", with_lifos, {overflow, read_figures}, RULES},
    {"depots, and statistics", with_depots, {overflow, overflow_too, read_figures}, RULES},
    {"depots are swept", with_depots, {overflow, overflow_too, trim}, RULES},
    {"novices, and statistics",
     with_novices,
     {overflow_depot, overflow_depot_too, read_figures},
     RULES},
    {"novices, and trim", with_novices, {overflow_depot, overflow_depot_too, trim}, RULES},
    {"bands are chosen", learning, {use_bands, use_bands_too, set_options}, RULES},
    {"warm slabs, and statistics", all_bands, {bind_and_carve, use_warm, read_figures}, RULES},
    {"blocks are sampled", profiled, {make_samples, free_samples}, RULES},
    {"blocks are sampled on the hardened path",
     hardened_and_profiled,
     {make_samples, free_samples},
     RULES},
    {"blocks are sampled at one site",
     profiled,
     {sample_at_one_site, sample_at_one_site},
     CHECKED(check_peaks, .bounds = &some)},
    {"the profiler begins, and a thread is there",
     before_the_profile,
     {constructor, first_of_all_tiers},
     RULES},
    {"the dynamic class is found", two_threads, {use_odd, use_odd_too}, RULES},
    {"the heap grows", grow_soon, {grow, grow_too}, RULES},
    {"the heap grows, and is shown", grow_soon, {grow, show_superslabs}, RULES},
    {"purges at once", purge_at_once, {fill_and_empty, fill_and_empty_too}, RULES},
    {"units are purged beside requests", some_ragged, {free_and_purge, take_ragged}, RULES},
    {"units that are held", hold_units, {fill_and_empty, fill_and_empty_too}, RULES},
    {"purges under pressure", under_pressure, {fill_and_empty, fill_and_empty_too}, RULES},
    {"more CPUs", more_cpus, {fill_and_empty_too, use_all}, RULES},
    {"the helper purges",
     with_helper,
     {fill_and_empty, fill_and_empty_too, no_thread, process_helper},
     RULES,
     .later = 1 << HELPER,
     .daemons = 1 << HELPER},
    {"a fork", two_threads, {use_and_fork, use_all, thread_of_child}, RULES, .later = 1 << 3},
    {"two forks", two_threads, {use_and_fork, fork_too, thread_of_child}, RULES, .later = 1 << 3},
    {"a novice takes blocks, and a fork",
     with_full_depot,
     {take_from_depot, fork_beside},
     RULES_OF_NOVICES},
    {"a novice gives blocks, and a fork",
     with_full_depot,
     {give_to_depot, fork_beside},
     RULES_OF_NOVICES},
    {"the live page",
     watched,
     {use_watched, use_watched_too, live_reader_read},
     CHECKED(check_watched, .bounds = &some)},
    {"sampled blocks of another thread, and statistics",
     sampled,
     {make_sampled_and_post, await_and_free_sampled, read_figures},
     RULES},
    {"sampled blocks on an old kernel",
     sampled_on_an_old_kernel,
     {make_sampled_and_post, await_and_free_sampled},
     RULES},
    {"sampling begins, and a thread is there",
     before_sampling,
     {constructor, use_both_paths},
     RULES},
    {"blocks of another thread, longer", two_threads, {make_and_post, await_and_free}, LONG},
    {"purges at once, longer", purge_at_once, {fill_and_empty, fill_and_empty_too}, LONG},
};

static void short_dose(void) {
    some.most = 40;
    some.samples = 24;
}

/* One scenario alone has the time for every order with one preemption. */
static void long_dose(void) {
    some.most = 2000;
    some.samples = 1000;
}

int main(int argc, char **argv) {
    if (argc < 2) short_dose();
    if (argc > 2) long_dose();
    process_make();
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
