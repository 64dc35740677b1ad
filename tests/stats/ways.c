/* ways.c - programs that move the figures of the debug build, and the sums that must hold between them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "trials.h"

#if HAKMEM_DEBUG

enum { MID_SIZE = 10000, CLASSES_STEP = 8 };

/* ---- Refills --------------------------------------------------------------------------------- */

/* Classes that nobody has used. */
static void hold_one_of_each(void) {
    for (size_t size = CLASSES_STEP; size <= 1024; size += CLASSES_STEP) kept = API(malloc)(size);
}

static void *allocate_one(void *size) {
    kept = API(malloc)(*(const size_t *)size);
    return NULL;
}

/* Both shards have slabs of the class, in which nothing has been freed. */
static void hold_beside_another_shard(void) {
    size_t size = SIZE;
    in_a_thread(allocate_one, &size);
    hold();
}

/* A warm slab of this shard has no used block left. While it is bound, the other shard cannot know that, and looks
 * there before it uses fresh blocks of its own. */
static void *allocate_many(void *unused) {
    for (int i = 0; i < COUNT; i++) kept = API(malloc)(SIZE);
    return unused;
}

static void hold_beside_warm_slabs(void) {
    refill_warm_to(COUNT * 3 / 5); /* so many that one is used up, and is still bound */
    in_a_thread(allocate_many, NULL);
}

/* What is committed already stays, and slabs with free blocks are still used. */
static void use_up_memory(void) {
    CHECK(hakmem_option_set("LIMIT", "1M") == 0, "there is no limit");
    for (int i = 0; i < COUNT && API(malloc)(MID_SIZE); i++) continue;
}

static void *allocate_without_memory(void *unused) {
    kept = API(malloc)(8); /* its cache */
    use_up_memory();
    CHECK(kept = API(malloc)(SIZE), "the other shard's slab is not used");
    return unused;
}

static void hold_in_another_shard_without_memory(void) {
    in_a_thread(allocate_without_memory, NULL);
}

static void hold_zeroed(void) {
    for (int i = 0; i < 10; i++) kept = API(calloc)(1, 5000);
}

static void swing_mid(void) {
    for (int round = 0; round < 10; round++) {
        allocate_some(200, MID_SIZE);
        free_some(200);
    }
}

/* ---- Frees ----------------------------------------------------------------------------------- */

/* After the engine's own end of the thread, since its key is older. */
static void use_late(void *block) {
    API(free)(block);
    kept = API(malloc)(SIZE);
}

static void *end_with_a_block(void *key) {
    pthread_setspecific(*(const pthread_key_t *)key, API(malloc)(SIZE));
    return NULL;
}

static void use_after_the_thread(void) {
    pthread_key_t key;
    CHECK(pthread_key_create(&key, use_late) == 0, "no key");
    in_a_thread(end_with_a_block, &key);
}

static void free_nothing(void) { API(free)(NULL); }

static void report_errors(void) {
    CHECK(hakmem_option_set("ON_ERROR", "report") == 0, "there is no ON_ERROR");
}

static void free_interior(void) {
    report_errors();
    kept = API(malloc)(SIZE);
    API(free)((char *)kept + 16);
}

static void free_twice(void) {
    report_errors();
    kept = API(malloc)(SIZE);
    API(free)(kept);
    API(free)(kept);
}

static void free_many(void) {
    allocate_some(10 * COUNT, SIZE);
    free_some(10 * COUNT);
}

static void *hold_slabs_and_a_few(void *unused) {
    for (int i = 0; i < 40; i++) kept = API(malloc)(61440); /* a slab each: more than 1 MiB */
    for (int i = 0; i < 10; i++) kept = API(malloc)(SIZE);
    return unused;
}

/* This thread's shard has used blocks, the other one is at its budget. */
static void allocate_beyond_the_budget(void) {
    allocate_some(COUNT, SIZE);
    for (int i = 0; i < COUNT; i += 2) API(free)(blocks[i]);
    API(malloc_trim)(0);
    in_a_thread(hold_slabs_and_a_few, NULL);
}

const struct set_trial way_trials[] = {
    {{"classes", "allocations", hold, COUNT, COUNT}, NULL},
    {{"classes", "frees", hold_and_free, COUNT, COUNT}, NULL},
    {{"classes", "tls_sll", hold_and_free, COUNT, COUNT}, NULL},
    {{"classes", "ss_local", free_and_trim, COUNT, 2 * COUNT}, NULL},
    {{"classes", "ss_remote", free_in_another_shard_and_drain, COUNT, COUNT}, NULL},
    {{"total", "allocations", hold, COUNT, COUNT}, NULL},
    {{"total", "frees", hold_and_free, COUNT, COUNT}, NULL},
    {{"refill", "calls", hold, 1, COUNT}, NULL},
    {{"refill", "above", hold_one_of_each, 10, 100}, NULL},
    {{"refill", "lifo", swing_mid, 10, COUNT}, "HAKMEM_TLS_LO_MAX=100"},
    {{"refill", "lifo", swing_mid, 0, 0}, NULL},
    {{"refill", "depot", swing_beside_threads, 2, COUNT}, "HAKMEM_CACHE_BUDGET=1M"},
    {{"refill", "own", hold, 1, COUNT}, NULL},
    {{"refill", "others", allocate_in_another_shard, 1, 10}, NULL},
    {{"refill", "own_fresh", hold_beside_warm_slabs, 1, COUNT}, NULL},
    {{"refill", "own_fresh", hold_beside_another_shard, 0, 0}, NULL},
    {{"refill", "warm", refill_warm, 1, COUNT}, NULL},
    {{"refill", "budget", allocate_beyond_the_budget, 1, COUNT},
     "HAKMEM_CONF=SS_BUDGET:1,TRYLOCK_PROBES:0"},
    {{"refill", "empty", leave_empty_slabs, 1, 1}, "HAKMEM_TINY_PROFILE=larson_guard"},
    {{"refill", "pool", hold, 2, 4}, NULL},
    {{"refill", "others_any", hold_in_another_shard_without_memory, 1, 10}, NULL},
    {{"refill", "none", use_up_memory, 1, 10}, NULL},
    {{"refill", "one_zeroed", hold_zeroed, 1, 10}, NULL},
    {{"refill", "one_no_cache", use_after_the_thread, 1, 1}, NULL},
    {{"refill", "one_no_stack", swing_mid, 2000, 2000}, "HAKMEM_POOL_TLS_RING=0"},
    {{"free", "slow", hold_and_free, 1, COUNT}, NULL},
    {{"free", "null", free_nothing, 1, 1}, NULL},
    {{"free", "bad", free_interior, 1, 1}, NULL},
    {{"free", "twice", free_twice, 1, 1}, NULL},
    {{"free", "large", free_large, 50, 50}, NULL},
    {{"free", "huge", free_huge, 1, 1}, NULL},
    {{"free", "no_cache", use_after_the_thread, 1, 1}, NULL},
    {{"free", "no_stack", swing_mid, 2000, 2000}, "HAKMEM_POOL_TLS_RING=0"},
    {{"free", "full", free_many, 1, any}, NULL},
    {{"free", "room", hold_and_free, 1, COUNT}, NULL},
};
const size_t way_trial_count = COUNT_OF(way_trials);

/* ---- Sums ------------------------------------------------------------------------------------ */

static const char *const bands[] = {"C0", "C1", "C2", "C3", "C4", "C5", "C6", "C7", "MID"};

/* `left` = the sum of the figures named in `right`; "all.NAME" is that of all bands. */
static void check_sum(const char *left, const char *right) {
    char names[300], name[100];
    uint64_t sum = 0;
    CHECK(snprintf(names, sizeof names, "%s", right) < (int)sizeof names, "too long: %s", right);
    for (char *rest = names, *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
        bool of_bands = strncmp(word, "all.", 4) == 0;
        for (size_t i = 0; of_bands && i < COUNT_OF(bands); i++) {
            snprintf(name, sizeof name, "bands.%s.%s", bands[i], word + 4);
            sum += stat_of(name);
        }
        if (!of_bands) sum += stat_of(word);
    }
    CHECK(stat_of(left) == sum, "%s is %llu, and the sum of %s is %llu", left,
          (unsigned long long)stat_of(left), right, (unsigned long long)sum);
}

/* The same of figures of a class, in each band. */
static void check_sum_of_bands(const char *left, const char *right) {
    for (size_t i = 0; i < COUNT_OF(bands); i++) {
        char whole[100], names[300], text[300] = "";
        snprintf(whole, sizeof whole, "bands.%s.%s", bands[i], left);
        snprintf(names, sizeof names, "%s", right);
        for (char *rest = names, *word; (word = strtok_r(rest, " ", &rest)) != NULL;) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "bands.%s.%s ", bands[i], word);
        }
        check_sum(whole, text);
    }
}

void check_sums(const void *unused) {
    static void (*const programs[])(void) = {
        hold_and_free,         free_many,     swing_mid,  free_and_trim, allocate_in_another_shard,
        free_in_another_shard, free_large,    free_huge,  hold_zeroed,   hold_one_of_each,
        use_after_the_thread,  free_interior, free_twice, free_nothing,  hold_beside_another_shard,
        use_up_memory,
    };
    (void)unused;
    for (size_t i = 0; i < COUNT_OF(programs); i++) programs[i]();
#define CLASS check_sum_of_bands
#define PROCESS check_sum
#define SUM(check, left, right) check(left, right);
#include "stats/sums.def"
#undef SUM
#undef PROCESS
#undef CLASS
}

#else

const struct set_trial way_trials[] = {{{0}, NULL}};
const size_t way_trial_count = 0;
void check_sums(const void *unused) { (void)unused; }

#endif
