/* verify.c: breaks each invariant and expects its line: from hakmem_verify(), and in the debug build also
 * where the lock is released. Each case runs in a child, since it breaks the engine. */
#include "verify_breaks.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "meta/meta.h"
#include "single_step.h"
#include "thread/thread.h"

enum { VIOLATED = 77 }; /* how a child ends */

/* The clock stands: no purge is due, however slow the machine is. */
uint64_t __wrap_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void) { return 1000000; }

static const char *const variables[] = {"HAKMEM_SHARDS=2", "HAKMEM_PURGE_THREAD=0", NULL};

/* What is broken, and what the line says. */
typedef struct {
    void (*brk)(void);
    const char *line;
} row_t;

static const row_t rows[] = {
    {free_count, "slab %p: free_count = set bits: "},
    {words_free, "slab %p: words_free = words with a set bit: "},
    {bit_behind, "slab %p: violated: no bit is set behind the last block"},
    {fresh_beyond, "slab %p: violated: fresh <= blocks of the slab"},
    {fresh_low, "slab %p: violated: blocks never handed out are free"},
    {purged, "slab %p: violated: purged blocks <= free blocks that were in use"},
    {remote_word, "slab %p: remote_words = remote words that are not 0: "},
    {lifted, "slab %p: violated: no slab is lifted outside a give"},
    {owner, "slab %p: a listed slab belongs to the bin and is not warm: "},
    {listed, "slab %p: violated: a listed slab has its flag and a free block"},
    {slab_prev, "slab %p: violated: next and prev agree in the list"},
    {tail, "bin %p: violated: the list ends at its tail"},
    {empty_owner, "slab %p: the kept empty slab belongs to the bin: "},
    {empty_used, "slab %p: all blocks of the kept empty slab are free: "},
    {empty_listed, "slab %p: violated: the kept empty slab is in no list"},
    {listed_count, "bin %p: listed_count = slabs in the list and the kept empty slab: "},
    {lost_slab, "bin %p: slabs with a free block = listed_count: "},
    {adopted, "bin %p: adopted - left = slabs: "},
    {touched, "bin %p: touched = sum of fresh - purged blocks: "},
    {spare, "bin %p: spare = free blocks neither fresh nor purged: "},
    {pending, "bin %p: slabs on the pending stack = slabs with remote words: "},
    {shard_slabs, "shard %p: slabs of its bins: "},
    {ragged, "pool %p: ragged_units = slabs of ragged classes: "},
    {warm_listed, "slab %p: violated: a warm slab is in no list and has its pages"},
    {warm_flag, "slab %p: a warm slab has the owner word of its bin, and the flag: "},
    {warm_slot, "slab %p: violated: a warm slab points to its slot"},
    {claimed, "warm slot %p: violated: a slot in a ring has a slab that nobody has claimed"},
    {ready, "warm slot %p: ready = free blocks that were in use: "},
    {ring_next, "warm slot %p: violated: next and prev agree in the ring"},
    {ring_count, "warm slabs of a bin %p: count = slabs with the flag: "},
    {ring_none, "warm slabs of a bin %p: violated: count is 0 <=> there is no oldest slot"},
    {ring_used, "warm slabs %p: blocks in use = used + what was carved: "},
    {longest, "superslab %p: longest = longest run of free units: "},
    {other_list, "pool %p: superslabs in a list: "},
    {last_unasked, "pool %p: violated: what the region keeps is behind the last other free one"},
    {super_prev, "superslab %p: violated: next and prev agree in the list"},
    {on_dirty, "superslab %p: violated: it has free dirty units <=> it is in a list of them"},
    {clean_listed,
     "superslab %p: violated: a superslab in a list of dirty ones has free dirty units"},
    {held, "superslab %p: violated: a held one is in that list"},
    {held_free, "superslab %p: violated: a held one has a slab in use"},
    {dirty_prev, "superslab %p: violated: next and prev agree in the list"},
    {free_unit, "unit %p: violated: it is free <=> it has no owner"},
    {no_pages, "unit %p: violated: a unit in use may have pages"},
    {unit_base, "unit %p: base = its address: "},
    {map_class, "unit %p: the map has its class: "},
    {superslab_count, "pool %p: superslabs: "},
    {used_units, "pool %p: used_units = units with an owner or in a stock: "},
    {dirty_units, "pool %p: dirty_units = free units with pages: "},
    {held_units, "pool %p: held_units = those that wait for a round: "},
    {large_free, "superslab %p: no unit of a large heap is free to the pool: "},
    {clean_grains, "superslab %p: clean_grains = grains - touched ones: "},
    {touched_clean, "superslab %p: violated: a unit with a touched grain is dirty"},
    {clean_dirty, "superslab %p: a unit is dirty <=> a grain of it is touched: "},
    {used_beyond, "superslab %p: violated: used_grains <= grains"},
    {used_grains, "large heap %p: used grains = grains of blocks: "},
    {used_grains, "large heap %p: free grains = grains of extents: "},
    {not_large, "unit %p: violated: a unit in use may have pages"},
    {heap_owner, "superslab %p: its owner = that of its units: "},
    {unit_owner, "superslab %p: all units have one owner: "},
    {extent_gone, "extent %p: violated: one begins in the unit"},
    {extent_filled, "extents %p: violated: a bin is filled <=> its bit is set"},
    {extent_other_bin, "extent %p: its bin = that of its length: "},
    {extent_prev, "extent %p: violated: next and prev agree in its bin"},
    {extent_end, "extent %p: its last unit has its length, and where it ends: "},
    {idle, "large heap %p: idle = touched and not used: "},
    {live, "large heap %p: live = grains of blocks: "},
    {live_count, "large heap %p: live_count = blocks: "},
    {run_longer, "large heap %p: live = grains of blocks: "},
    {lent, "large heap %p: lent = superslabs without a used grain: "},
    {published, "large heap %p: the sum of what heaps have published as idle: "},
    {idle_list, "superslab %p: violated: next and prev agree in the list of idle superslabs"},
    {idle_newest, "large heap %p: violated: the list of idle superslabs ends at its newest"},
    {idle_short, "large heap %p: superslabs in the list of idle ones: "},
    {recent_count, "large heap %p: violated: recent blocks <= places for them"},
    {recent_grains, "large heap %p: grains of recent blocks = sum of their lengths: "},
    {recent_used, "large heap %p: violated: recent blocks are freed"},
    {transfer_count, "transfer array %p: violated: count <= capacity"},
    {transfer_grains, "transfer array %p: transfer_grains = sum of its blocks: "},
    {transfer_used, "transfer array %p: violated: its blocks are freed"},
    {huge_count, "huge blocks %p: counts of all tables = their entries: "},
    {huge_bytes, "huge blocks %p: held_bytes = blocks and what is kept: "},
    {huge_kept, "huge blocks %p: kept_bytes = bytes kept: "},
    {kept_longer, "huge blocks %p: bytes kept = sum of the stretches: "},
    {kept_empty, "kept stretch %p: violated: it has a length"},
    {kept_twice, "kept stretch %p: violated: a gap lies between it and the stretch before"},
    {huge_lost, "huge block %p: violated: the table finds it by its start"},
    {cache_top, "magazine %p: violated: base <= top < base + slots"},
    {cache_slots, "magazine %p: violated: slots are a power of two"},
    {cache_sentinel, "magazine %p: violated: the sentinel is NULL"},
    {cache_foreign, "magazine %p: violated: its blocks belong to the heap"},
    {cache_class, "magazine %p: its blocks have its class, unless freed twice: "},
    {cache_inside, "magazine %p: violated: its pointers point to the start of a block"},
    {cache_limit, "magazine %p: violated: limit = address of a slot, or 0"},
    {cache_capacity, "cache %p: capacity = bytes that its stacks may hold: "},
    {no_stack_block, "magazine %p: violated: without a stack it holds no block"},
    {no_stack_limit, "magazine %p: violated: without a stack no top is below the limit"},
    {area_guard, "area %p: violated: committed + a page <= reserved"},
    {area_limit, "area %p: violated: reserved <= limit"},
    {area_uncharged, "area %p: violated: uncharged <= committed"},
    {area_odd, "area %p: violated: all are multiples of a page"},
    {carved, "region %p: violated: carved <= limit <= end of the window"},
    {few_records, "region %p: violated: the records of all superslabs are accessible"},
    {map_end, "region %p: the map ends behind the last mapped unit: "},
    {mapped, "region %p: mapped superslabs, counted: "},
    {pieces, "region %p: pieces, counted: "},
    {holes, "region %p: the list of holes, by length: "},
    {hole, "superslab %p: violated: a mapped one is no hole"},
    {descriptors, "superslab %p: violated: it leads to its own descriptors"},
    {record_bytes, "records %p: bytes of all areas: "},
    {record_odd, "records %p: violated: a free block is aligned to its size up to a page"},
    {record_far, "records %p: violated: a free block is accessible"},
    {record_ring, "records %p: violated: a list has no more than there is"},
    {chunk, "records %p: violated: what is not handed out is accessible"},
    {waiting_tid, "cache %p: violated: one that waits has no thread, and is on the right list"},
    {waiting_full, "thread list %p: full = caches that wait with blocks, and that will: "},
    {threads, "thread list %p: threads = sum over shards: "},
    {committed,
     "committed bytes %p: units with pages + huge blocks + what is kept or lost of them + "
     "records + sampled pages: "},
};

static void break_and_verify(const void *context) {
    const row_t *row = context;
    make_world();
    row->brk();
    size_t violations = hakmem_verify();
    _exit(violations ? VIOLATED : 0);
}

/* One line of `text`, but for the numbers, is `hakmem: ` and the expected one. */
static bool has_line(const char *text, const char *line) {
    char expected[256], wanted[256];
    const char *address = strstr(line, "%p");
    snprintf(expected, sizeof expected, "hakmem: %.*s", (int)(address - line), line);
    snprintf(wanted, sizeof wanted, "%s", address + 2);
    for (const char *at = text; (at = strstr(at, expected)) != NULL; at++) {
        const char *behind = at + strlen(expected);
        behind += strcspn(behind, ": \n");
        if (strncmp(behind, wanted, strlen(wanted)) == 0) return true;
    }
    return false;
}

/* In the debug build the release of a lock may be first to see it. */
static bool ended_by_violation(const struct child_end *end) {
    if (WIFEXITED(end->status)) return WEXITSTATUS(end->status) == VIOLATED;
    return HAKMEM_VERIFY && WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGABRT;
}

static void each_violation_has_its_line(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct child_end end;
        child_run(break_and_verify, &rows[i], 60, &end);
        REQUIRE(end.in_time && ended_by_violation(&end), "%s status %#x; stderr: %s", rows[i].line,
                (unsigned)end.status, end.err);
        REQUIRE(has_line(end.err, rows[i].line), "no line \"%s\" in: %s", rows[i].line, end.err);
    }
}

#if HAKMEM_VERIFY
/* What the release of one lock sees. */
typedef struct {
    void (*brk)(void);
    const char *line;
    hak_lock_t *(*lock)(void);
} release_t;

static void kept_not_noted(void) { kept_part()->noted += 4096; }
static void kept_none(void) { kept_part()->count = 0; }
static hak_huge_table_t *filled_table(void) { /* addresses are random: which one it is, too */
    hak_huge_table_t *table = hak_huge_table;
    while (!table->current.size) table++;
    return table;
}
static void table_full(void) { filled_table()->current.used = filled_table()->current.size; }
static void no_tail(void) { world.bin->tail = NULL; }
static void spare_high(void) { world.bin->spare = world.bin->touched + 1; }
static void wrong_list(void) { hak_lists[0].by_span[hak_superslab_units()] = world.super; }

static hak_lock_t *bin_lock(void) { return &world.bin->lock; }
static hak_lock_t *pool_lock(void) { return &hak_pool_lock; }
static hak_lock_t *heap_lock(void) { return &world.heap->lock; }
static hak_lock_t *transfer_lock(void) { return &world.heap->transfer_lock; }
static hak_lock_t *kept_lock(void) {
    hak_stretches_t *part = hak_kept_parts;
    while (!part->bytes) part++;
    return &part->lock;
}
static hak_lock_t *table_lock(void) { return &filled_table()->lock; }
static hak_lock_t *region_lock(void) { return &hak_region_lock; }
static hak_lock_t *meta_lock(void) { return &hak_meta_lock; }
static hak_lock_t *list_lock(void) { return &first_group()->lock; }

static const release_t releases[] = {
    {free_count, "slab %p: free_count = set bits: ", bin_lock},
    {owner, "slab %p: violated: a listed slab belongs to the bin and is not warm", bin_lock},
    {empty_listed, "slab %p: it is marked as listed, or kept empty: ", bin_lock},
    {no_tail, "bin %p: violated: both ends of the list, or none", bin_lock},
    {spare_high, "bin %p: violated: spare <= touched", bin_lock},
    {clean_listed,
     "superslab %p: violated: a superslab in a list of dirty ones has free dirty units", pool_lock},
    {wrong_list, "superslab %p: its list: ", pool_lock},
    {clean_grains, "superslab %p: clean_grains = grains - touched ones: ", heap_lock},
    {extent_filled, "extents %p: violated: a bin is filled <=> its bit is set", heap_lock},
    {idle_newest, "large heap %p: violated: both ends of the list, or none", heap_lock},
    {recent_used, "large heap %p: violated: recent blocks are freed", heap_lock},
    {transfer_grains, "transfer array %p: transfer_grains = sum of its blocks: ", transfer_lock},
    {kept_not_noted, "huge blocks %p: bytes in the sum of all parts = bytes kept: ", kept_lock},
    {kept_none, "huge blocks %p: violated: no stretches <=> no bytes", kept_lock},
    {table_full, "huge blocks %p: violated: a search in the table ends", table_lock},
    {map_end, "region %p: the map ends behind the last mapped unit: ", region_lock},
    {chunk, "records %p: violated: what is not handed out is accessible", meta_lock},
    {waiting_full,
     "thread list %p: full = caches that wait with blocks, and that will: ", list_lock},
};

/* Some checks look at one more list each time. */
static void break_and_release(const void *context) {
    const release_t *row = context;
    make_world();
    row->brk();
    for (unsigned i = 0; i < 1000; i++) {
        hak_lock_acquire(row->lock());
        hak_lock_release(row->lock());
    }
}

static void a_release_stops_at_a_violation(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        struct child_end end;
        child_run(break_and_release, &releases[i], 60, &end);
        REQUIRE(end.in_time && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT,
                "%s status %#x; stderr: %s", releases[i].line, (unsigned)end.status, end.err);
        REQUIRE(has_line(end.err, releases[i].line), "no line \"%s\" in: %s", releases[i].line,
                end.err);
    }
}

/* A block more, onto pointers into blocks. */
static void use_broken_cache(const void *unused) {
    (void)unused;
    make_world();
    free_all_of(64, 8);
    const hak_magazine_t *magazine = &hak_cache->magazines[hak_class_of(64)];
    char *block = hakmem_malloc(64);
    CHECK(magazine->top > magazine->base + 1, "an empty magazine");
    for (void **slot = magazine->base + 1; slot <= magazine->top; slot++)
        *slot = (char *)*slot + 16;
    hak_cache->slow_count =
        0; /* chooses the block that is looked at beside the newest: an old one */
    hak_cache_overflow(hak_cache, hak_class_of(64), block);
}

static void a_slow_call_stops_at_a_violation(void **state) {
    (void)state;
    struct child_end end;
    child_run(use_broken_cache, NULL, 60, &end);
    REQUIRE(end.in_time && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT,
            "status %#x; stderr: %s", (unsigned)end.status, end.err);
    REQUIRE(has_line(end.err, "magazine %p: violated: its pointers point to the start of a block"),
            "%s", end.err);
}
#endif

static void *stop_now;

static void *work(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    void *own[200] = {NULL};
    while (!__atomic_load_n(&stop_now, __ATOMIC_RELAXED)) {
        seed = seed * 1103515245u + 12345u;
        unsigned i = (seed >> 8) % 200, kind = (seed >> 20) % 64;
        size_t size = kind < 56 ? seed % 2000 : kind < 62 ? seed % 400000 : seed % 4000000;
        hakmem_free(own[i]);
        own[i] = hakmem_malloc(size);
    }
    for (unsigned i = 0; i < 200; i++) hakmem_free(own[i]);
    return NULL;
}

/* While others allocate, and after. */
static void verify_in_company(const void *unused) {
    (void)unused;
    pthread_t threads_at_work[3];
    for (uintptr_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads_at_work[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    for (unsigned i = 0; i < 100; i++) {
        CHECK(hakmem_verify() == 0, "in company: a violation");
        usleep(1000);
    }
    __atomic_store_n(&stop_now, &stop_now, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 3; i++) pthread_join(threads_at_work[i], NULL);
    CHECK(hakmem_verify() == 0, "afterwards: a violation");
}

static void a_sound_heap_has_no_violation(void **state) {
    (void)state;
    unit_child(verify_in_company, NULL, 100, "threads at work");
}

#ifdef HAS_STEPS
enum { EACH = 500 }; /* of the first and of the last steps of a call; between them fewer */

static long steps, all_steps;

static bool ask(void) {
    if (!all_steps) {
        steps++;
        return true;
    }
    const bool is_near_an_end = steps < EACH || steps > all_steps - EACH;
    if (is_near_an_end || steps % (all_steps / EACH + 1) == 0) {
        const size_t violations = hakmem_verify();
        CHECK(violations == 0 || violations == SIZE_MAX, "%zu violations at step %ld of %ld",
              violations, steps, all_steps);
    }
    return ++steps < all_steps + EACH;
}

/* A handler that interrupts a check asks for one, after each instruction of its start and its end. */
static void verify_within(const void *unused) {
    (void)unused;
    (void)hakmem_verify();
    steps_begin(ask);
    (void)hakmem_verify();
    all_steps = steps;
    steps = 0;
    CHECK(hakmem_verify() == 0, "a violation behind the check that was interrupted");
}

static void a_handler_may_ask_within_a_check(void **state) {
    (void)state;
    unit_child(verify_within, NULL, 60, "a check in a check");
}
#endif

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_heap_has_no_violation),
        cmocka_unit_test(each_violation_has_its_line),
#ifdef HAS_STEPS
        cmocka_unit_test(a_handler_may_ask_within_a_check),
#endif
#if HAKMEM_VERIFY
        cmocka_unit_test(a_release_stops_at_a_violation),
        cmocka_unit_test(a_slow_call_stops_at_a_violation),
#endif
    };
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
