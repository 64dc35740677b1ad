/* resident.c: assigns each resident page to one of the parts.
 *
 * /proc/PID/smaps lists the mappings and how much of each is resident, /proc/PID/pagemap which
 * pages are resident. The live page tells what an address belongs to, and how much of a page is in
 * use. The bytes of a heap page that blocks cover count as in use; the other bytes are sparse in a
 * slab, and dirty elsewhere.
 *
 * Of addresses without end (2 TiB of small pages) no page is looked at: what the look has not come to has
 * as much in memory as the rest of its mapping. */
#include "resident.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc.h"

/* Bits of an entry of pagemap. */
#define PRESENT ((uint64_t)1 << 63)
#define OF_FILE ((uint64_t)1 << 61)
#define MAPPED_ONCE ((uint64_t)1 << 56)

enum {
    BATCH = 4096,
    PAGES_MOST = 1 << 29, /* that are looked at: seconds */
};

typedef struct {
    uint64_t start, end, rss, swap;
    bool shared;       /* other processes share some of its pages */
    bool is_page;      /* the live page itself */
    bool is_anonymous; /* has no file, may be written to, and has no name but that of huge blocks */
} mapping_t;

typedef struct {
    mapping_t *mappings;
    size_t count, room;
    int pagemap;
    uint64_t pages_left; /* of PAGES_MOST */
    const hak_live_page_t *page;
    const hak_live_range_t *ranges[HAK_LIVE_RANGES]; /* by address, without overlaps */
    size_t range_count;
    const hak_live_superslab_t *superslabs[HAK_LIVE_SUPERSLABS]; /* by address */
    uint64_t in_use[HAK_CLASS_LIMIT];    /* resident bytes of blocks, by class */
    uint64_t sparse, dirty, unknown;     /* of the heap, resident */
    uint64_t pinned;                     /* of `sparse`, in pages with blocks */
    uint64_t huge, kept, records, other; /* elsewhere, resident */
    uint64_t beside,
        beside_size; /* of `other`, and of addresses: where unlisted huge blocks may be */
} measure_t;

static uint16_t grains[HAK_LIVE_SUPERSLABS][HAK_SUPERSLAB_UNITS_MAX];

uint16_t resident_grains(uint32_t superslab, unsigned unit) { return grains[superslab][unit]; }

/* ---- Mappings -------------------------------------------------------------------------------- */

static mapping_t *add_mapping(measure_t *measure) {
    if (measure->count == measure->room) {
        size_t room = measure->room ? 2 * measure->room : 256;
        mapping_t *larger = realloc(measure->mappings, room * sizeof *larger);
        if (!larger) return NULL;
        measure->mappings = larger;
        measure->room = room;
    }
    mapping_t *mapping = &measure->mappings[measure->count++];
    *mapping = (mapping_t){0};
    return mapping;
}

/* "7f00-7f10 rw-p ..."; false for the other lines, which begin with the name of a field. */
static bool read_addresses(const char *line, uint64_t *start, uint64_t *end) {
    char *at;
    *start = strtoull(line, &at, 16);
    if (at == line || *at != '-') return false;
    *end = strtoull(at + 1, &at, 16);
    return *at == ' ' && *end > *start;
}

static bool read_mappings(measure_t *measure, FILE *smaps) {
    char line[4096 + 200];
    mapping_t *mapping = NULL;
    while (fgets(line, sizeof line, smaps)) {
        uint64_t start, end, bytes;
        if (read_addresses(line, &start, &end)) {
            if (!(mapping = add_mapping(measure))) return false;
            mapping->start = start;
            mapping->end = end;
            mapping->is_page = strstr(line, "/memfd:" HAK_LIVE_NAME) != NULL;
            mapping->is_anonymous = strstr(line, " rw-p ") != NULL &&
                                    (!strpbrk(line, "/[") || strstr(line, "[anon:hakmem: huge]"));
        } else if (mapping) {
            proc_size_field(line, "Rss", &mapping->rss);
            proc_size_field(line, "Swap", &mapping->swap);
            if ((proc_size_field(line, "Shared_Clean", &bytes) ||
                 proc_size_field(line, "Shared_Dirty", &bytes)) &&
                bytes)
                mapping->shared = true;
        }
    }
    return measure->count > 0;
}

/* ---- Pages ----------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b) {
    const uint64_t *one = *(const uint64_t *const *)a, *other = *(const uint64_t *const *)b;
    return (*one > *other) - (*one < *other);
}

static void sort_places(measure_t *measure) {
    const hak_live_page_t *page = measure->page;
    size_t count = 0;
    for (uint32_t i = 0; i < page->range_count; i++) measure->ranges[i] = &page->ranges[i];
    qsort(measure->ranges, page->range_count, sizeof(void *), by_start);
    for (uint32_t i = 0; i < page->range_count; i++) {
        const hak_live_range_t *range = measure->ranges[i];
        const hak_live_range_t *last = count ? measure->ranges[count - 1] : NULL;
        if (range->size && (!last || last->start + last->size <= range->start))
            measure->ranges[count++] = range;
    }
    measure->range_count = count;
    for (uint32_t i = 0; i < page->superslab_count; i++)
        measure->superslabs[i] = &page->superslabs[i];
    qsort(measure->superslabs, page->superslab_count, sizeof(void *), by_start);
}

/* The unit that contains an address; NULL when the page does not list it. */
static const hak_live_unit_t *unit_of(const measure_t *measure, uint64_t address) {
    size_t low = 0, high = measure->page->superslab_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (measure->superslabs[middle]->start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return NULL;
    const hak_live_superslab_t *super = measure->superslabs[low - 1];
    uint64_t offset = address - super->start;
    uint64_t unit = offset >> HAK_UNIT_SHIFT;
    return unit < measure->page->superslab_units ? &super->units[unit] : NULL;
}

static void count_heap_page(measure_t *measure, uint64_t address) {
    uint32_t size = measure->page->head.page_size, used = 0;
    const hak_live_unit_t *unit = unit_of(measure, address);
    if (!unit) {
        measure->unknown += size;
        return;
    }
    const hak_live_superslab_t *first = measure->page->superslabs;
    size_t number = (size_t)((const char *)unit - (const char *)first) / sizeof *first;
    uint16_t *seen = &grains[number][unit - first[number].units];
    for (uint32_t at = 0; at < size; at += HAK_GRAIN_SIZE) {
        unsigned grain = (unsigned)((address + at) % HAK_UNIT_SIZE / HAK_GRAIN_SIZE);
        if (unit->class_index != HAK_CLASS_NONE) used += unit->used[grain];
        *seen |= (uint16_t)(1u << grain);
    }
    measure->in_use[unit->class_index] += used;
    bool is_slab = unit->class_index != HAK_CLASS_NONE && unit->class_index != HAK_CLASS_LARGE;
    *(is_slab ? &measure->sparse : &measure->dirty) += size - used;
    if (is_slab && used) measure->pinned += size - used;
}

/* The kernel's zero page, which backs memory that was only read so far, is present but does not
 * count as resident. */
static bool is_resident(uint64_t entry, const mapping_t *mapping) {
    return entry & PRESENT && (mapping->shared || entry & (OF_FILE | MAPPED_ONCE));
}

/* `bytes` times part / whole. */
static uint64_t share(uint64_t bytes, uint64_t part, uint64_t whole) {
    if (whole == 0) return 0;
    return (uint64_t)((double)bytes * ((double)hak_min(part, whole) / (double)whole));
}

/* The resident bytes of a part of a mapping that is too long for a look at its pages. */
static uint64_t estimate(measure_t *measure, const mapping_t *mapping, uint64_t size,
                         bool is_heap) {
    uint64_t bytes = share(mapping->rss, size, mapping->end - mapping->start);
    if (is_heap) measure->unknown += bytes;
    return bytes;
}

/* Adds the resident bytes of a part of a mapping; in the heap, page by page. */
static uint64_t count_pages(measure_t *measure, const mapping_t *mapping, uint64_t start,
                            uint64_t end, bool is_heap) {
    static uint64_t entries[BATCH];
    uint64_t size = measure->page->head.page_size, bytes = 0, pages = (end - start) / size;
    if (pages > measure->pages_left) return estimate(measure, mapping, end - start, is_heap);
    measure->pages_left -= pages;
    for (uint64_t at = start; at < end;) {
        size_t want = (size_t)hak_min((end - at + size - 1) / size, BATCH) * sizeof *entries;
        ssize_t got = pread(measure->pagemap, entries, want, (off_t)(at / size * sizeof *entries));
        if (got < (ssize_t)sizeof *entries) return bytes;
        for (size_t i = 0; i < (size_t)got / sizeof *entries; i++, at += size) {
            if (!is_resident(entries[i], mapping)) continue;
            bytes += size;
            if (is_heap) count_heap_page(measure, at);
        }
    }
    return bytes;
}

/* Adds the part of a mapping that lies in one range, or in none (NULL). */
static void count_part(measure_t *measure, const mapping_t *mapping, const hak_live_range_t *range,
                       uint64_t start, uint64_t end) {
    bool is_heap = range && range->kind == HAK_RANGE_HEAP;
    bool is_whole = start == mapping->start && end == mapping->end;
    if (start >= end) return;
    uint64_t bytes =
        is_whole && !is_heap ? mapping->rss : count_pages(measure, mapping, start, end, is_heap);
    if (!range) {
        const bool may_be_huge = mapping->is_anonymous && end - start > HAK_LARGE_MAX;
        measure->other += bytes;
        measure->beside += may_be_huge ? bytes : 0;
        measure->beside_size += may_be_huge ? end - start : 0;
    } else if (range->kind == HAK_RANGE_RECORDS)
        measure->records += bytes;
    else if (range->kind == HAK_RANGE_HUGE)
        measure->huge += bytes;
    else if (range->kind == HAK_RANGE_KEPT)
        measure->kept += bytes;
}

static void count_mapping(measure_t *measure, const mapping_t *mapping) {
    uint64_t at = mapping->start;
    if (mapping->is_page) {
        measure->records += mapping->rss;
        return;
    }
    for (size_t i = 0; i < measure->range_count && mapping->rss; i++) {
        const hak_live_range_t *range = measure->ranges[i];
        uint64_t start = hak_max(range->start, at);
        uint64_t end = hak_min(range->start + range->size, mapping->end);
        if (start >= end) continue;
        count_part(measure, mapping, NULL, at, start);
        count_part(measure, mapping, range, start, end);
        at = end;
    }
    if (mapping->rss) count_part(measure, mapping, NULL, at, mapping->end);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Superslabs for which the page has no room, and new ones, are assumed to be like the others. */
static void spread_unknown(measure_t *measure) {
    uint64_t known = measure->sparse + measure->dirty, unknown = measure->unknown;
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) known += measure->in_use[i];
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++)
        measure->in_use[i] += share(unknown, measure->in_use[i], known);
    measure->pinned += share(unknown, measure->pinned, known);
    measure->sparse += share(unknown, measure->sparse, known);
    measure->dirty += share(unknown, measure->dirty, known);
}

/* Huge blocks for which the page has no room lie in anonymous mappings without a range, and have at most as many bytes
 * there as all huge blocks have beyond those that are listed. */
static void find_unlisted(measure_t *measure) {
    const hak_live_page_t *page = measure->page;
    uint64_t unlisted = page->stats.tiers[HAK_STATS_HUGE][HAK_TIER_STAT_live_bytes];
    if (page->ranges_total <= page->range_count) return;
    for (size_t i = 0; i < measure->range_count; i++)
        if (measure->ranges[i]->kind == HAK_RANGE_HUGE)
            unlisted -= hak_min(measure->ranges[i]->size, unlisted);
    const uint64_t bytes = share(measure->beside, unlisted, measure->beside_size);
    measure->huge += bytes;
    measure->other -= bytes;
}

/* Splits the bytes in use of a class into live blocks, cached blocks, and class rounding. */
static void add_class(const measure_t *measure, unsigned class_index, uint64_t bytes,
                      resident_t *resident) {
    uint64_t cached = 0;
    if (class_index <= HAK_CLASS_COUNT) {
        const uint64_t *rows = measure->page->stats.classes[class_index];
        uint64_t blocks = rows[HAK_CLASS_STAT_live] + rows[HAK_CLASS_STAT_cached];
        cached = share(bytes, rows[HAK_CLASS_STAT_cached], blocks);
    }
    const hak_live_asked_t *asked = &measure->page->asked[class_index];
    uint64_t live = bytes - cached;
    uint64_t wanted =
        asked->served_bytes ? share(live, asked->asked_bytes, asked->served_bytes) : live;
    resident->caches += cached;
    resident->live += wanted;
    resident->rounding += live - wanted;
}

static void add_up(measure_t *measure, resident_t *resident) {
    spread_unknown(measure);
    find_unlisted(measure);
    for (unsigned i = 1; i < HAK_CLASS_LIMIT; i++)
        add_class(measure, i, measure->in_use[i], resident);
    add_class(measure, HAK_CLASS_LARGE, measure->huge, resident);
    resident->sparse = measure->sparse;
    resident->pinned = measure->pinned;
    resident->dirty = measure->dirty + measure->kept;
    resident->metadata = measure->records;
    resident->other = measure->other;
}

const char *resident_measure(pid_t pid, const hak_live_page_t *page, resident_t *resident) {
    static measure_t measure;
    char path[PROC_PATH_SIZE];
    measure = (measure_t){
        .pages_left = PAGES_MOST, .page = page, .mappings = measure.mappings, .room = measure.room};
    *resident = (resident_t){0};
    memset(grains, 0, sizeof grains);
    measure.pagemap = open(proc_path(path, pid, "pagemap"), O_RDONLY | O_CLOEXEC);
    FILE *smaps = proc_open(pid, "smaps");
    bool is_read = smaps && measure.pagemap >= 0 && read_mappings(&measure, smaps);
    if (smaps) fclose(smaps);
    if (is_read) {
        sort_places(&measure);
        resident->rss = proc_sum(pid, "Rss");
        for (size_t i = 0; i < measure.count; i++) {
            count_mapping(&measure, &measure.mappings[i]);
            resident->swap += measure.mappings[i].swap;
        }
        add_up(&measure, resident);
    }
    if (measure.pagemap >= 0) close(measure.pagemap);
    return is_read ? NULL : "its smaps and pagemap in /proc cannot be read";
}
