/* live_reader.c: copies in pieces, and a sum of each state of the page that was seen at rest. */
#include "live_reader.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "explore.h"
#include "live_stats/live_page.h"
#include "memory.h"
#include "process.h"
#include "program.h"
#include "trace.h"

enum { PIECES = 4, TRIES = 3, SEEN_MAX = 16 };

static hak_live_page_t copy;

/* What copies of each number of the page were. */
static struct {
    uint32_t sequence;
    uint64_t sum;
} seen[SEEN_MAX];
static unsigned seen_count;

static uint64_t sum_of(const hak_live_page_t *page) {
    const uint64_t *words = (const uint64_t *)(const void *)page;
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof *page / sizeof *words; i++)
        if (words[i]) sum = (sum ^ words[i] ^ i) * UINT64_C(0x100000001B3);
    return sum;
}

/* A copy that is believed. */
static void believe(const hak_live_page_t *page) {
    uint32_t sequence = page->head.sequence;
    uint64_t sum = sum_of(page);
    EXPLORE_CHECK(memcmp(page->head.magic, HAK_LIVE_MAGIC, sizeof page->head.magic) == 0,
                  "a page without a magic word is believed");
    EXPLORE_CHECK(page->head.refresh_count * 2 == sequence,
                  "page %u is believed, which is refresh %llu", sequence,
                  (unsigned long long)page->head.refresh_count);
    for (unsigned i = 0; i < seen_count; i++)
        EXPLORE_CHECK(seen[i].sequence != sequence || seen[i].sum == sum,
                      "two copies of page %u differ", sequence);
    EXPLORE_CHECK(seen_count < SEEN_MAX, "too many copies of the page");
    seen[seen_count].sequence = sequence;
    seen[seen_count++].sum = sum;
}

void live_reader_begin(void) {
    trace_holds(process.page, sizeof(hak_live_page_t), "hak_live_page_t");
    believe(process.page);
}

/* The kernel copies for the reader, so what it reads races with the writer. */
static bool read_once(void) {
    const hak_live_page_t *page = process.page;
    for (size_t i = 0; i < PIECES; i++) {
        size_t piece = sizeof copy / PIECES, start = i * piece;
        explore_step_at(&page->head.sequence);
        memcpy((char *)&copy + start, (const char *)page + start,
               i == PIECES - 1 ? sizeof copy - start : piece);
    }
    memory_atomic_begin(&page->head.sequence, sizeof page->head.sequence);
    uint32_t after = page->head.sequence;
    memory_atomic_end(&page->head.sequence, "the reader's look", true, false, __ATOMIC_RELAXED,
                      after, after);
    return copy.head.sequence % 2 == 0 && after == copy.head.sequence;
}

void live_reader_read(void) {
    for (unsigned i = 0; i < TRIES; i++)
        if (read_once()) believe(&copy);
}

void live_reader_check(void) { believe(process.page); }

/* ---- What the process does meanwhile --------------------------------------------------------- */

void watched(void) {
    program_start(OPTIONS("LIVE=1", "PURGE_THREAD=0"));
    process.tick_ms = 50;
    live_reader_begin();
}
void use_watched(void) {
    program_malloc_all(0, 2, PAGES);
    program_malloc(2, LARGE);
    program_free_all(0, 3);
}
void use_watched_too(void) {
    program_malloc_all(8, 3, PAGES);
    program_free_all(8, 3);
}
void check_watched(void) {
    program_check();
    live_reader_check();
}
