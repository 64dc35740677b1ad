/* lines.h: the directory: a record for each line that was accessed. */
#pragma once

#include "machine.h"

typedef struct {
    uint32_t site, count;
} tally_t;

/* Of a line that more than one CPU has accessed. */
typedef struct detail {
    uint64_t line; /* address / LINE_SIZE */
    uint64_t sharers[CPUS_MOST / 64];
    uint64_t seen[CPUS_MOST / 64]; /* CPUs that have held the line as it is now */
    bool is_written;
    uint32_t version; /* grows when the line gets another writer */
    uint32_t word_version[LINE_WORDS];
    int16_t word_writer[LINE_WORDS]; /* NOBODY: never written */
    uint64_t busy_until;
    uint64_t transfers, far, invalidations, false_moves, wait_ns; /* since the last reset */
    tally_t sites[LINE_SITES];         /* code that made most of the transfers, approximately */
    tally_t updates[LINE_UPDATES];     /* and most of the atomic updates */
    uint64_t updaters[CPUS_MOST / 64]; /* CPUs that made some, since the line was shared */
    struct detail *next;               /* of all */
} detail_t;

typedef struct {
    detail_t *detail;
    int16_t owner;    /* the CPU with the only copy, or NOBODY */
    int16_t first;    /* without a detail: the only CPU that accessed the line, or NOBODY */
    uint16_t written; /* without a detail: words that it wrote */
} line_t;

enum { NOBODY = -1 };

line_t *lines_of(uint64_t line);                       /* made if there is none */
line_t *lines_look(uint64_t line);                     /* NULL if there is none */
detail_t *lines_detail(line_t *line, uint64_t number); /* made if there is none */
void lines_note_site(detail_t *detail, uint32_t site);
void lines_note_update(detail_t *detail, uint32_t site, unsigned cpu);
unsigned lines_updaters(const detail_t *detail);
void lines_reset(void);
detail_t *lines_all(void);

/* Calls `visit` for each record with numbers from `from` to `end`. */
void lines_each(uint64_t from, uint64_t end, void (*visit)(uint64_t number, line_t *line));

void *scale_map(size_t size); /* zeroed memory of our own; ends the process if refused */
