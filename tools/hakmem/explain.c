/* explain.c: `hakmem explain`: the parts of resident memory, and settings that would reduce
 * them. */
#include "command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amount.h"
#include "live_stats/live_page.h"
#include "proc.h"
#include "source.h"

enum {
    WORTH_SHARE = 20,          /* a setting is shown for a part of at least one in so many */
    WORTH_BYTES = 1024 * 1024, /* of the whole, and at least so many bytes */
    SMALL_BUDGET = 2 * 1024 * 1024,
};

typedef struct {
    const char *name;    /* in the object "resident" */
    const char *title;   /* for people */
    const char *meaning; /* shown if no setting is */
    const char *(*setting)(const json_t *root);
} part_t;

/* ---- Settings: NULL if the process has it already, or there is none -------------------------- */

static long option(const json_t *root, const char *name) {
    return strtol(json_text(json_member(json_member(root, "options"), name), "value"), NULL, 10);
}

static const char *for_dirty(const json_t *root) {
    long delay = option(root, "HAKMEM_PURGE_DELAY_MS");
    if (delay < 0) return "HAKMEM_PURGE_DELAY_MS=500: now it is never given back";
    if (option(root, "HAKMEM_PURGE_THREAD") == 0)
        return "HAKMEM_PURGE_THREAD=1: also while the program rests";
    return delay > 0 ? "HAKMEM_PURGE_DELAY_MS=0: given back at once" : NULL;
}

static const char *for_sparse(const json_t *root) {
    const json_t *resident = json_member(root, "resident");
    long delay = option(root, "HAKMEM_PURGE_DELAY_MS");
    if (delay < 0) return "HAKMEM_PURGE_DELAY_MS=500: now it is never given back";
    if (json_number(resident, "pinned") / 3 > json_number(resident, "sparse") / 4)
        return "pinned by few blocks: HAKMEM_PROF=1 tells which calls made them";
    return delay > 50 ? "HAKMEM_PURGE_DELAY_MS=50: given back sooner" : NULL;
}

static const char *for_caches(const json_t *root) {
    long budget = option(root, "HAKMEM_CACHE_BUDGET");
    return budget == 0 || budget > SMALL_BUDGET ? "HAKMEM_CACHE_BUDGET=2M: less for all threads"
                                                : NULL;
}

/* ---- The table ------------------------------------------------------------------------------- */

static const part_t parts[] = {
    {"live", "live", "what the program has asked for and not freed", NULL},
    {"rounding", "class rounding", "estimated: block sizes above what was asked for", NULL},
    {"sparse", "sparse pages", "free or unused, in pages of slabs", for_sparse},
    {"caches", "thread caches", "free blocks that threads keep at hand", for_caches},
    {"dirty", "dirty", "free units and mappings that still have pages", for_dirty},
    {"metadata", "metadata", "HAKMEM's map, records and live page", NULL},
    {"other", "not HAKMEM's", "program, libraries, stacks, own mappings", NULL},
};

static void print_line(const char *title, int64_t bytes, uint64_t rss, const char *text) {
    char amount[AMOUNT_SIZE];
    double percent = rss ? 100.0 * (double)bytes / (double)rss : 0;
    printf("  %-15s%11s %6.1f %%  %s\n", title, amount_of_bytes(amount, bytes), percent, text);
}

static void print_part(const part_t *part, const json_t *root, const json_t *resident,
                       uint64_t rss) {
    uint64_t bytes = json_number(resident, part->name);
    bool is_worth = bytes >= WORTH_BYTES && bytes >= rss / WORTH_SHARE;
    const char *setting = is_worth && part->setting ? part->setting(root) : NULL;
    print_line(part->title, (int64_t)bytes, rss, setting ? setting : part->meaning);
}

static void print_head(const source_t *source) {
    char name[PROC_NAME_SIZE];
    printf("process %" PRIu64, json_number(source->root, "pid"));
    if (source->pid) printf(" (%s)", proc_name(source->pid, name));
    printf(": resident memory\n\n");
}

static void print_all(const source_t *source) {
    const json_t *resident = json_member(source->root, "resident");
    uint64_t rss = json_number(resident, "rss"), sum = 0, swap = json_number(resident, "swap");
    const uint64_t unlisted = json_number(json_member(source->root, "live_page"), "unlisted");
    char amount[AMOUNT_SIZE];
    print_head(source);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        print_part(&parts[i], source->root, resident, rss);
        sum += json_number(resident, parts[i].name);
    }
    print_line("unexplained", (int64_t)(rss - sum), rss,
               "changed while it was read, or not accounted for");
    print_line("resident", (int64_t)rss, rss, "as the kernel counts it");
    if (swap) printf("\n%s more are swapped out.\n", amount_of_bytes(amount, (int64_t)swap));
    if (unlisted)
        printf("\nWhat is resident of %" PRIu64
               " blocks above 1 MiB is estimated: the live page lists %d ranges.\n",
               unlisted, HAK_LIVE_RANGES);
}

int command_explain(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (argv[i][0] == '-')
            fail(STATUS_USAGE, "explain: '%.64s' is not known; `hakmem --help` shows the form",
                 argv[i]);
    if (argc != 2)
        fail(STATUS_USAGE, "explain: one process or file; `hakmem --help` shows the form");
    if (is_elf_file(argv[1])) return explain_core(argv[1]);
    source_t source = source_read("explain", argv[1]);
    if (!json_member(source.root, "resident"))
        fail(1,
             "explain: %.256s does not say what is resident: `hakmem stat PID --json` writes that",
             argv[1]);
    print_all(&source);
    return finish();
}
