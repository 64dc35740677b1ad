/* machine.c: caches and transfers. */
#include "machine.h"

#include <string.h>

#include "lines.h"
#include "sites.h"

typedef enum { LOST, SHARED, OWNED } state_t;

/* A place in a cache. A line that was lost stays listed, so that the next miss knows what the CPU
 * had seen of it. */
typedef struct {
    uint64_t line; /* number + 1; 0 = never used */
    line_t *record;
    uint32_t used;    /* time of the last use */
    uint32_t version; /* of the line when the CPU lost it, or last lost it */
    uint32_t site;    /* of the move that brought it, while it is a suspect */
    uint8_t state;
    uint8_t suspect; /* nothing that others wrote has been used since the move */
} way_t;

machine_options_t machine_options;
machine_totals_t machine_totals;
uint64_t machine_clock[CPUS_MOST];

static way_t *caches; /* cpus x sets x ways */
static unsigned sets;
static uint32_t now; /* a counter of accesses, for the order of use */

void machine_start(void) {
    sets = machine_options.cache_kib * 1024 / LINE_SIZE / machine_options.ways;
    caches = scale_map(sizeof *caches * machine_options.cpus * sets * machine_options.ways);
}

static way_t *set_of(unsigned cpu, uint64_t line) {
    return caches + ((size_t)cpu * sets + line % sets) * machine_options.ways;
}

static way_t *find(unsigned cpu, uint64_t line) {
    way_t *way = set_of(cpu, line), *end = way + machine_options.ways;
    for (; way < end; way++)
        if (way->line == line + 1) return way;
    return NULL;
}

static void set_bit(uint64_t *bits, unsigned cpu, bool on) {
    uint64_t bit = (uint64_t)1 << cpu % 64;
    if (on)
        bits[cpu / 64] |= bit;
    else
        bits[cpu / 64] &= ~bit;
}

static void set_sharer(detail_t *detail, unsigned cpu, bool on) {
    set_bit(detail->sharers, cpu, on);
}

static void convict(way_t *way) {
    if (!way->suspect) return;
    way->suspect = 0;
    way->record->detail->false_moves++;
    sites_at(way->site)->false_moves++;
}

static void lose(way_t *way) {
    convict(way);
    way->state = LOST;
    if (way->record->detail) way->version = way->record->detail->version;
}

/* The least recently used place, one of a lost line first. A copy there is given up. */
static way_t *make_room(unsigned cpu, uint64_t line) {
    way_t *way = set_of(cpu, line), *end = way + machine_options.ways, *victim = way;
    for (; way < end; way++) {
        if ((way->state == LOST) != (victim->state == LOST)) {
            if (way->state == LOST) victim = way;
        } else if (way->used < victim->used) {
            victim = way;
        }
    }
    if (victim->state != LOST) {
        lose(victim);
        if (victim->record->owner == (int)cpu) victim->record->owner = NOBODY;
        if (victim->record->detail) set_sharer(victim->record->detail, cpu, false);
    }
    *victim = (way_t){.line = line + 1};
    return victim;
}

/* True when others have written one of these words since the CPU lost the line. */
static bool uses_news(const detail_t *detail, uint32_t known, unsigned cpu, uint32_t words) {
    for (; words; words &= words - 1) {
        int i = __builtin_ctz(words);
        if (detail->word_writer[i] != NOBODY && detail->word_writer[i] != (int)cpu &&
            detail->word_version[i] > known)
            return true;
    }
    return false;
}

static void write_words(line_t *record, unsigned cpu, uint32_t words) {
    detail_t *detail = record->detail;
    if (!detail) {
        record->written |= (uint16_t)words;
        return;
    }
    detail->is_written = true;
    memset(detail->seen, 0, sizeof detail->seen);
    set_bit(detail->seen, cpu, true);
    for (; words; words &= words - 1) {
        int i = __builtin_ctz(words);
        detail->word_writer[i] = (int16_t)cpu;
        detail->word_version[i] = detail->version;
    }
}

typedef struct {
    unsigned others;
    bool is_near, is_far; /* one of them is in the CPU's node; in another one */
} holders_t;

static void look_at(holders_t *holders, unsigned cpu, unsigned other) {
    if (other == cpu) return;
    holders->others++;
    if (machine_node(other) == machine_node(cpu))
        holders->is_near = true;
    else
        holders->is_far = true;
}

static holders_t holders_of(const line_t *record, unsigned cpu) {
    holders_t holders = {0};
    if (record->owner != NOBODY) look_at(&holders, cpu, (unsigned)record->owner);
    for (unsigned i = 0; record->detail && i < CPUS_MOST / 64; i++)
        for (uint64_t bits = record->detail->sharers[i]; bits; bits &= bits - 1)
            look_at(&holders, cpu, i * 64 + (unsigned)__builtin_ctzll(bits));
    return holders;
}

static void lose_at(unsigned other, uint64_t line) {
    way_t *way = find(other, line);
    if (way && way->state != LOST) lose(way);
}

/* No CPU but this one holds the line any longer. */
static void invalidate_others(line_t *record, uint64_t line, unsigned cpu) {
    if (record->owner != NOBODY && record->owner != (int)cpu)
        lose_at((unsigned)record->owner, line);
    for (unsigned i = 0; record->detail && i < CPUS_MOST / 64; i++) {
        for (uint64_t bits = record->detail->sharers[i]; bits; bits &= bits - 1) {
            unsigned other = i * 64 + (unsigned)__builtin_ctzll(bits);
            if (other != cpu) lose_at(other, line);
        }
        record->detail->sharers[i] = 0;
    }
}

/* The only owner goes on with a shared copy. */
static void share_of_owner(line_t *record, uint64_t line) {
    if (record->owner == NOBODY) return;
    way_t *way = find((unsigned)record->owner, line);
    if (way && way->state == OWNED) way->state = SHARED;
    set_sharer(record->detail, (unsigned)record->owner, true);
    record->owner = NOBODY;
}

/* Pays for a transfer; `serial` ones at a line come one after the other. */
static void pay(detail_t *detail, site_t *site, unsigned cpu, bool is_far, bool is_serial) {
    uint64_t *clock = &machine_clock[cpu];
    if (detail->busy_until > *clock) {
        site->line_wait_ns += detail->busy_until - *clock;
        detail->wait_ns += detail->busy_until - *clock;
        *clock = detail->busy_until;
    }
    *clock += is_far ? machine_options.far_ns : machine_options.near_ns;
    if (is_serial) detail->busy_until = *clock;
}

static void transfer(way_t *way, uint64_t line, unsigned cpu, bool writes, uint32_t words,
                     const holders_t *holders, const void *pc) {
    line_t *record = way->record;
    detail_t *detail = lines_detail(record, line);
    const uint32_t index = sites_index(pc);
    site_t *site = sites_at(index);
    const bool is_far = writes ? holders->is_far : !holders->is_near;
    detail->transfers++;
    detail->far += is_far;
    site->far += is_far;
    lines_note_site(detail, index);
    pay(detail, site, cpu, is_far, writes || record->owner != NOBODY);
    if (way->state == SHARED) {
        site->upgrades++;
    } else {
        site->moves++;
        way->suspect = !uses_news(detail, way->version, cpu, words);
        way->site = index;
    }
    if (writes) {
        site->invalidations += holders->others;
        detail->invalidations += holders->others;
        invalidate_others(record, line, cpu);
    } else {
        share_of_owner(record, line);
    }
}

/* True when nobody has written in the line since the CPU last held it, or ever. */
static bool has_seen(const detail_t *detail, unsigned cpu) {
    return !detail->is_written || (detail->seen[cpu / 64] >> cpu % 64 & 1);
}

/* The CPU has no copy, or a shared one and wants to write. */
static void miss(way_t *way, uint64_t line, unsigned cpu, bool writes, uint32_t words,
                 const void *pc) {
    line_t *record = way->record;
    if (!record->detail && record->first != NOBODY && record->first != (int)cpu)
        lines_detail(record, line);
    if (record->first == NOBODY) record->first = (int16_t)cpu;
    holders_t holders = holders_of(record, cpu);
    bool copies = holders.others && !writes && has_seen(record->detail, cpu);
    if (copies) share_of_owner(record, line);
    if (holders.others && !copies) {
        transfer(way, line, cpu, writes, words, &holders, pc);
    } else if (way->state == LOST) {
        machine_totals.fetches++;
        machine_totals.copies += copies;
        machine_clock[cpu] += machine_options.fetch_ns;
    }
    bool owns = writes || !holders.others;
    way->state = owns ? OWNED : SHARED;
    if (owns) record->owner = (int16_t)cpu;
    if (!record->detail) return;
    set_bit(record->detail->seen, cpu, true);
    set_sharer(record->detail, cpu, !owns);
    if (owns) record->detail->version++; /* what others knew is older */
}

static void touch(unsigned cpu, uint64_t line, uint32_t words, access_t kind, const void *pc) {
    const bool writes = kind != ACCESS_READ;
    way_t *way = find(cpu, line);
    machine_totals.accesses++;
    if (!way) {
        way = make_room(cpu, line);
        way->record = lines_of(line);
    }
    way->used = ++now;
    if (way->state == LOST || (writes && way->state != OWNED)) {
        miss(way, line, cpu, writes, words, pc);
    } else if (way->suspect && uses_news(way->record->detail, way->version, cpu, words)) {
        way->suspect = 0;
    }
    if (writes) write_words(way->record, cpu, words);
    machine_clock[cpu] += machine_options.hit_ns;
}

void machine_access(unsigned cpu, const void *addr, size_t size, access_t kind, const void *pc) {
    const uintptr_t from = (uintptr_t)addr, end = from + (size ? size : 1);
    const uint64_t before = machine_totals.accesses;
    for (uint64_t line = from / LINE_SIZE; line * LINE_SIZE < end; line++) {
        uintptr_t low = line * LINE_SIZE > from ? line * LINE_SIZE : from;
        uintptr_t high = (line + 1) * LINE_SIZE < end ? (line + 1) * LINE_SIZE : end;
        unsigned first = low % LINE_SIZE / 4, last = (high - 1) % LINE_SIZE / 4;
        touch(cpu, line, (2u << last) - (1u << first), kind, pc);
    }
    const uint32_t index = sites_index(pc);
    site_t *site = sites_at(index);
    site->accesses += machine_totals.accesses - before;
    if (kind != ACCESS_UPDATE) return;
    site->updates++;
    const line_t *record = lines_look(from / LINE_SIZE);
    if (record && record->detail) lines_note_update(record->detail, index, cpu);
}

static void drop(uint64_t number, line_t *record) {
    if (record->first == NOBODY) return;
    invalidate_others(record, number, CPUS_MOST);
    record->owner = record->first = NOBODY;
    record->written = 0;
    if (!record->detail) return;
    record->detail->version++;
    record->detail->is_written = false;
    for (int i = 0; i < LINE_WORDS; i++) record->detail->word_writer[i] = NOBODY;
}

void machine_drop(const void *addr, size_t size) {
    uint64_t from = (uintptr_t)addr / LINE_SIZE;
    lines_each(from, from + size / LINE_SIZE, drop);
}

void machine_reset(void) {
    size_t count = (size_t)machine_options.cpus * sets * machine_options.ways;
    for (size_t i = 0; i < count; i++) caches[i].suspect = 0;
    machine_totals = (machine_totals_t){0};
    lines_reset();
    sites_reset();
}
