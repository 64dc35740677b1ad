/* report.c: one JSON document: totals, places in the code, and the lines with most transfers. */
#include "report.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lines.h"
#include "load.h"
#include "machine.h"
#include "sites.h"

enum { LINES_MOST = 200 };

/* "file": name, "offset": of the address in the file; only the address if it is in none. */
static void print_place(const char *key, const void *addr) {
    Dl_info info;
    if (dladdr(addr, &info) && info.dli_fname)
        printf("\"%s\":{\"file\":\"%s\",\"offset\":%" PRIuPTR "}", key, info.dli_fname,
               (uintptr_t)addr - (uintptr_t)info.dli_fbase);
    else
        printf("\"%s\":{\"address\":%" PRIuPTR "}", key, (uintptr_t)addr);
}

static bool is_empty(const site_t *site) {
    return !(site->accesses | site->locks | site->wait_ns | site->blocks);
}

static void print_site(uint32_t index) {
    const site_t *site = sites_at(index);
    printf("{\"site\":%" PRIu32 ",", index);
    print_place("place", site->pc);
    printf(",\"moves\":%" PRIu64 ",\"upgrades\":%" PRIu64 ",\"far\":%" PRIu64
           ",\"invalidations\":%" PRIu64 ",\"false_moves\":%" PRIu64 ",\"accesses\":%" PRIu64
           ",\"updates\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"mutexes\":%" PRIu64
           ",\"blocks\":%" PRIu64 ",\"line_wait_ns\":%" PRIu64 ",\"wait_ns\":%" PRIu64 "}",
           site->moves, site->upgrades, site->far, site->invalidations, site->false_moves,
           site->accesses, site->updates, site->failed, site->locks, site->blocks,
           site->line_wait_ns, site->wait_ns);
}

static void print_sites(void) {
    const char *comma = "";
    printf("\"sites\":[");
    for (uint32_t i = 0; i < sites_count(); i++) {
        if (is_empty(sites_at(i))) continue;
        printf("%s\n", comma);
        print_site(i);
        comma = ",";
    }
    printf("]");
}

/* [[site, count], ...] */
static void print_tallies(const char *key, const tally_t *tallies, int most) {
    const char *comma = "";
    printf("\"%s\":[", key);
    for (int i = 0; i < most; i++) {
        if (!tallies[i].count) continue;
        printf("%s[%" PRIu32 ",%" PRIu32 "]", comma, tallies[i].site, tallies[i].count);
        comma = ",";
    }
    printf("]");
}

static void print_line(const detail_t *detail) {
    printf("{");
    print_place("place", (const void *)(detail->line * LINE_SIZE));
    printf(",\"transfers\":%" PRIu64 ",\"far\":%" PRIu64 ",\"invalidations\":%" PRIu64
           ",\"false_moves\":%" PRIu64 ",\"wait_ns\":%" PRIu64 ",",
           detail->transfers, detail->far, detail->invalidations, detail->false_moves,
           detail->wait_ns);
    print_tallies("sites", detail->sites, LINE_SITES);
    printf("}");
}

/* Lines that more than half of the CPUs update: those of the process's locks are among them. */
static void print_updated_by_most(void) {
    const char *comma = "";
    printf("\"updated_by_most\":[");
    for (const detail_t *detail = lines_all(); detail; detail = detail->next) {
        if (2 * lines_updaters(detail) <= machine_options.cpus) continue;
        printf("%s\n{", comma);
        print_place("place", (const void *)(detail->line * LINE_SIZE));
        printf(",");
        print_tallies("updates", detail->updates, LINE_UPDATES);
        printf("}");
        comma = ",";
    }
    printf("]");
}

static bool comes_before(const detail_t *a, const detail_t *b) {
    if (a->transfers != b->transfers) return a->transfers > b->transfers;
    return a->line < b->line;
}

/* Inserts a line among the first `count` ones; returns how many there are now. */
static size_t insert_line(const detail_t **first, size_t count, const detail_t *detail) {
    size_t at = count < LINES_MOST ? count : LINES_MOST - 1;
    if (count == LINES_MOST && !comes_before(detail, first[at])) return count;
    for (; at > 0 && comes_before(detail, first[at - 1]); at--) first[at] = first[at - 1];
    first[at] = detail;
    return count < LINES_MOST ? count + 1 : count;
}

/* Allocates nothing, as qsort would: a helper thread of the allocator may have stopped for ever while it held a lock. */
static void print_lines(void) {
    static const detail_t *first[LINES_MOST];
    size_t shared = 0, count = 0;
    for (const detail_t *detail = lines_all(); detail; detail = detail->next) {
        if (!detail->transfers) continue;
        shared++;
        count = insert_line(first, count, detail);
    }
    printf("\"shared_lines\":%zu,\"lines\":[", shared);
    for (size_t i = 0; i < count; i++) {
        printf("%s\n", i ? "," : "");
        print_line(first[i]);
    }
    printf("]");
}

void report_print(void) {
    printf("{\"operations\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"accesses\":%" PRIu64
           ",\"fetches\":%" PRIu64 ",\"copies\":%" PRIu64 ",\"kernel_calls\":%" PRIu64 ",",
           load_operations(), load_ns(), machine_totals.accesses, machine_totals.fetches,
           machine_totals.copies, machine_totals.kernel_calls);
    print_place("malloc", (const void *)malloc);
    printf(",\n");
    print_sites();
    printf(",\n");
    print_lines();
    printf(",\n");
    print_updated_by_most();
    printf("}\n");
}
