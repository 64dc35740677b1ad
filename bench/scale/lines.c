/* lines.c: line records by pages of 64 lines, pages by an open hash table. */
#include "lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_LINES = 64, TABLE_BITS = 22, CHUNK = 1 << 22 };

typedef struct {
    uint64_t number; /* address / 4096 */
    line_t lines[PAGE_LINES];
} page_t;

static page_t **table; /* 2^TABLE_BITS entries */
static size_t page_count;
static detail_t *details;

void *scale_map(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) return memory;
    fputs("scale: no memory for the simulated machine\n", stderr);
    _Exit(3);
}

static void *take(size_t size) {
    static char *chunk;
    static size_t left;
    if (size > left) {
        chunk = scale_map(CHUNK);
        left = CHUNK;
    }
    void *memory = chunk;
    chunk += size;
    left -= size;
    return memory;
}

static page_t **slot_of(uint64_t number) {
    const size_t mask = ((size_t)1 << TABLE_BITS) - 1;
    if (!table) table = scale_map(sizeof *table << TABLE_BITS);
    size_t i = (number * 0x9E3779B97F4A7C15u) >> (64 - TABLE_BITS);
    while (table[i] && table[i]->number != number) i = (i + 1) & mask;
    return &table[i];
}

line_t *lines_look(uint64_t line) {
    page_t *page = *slot_of(line / PAGE_LINES);
    return page ? &page->lines[line % PAGE_LINES] : NULL;
}

line_t *lines_of(uint64_t line) {
    page_t **slot = slot_of(line / PAGE_LINES);
    if (!*slot) {
        if (++page_count > (size_t)3 << (TABLE_BITS - 2)) {
            fputs("scale: the workload uses too much memory\n", stderr);
            _Exit(3);
        }
        *slot = take(sizeof **slot);
        (*slot)->number = line / PAGE_LINES;
        for (int i = 0; i < PAGE_LINES; i++)
            (*slot)->lines[i].owner = (*slot)->lines[i].first = NOBODY;
    }
    return &(*slot)->lines[line % PAGE_LINES];
}

detail_t *lines_detail(line_t *line, uint64_t number) {
    if (line->detail) return line->detail;
    detail_t *detail = line->detail = take(sizeof *detail);
    detail->line = number;
    detail->version = 1;
    detail->is_written = line->written != 0;
    if (line->first != NOBODY) detail->seen[line->first / 64] = (uint64_t)1 << line->first % 64;
    for (int i = 0; i < LINE_WORDS; i++) {
        bool is_written = line->written >> i & 1;
        detail->word_writer[i] = is_written ? line->first : NOBODY;
        detail->word_version[i] = is_written;
    }
    detail->next = details;
    details = detail;
    return detail;
}

/* Keeps the most frequent ones: a site that is not among them takes the place of the rarest. */
static void note(tally_t *tallies, int most, uint32_t site) {
    int rarest = 0;
    for (int i = 0; i < most; i++) {
        if (tallies[i].count && tallies[i].site == site) {
            tallies[i].count++;
            return;
        }
        if (tallies[i].count < tallies[rarest].count) rarest = i;
    }
    tallies[rarest].site = site;
    tallies[rarest].count++;
}

void lines_note_site(detail_t *detail, uint32_t site) { note(detail->sites, LINE_SITES, site); }

void lines_note_update(detail_t *detail, uint32_t site, unsigned cpu) {
    note(detail->updates, LINE_UPDATES, site);
    detail->updaters[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

unsigned lines_updaters(const detail_t *detail) {
    unsigned count = 0;
    for (int i = 0; i < CPUS_MOST / 64; i++)
        count += (unsigned)__builtin_popcountll(detail->updaters[i]);
    return count;
}

void lines_reset(void) {
    for (detail_t *detail = details; detail; detail = detail->next) {
        detail->transfers = detail->far = detail->invalidations = 0;
        detail->false_moves = detail->wait_ns = 0;
        memset(detail->sites, 0, sizeof detail->sites);
        memset(detail->updates, 0, sizeof detail->updates);
    }
}

detail_t *lines_all(void) { return details; }

static void visit_page(page_t *page, uint64_t from, uint64_t end,
                       void (*visit)(uint64_t, line_t *)) {
    for (uint64_t i = 0; i < PAGE_LINES; i++) {
        uint64_t line = page->number * PAGE_LINES + i;
        if (line >= from && line < end) visit(line, &page->lines[i]);
    }
}

void lines_each(uint64_t from, uint64_t end, void (*visit)(uint64_t, line_t *)) {
    uint64_t first = from / PAGE_LINES, last = (end + PAGE_LINES - 1) / PAGE_LINES;
    if (!table) return;
    if (last - first < page_count) {
        for (uint64_t number = first; number < last; number++) {
            page_t *page = *slot_of(number);
            if (page) visit_page(page, from, end, visit);
        }
        return;
    }
    for (size_t i = 0; i < (size_t)1 << TABLE_BITS; i++)
        if (table[i] && table[i]->number >= first && table[i]->number < last)
            visit_page(table[i], from, end, visit);
}
