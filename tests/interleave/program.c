/* program.c: the ledger of blocks, and the types of what the engine keeps in untyped memory. */
#include "program.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/block_record.h"
#include "api/hardened_malloc.h"
#include "cache/cache.h"
#include "cache/cpu_depot.h"
#include "cache/sampler.h"
#include "hakmem.h"
#include "hardened/quarantine.h"
#include "hardened/state.h"
#include "large/user_heap_table.h"
#include "live_stats/fill.h"
#include "memory.h"
#include "pool/purge_budget.h"
#include "process.h"
#include "profile/site.h"
#include "region/region.h"
#include "shard/shard.h"
#include "shard/sparse.h"
#include "shard/warm_slab.h"
#include "thread/thread.h"
#include "trace.h"

enum {
    STEP = 1024, /* one byte in so many of a block is checked, and its last */
    AGAIN = 200, /* blocks of each size that was used, taken at the end */
    SIZES_MAX = 16,
};

static struct {
    unsigned char *block;
    size_t size;
    unsigned char mark;
    uint64_t posted; /* a word of the explorer's */
} slots[PROGRAM_SLOTS] __attribute__((aligned(64)));

static size_t sizes[SIZES_MAX];
static unsigned size_count, marks;

static void note_size(size_t size) {
    for (unsigned i = 0; i < size_count; i++)
        if (sizes[i] == size) return;
    if (size_count < SIZES_MAX) sizes[size_count++] = size;
}

/* ---- The ledger ------------------------------------------------------------------------------ */

static void write_marks(unsigned slot, size_t from) {
    unsigned char *block = slots[slot].block;
    for (size_t i = from; i < slots[slot].size; i += STEP) block[i] = slots[slot].mark;
    if (slots[slot].size) block[slots[slot].size - 1] = slots[slot].mark;
}

static void check_marks(unsigned slot, size_t size) {
    const unsigned char *block = slots[slot].block;
    for (size_t i = 0; i < size; i += STEP)
        EXPLORE_CHECK(block[i] == slots[slot].mark, "byte %zu of a block of %zu was changed", i,
                      slots[slot].size);
    if (size && size == slots[slot].size)
        EXPLORE_CHECK(block[size - 1] == slots[slot].mark,
                      "the last byte of a block of %zu was changed", slots[slot].size);
}

static bool overlaps(unsigned slot, const unsigned char *block, size_t size) {
    const unsigned char *other = slots[slot].block;
    return other && block < other + slots[slot].size && other < block + size;
}

static void enter(unsigned slot, void *block, size_t size, const char *call) {
    explore_note("%s(%zu) = %p", call, size, block);
    EXPLORE_CHECK(block != NULL, "%s(%zu) found no memory", call, size);
    for (unsigned i = 0; i < PROGRAM_SLOTS; i++)
        EXPLORE_CHECK(!overlaps(i, block, size), "a block in use is handed out by %s(%zu)", call,
                      size);
    slots[slot].block = block;
    slots[slot].size = size;
    slots[slot].mark = (unsigned char)(++marks % 255 + 1);
    note_size(size);
    write_marks(slot, 0);
}

static void *leave(unsigned slot) {
    void *block = slots[slot].block;
    check_marks(slot, slots[slot].size);
    slots[slot].block = NULL;
    return block;
}

void program_malloc(unsigned slot, size_t size) {
    enter(slot, hakmem_malloc(size), size, "malloc");
}

void program_calloc(unsigned slot, size_t size) {
    unsigned char *block = hakmem_calloc(1, size);
    for (size_t i = 0; block && i < size; i++)
        EXPLORE_CHECK(block[i] == 0, "byte %zu of calloc(%zu) is not zero", i, size);
    enter(slot, block, size, "calloc");
}

void program_aligned(unsigned slot, size_t align, size_t size) {
    void *block = hakmem_memalign(align, size);
    EXPLORE_CHECK((uintptr_t)block % align == 0, "memalign(%zu) = %p", align, block);
    enter(slot, block, size, "memalign");
}

void program_realloc(unsigned slot, size_t size) {
    size_t kept = size < slots[slot].size ? size : slots[slot].size;
    unsigned char mark = slots[slot].mark, *old = leave(slot), *block = hakmem_realloc(old, size);
    for (size_t i = 0; block && i < kept; i += STEP)
        EXPLORE_CHECK(block[i] == mark, "byte %zu is lost by realloc(%zu)", i, size);
    enter(slot, block, size, "realloc");
}

void program_free(unsigned slot) {
    void *block = leave(slot);
    explore_note("free(%p), %zu bytes", block, slots[slot].size);
    hakmem_free(block);
}

void program_delete(unsigned slot) {
    void *block = leave(slot);
    explore_note("delete(%p), %zu bytes", block, slots[slot].size);
    hak_hardened_free_by(block, "operator delete", (size_t)HAK_ANY_SIZE);
}

void program_heap_malloc(hakmem_heap_t *heap, unsigned slot, size_t size) {
    void *block = hakmem_heap_malloc(heap, size);
    EXPLORE_CHECK(hakmem_heap_of(block) == heap, "heap_malloc(%zu) = %p is in another heap", size,
                  block);
    enter(slot, block, size, "heap_malloc");
}

void program_forget(unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; i++) leave(i);
}

size_t program_usable(unsigned slot) { return hakmem_malloc_usable_size(slots[slot].block); }

void program_malloc_all(unsigned first, unsigned count, size_t size) {
    for (unsigned i = first; i < first + count; i++) program_malloc(i, size);
}

void program_free_all(unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; i++) program_free(i);
}

/* ---- Handing over ---------------------------------------------------------------------------- */

void program_post(unsigned slot) {
    memory_atomic_begin(&slots[slot].posted, sizeof slots[slot].posted);
    slots[slot].posted = 1;
    memory_atomic_end(&slots[slot].posted, "post", false, true, __ATOMIC_RELEASE, 0, 1);
}

static bool is_posted(const void *posted) { return *(const uint64_t *)posted != 0; }

void program_await(unsigned slot) {
    explore_await(is_posted, &slots[slot].posted);
    memory_atomic_end(&slots[slot].posted, "await", true, false, __ATOMIC_ACQUIRE, 1, 1);
}

/* ---- Types ----------------------------------------------------------------------------------- */

static void note_superslab(hak_superslab_t *super, void *unused) {
    (void)unused;
    trace_holds(super, sizeof *super, "hak_superslab");
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        trace_holds(&super->units[i], sizeof *super->units, "hak_unit_t");
}

/* The states of blocks (hardened/state.h), by whatever name they are known. */
static void note_words(hak_state_word_t *words, unsigned count) {
    static const char *const names[] = {
        "hak_states.words[]", "hak_state_word()[]", "hak_state_words()[]", "hak_state_make()[]",
        "found_t.at[]",       "hak_spot_t.at[]",    "hak_entry_t.at[]"};
    for (unsigned i = 0; words && i < sizeof names / sizeof *names; i++)
        trace_holds(words, count * sizeof *words, names[i]);
}

static void note_states(hak_superslab_t *super, void *unused) {
    static const unsigned counts[] = {2 * HAK_BLOCKS_FEW, HAK_BLOCKS_SOME, HAK_BLOCKS_MAX};
    hak_states_t *states = super->states;
    (void)unused;
    if (!states) return;
    trace_holds(states, sizeof *states, "hak_states");
    for (unsigned level = 0; level < HAK_STATE_LEVELS; level++)
        for (unsigned i = 0; i < hak_superslab_units(); i++)
            note_words(states->words[i][level], counts[level]);
}

/* The records of warm slabs (cache/warm_cache.c): an array of pointers, by class. */
static void note_carve(const void *carve) {
    hak_warm_t *const *warm = carve;
    trace_holds(carve, (HAK_CLASS_COUNT + 1) * sizeof *warm, "hak_warm_cache");
    for (unsigned i = 0; i <= HAK_CLASS_COUNT; i++) {
        if (!warm[i]) continue;
        trace_holds(warm[i], sizeof *warm[i], "hak_warm_t");
        for (unsigned k = 0; k < warm[i]->count; k++)
            trace_holds(&warm[i]->slots[k], sizeof(hak_warm_slot_t), "hak_warm_slot_t");
    }
}

/* The lifos of a cache (cache/lifo.c): of each a pointer and a count. */
static void note_lifos(const void *lifos) {
    enum { LIFO_SIZE = 16 };
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++)
        trace_holds((const char *)lifos + i * LIFO_SIZE, LIFO_SIZE, "hak_lifo");
}

static void note_depots(void) {
    for (unsigned cpu = 0; cpu < HAK_LAZY_TABLE_MOST; cpu++) {
        hak_depot_t *row = hak_depot_row(cpu);
        for (unsigned i = 0; row && i < HAK_CLASS_LIMIT; i++)
            trace_holds(&row[i], sizeof row[i], "hak_depot_t");
    }
}

extern const volatile void *hak_user_heap_bits(unsigned level,
                                               size_t *size); /* an edit of mutants.py */

static void note_heaps(void) {
    const volatile void *bits;
    size_t size;
    for (size_t i = 0; i < hak_user_heap_slots(); i++)
        trace_holds(hak_user_heap_at(i), sizeof(hak_user_heap_t), "hak_user_heap");
    for (unsigned level = 0; (bits = hak_user_heap_bits(level, &size)) != NULL; level++)
        trace_holds(bits, size, "hak_user_level.used[]");
}

extern size_t hak_sample_lists(void **start); /* an edit of mutants.py */

static bool note_site(const hak_site_t *site, void *unused) {
    (void)unused;
    trace_holds(site, sizeof *site, "hak_site");
    return true;
}

static void note_types(void) {
    void *lists;
    size_t size = hak_sample_lists(&lists);
    if (lists) trace_holds(lists, size, "src/profile/samples.c: lists[]");
    hak_site_each(note_site, NULL);
    if (hak_live_private)
        trace_holds(hak_live_private, sizeof *hak_live_private, "hak_live_private_t");
    for (hak_cache_t *cache = hak_thread_caches(); cache; cache = cache->next) {
        trace_holds(cache, sizeof *cache, "hak_cache");
        for (unsigned band = 0; band < HAK_BAND_COUNT; band++)
            trace_holds(hak_cache_counts(cache, (hak_band_t)band), sizeof(hak_cache_counts_t),
                        "hak_cache_counts_t");
        if (cache->warm) note_carve((const void *)cache->warm);
        if (cache->lifos) note_lifos(cache->lifos);
        if (cache->has_sampler)
            trace_holds(hak_sampler_of(cache), sizeof(hak_sampler_t), "hak_sampler_t");
        if (cache->quarantine)
            trace_holds(cache->quarantine, sizeof *cache->quarantine, "hak_quarantine");
    }
    note_depots();
    note_heaps();
    hak_region_each_superslab(note_superslab, NULL);
    hak_region_each_superslab(note_states, NULL);
    trace_holds((const void *)hak_map.entries, hak_map.unit_end * sizeof *hak_map.entries,
                "hak_map_t.entries[]");
}

/* ---- The beginning and the end --------------------------------------------------------------- */

void program_options(const char *const *options) {
    for (; *options; options++) {
        char name[64] = "HAKMEM_";
        const char *equals = strchr(*options, '=');
        strncat(name, *options, (size_t)(equals - *options));
        process_option(name, equals + 1);
    }
}

const char *program_describe(const volatile void *variable) {
    static char text[4][40];
    static unsigned next;
    Dl_info info;
    if (!dladdr((const void *)variable, &info)) return NULL;
    next = (next + 1) % 4;
    snprintf(text[next], sizeof *text, "file+%#zx",
             (size_t)((const char *)variable - (const char *)info.dli_fbase));
    return text[next];
}

size_t program_figure(const char *name) {
    uint64_t value = 0;
    EXPLORE_CHECK(hakmem_stats_get(name, &value) == 0, "there is no figure %s", name);
    return value;
}

unsigned program_live(size_t size) {
    unsigned live = 0;
    for (unsigned i = 0; i < PROGRAM_SLOTS; i++)
        live += slots[i].block && (!size || slots[i].size == size);
    return live;
}

/* Free blocks that are there twice, or in use, come to light when they are all taken. */
static void take_again(size_t size) {
    static unsigned char *taken[AGAIN];
    for (unsigned i = 0; i < AGAIN && i * size < AGAIN * 4096; i++) {
        taken[i] = hakmem_malloc(size);
        for (unsigned slot = 0; slot < PROGRAM_SLOTS; slot++)
            EXPLORE_CHECK(!overlaps(slot, taken[i], size), "a block in use is free, too");
        for (unsigned k = 0; k < i; k++)
            EXPLORE_CHECK(taken[k] != taken[i], "a block of %zu is free twice", size);
    }
}

static void check_blocks(void) {
    note_types();
    for (unsigned i = 0; i < PROGRAM_SLOTS; i++)
        if (slots[i].block) check_marks(i, slots[i].size);
    for (unsigned i = 0; i < size_count; i++) take_again(sizes[i]);
    for (unsigned i = 0; i < PROGRAM_SLOTS; i++)
        if (slots[i].block) check_marks(i, slots[i].size);
}

/* What lower layers want done, and count before they note it (pool/purge_budget.h). */
static void check_notes(void) {
    uint32_t notes = hak_budget_notes;
    EXPLORE_CHECK(hak_shard_grown == 0 || notes & HAK_NOTE_GROWN,
                  "growth is counted, and not noted");
    EXPLORE_CHECK(hak_shard_visits_due == 0 || notes & HAK_NOTE_VISIT,
                  "visits are due, and not noted");
}

void program_check(void) {
    check_notes();
    EXPLORE_CHECK(process.reports == 0, "the engine reports an error");
    size_t live = process.is_child ? program_live(0) : program_figure("total.live");
    EXPLORE_CHECK(live == program_live(0), "%zu blocks are live, not %u", live, program_live(0));
    check_blocks();
}

void program_begin(void) { process = (process_t){.now_ms = 10000, .tick_ms = 1, .cpus = 2}; }

void program_start(const char *const *options) {
    program_begin();
    program_options(options);
    process_start();
    hakmem_free(hakmem_malloc(1));
}
