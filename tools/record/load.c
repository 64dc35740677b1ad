/* load.c: see load.h. Three passes: how many events there are, the events in the order of their
 * stamps, numbers instead of addresses. */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { PLAIN_MOST = 1 << 20 };

/* More than a trace of the usual 1 GiB can have: the chunk of a thread takes 30 bytes. */
enum { THREADS_MOST = 1 << 26 };

/* A thread that ends unseen, as all do when the process is killed, takes a buffer of events with it. So
 * many threads may have left nothing at all. More stamps without an event are damage. */
enum { LOST_OF_THREAD = 22000, UNSEEN_THREADS = 1024 };
#define EMPTY 0ull
#define GONE 1ull /* no block lies there */
#define NOBODY UINT64_MAX

typedef struct {
    const unsigned char *at, *end;
    bool is_good;
} reader_t;

/* Live blocks by address: open addressing, linear probing. */
typedef struct {
    struct entry {
        uint64_t address, block;
    } *entries;
    size_t mask;
} map_t;

typedef struct {
    map_t map;
    uint64_t *sizes;     /* of each number */
    uint64_t *free_ones; /* numbers that may be used again */
    size_t free_count;
    uint64_t *taken; /* by thread: the block that its realloc holds */
    uint64_t live;
} numbering_t;

void load_fail(const char *format, ...) {
    va_list arguments;
    fputs("hakmem-replay: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void *load_memory(size_t size) {
    int file = memfd_create("hakmem-replay", MFD_CLOEXEC);
    size = size ? size : 1;
    if (file < 0 || ftruncate(file, (off_t)size) != 0)
        load_fail("no memory for the trace: %s", strerror(errno));
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) load_fail("no memory for the trace: %s", strerror(errno));
    close(file);
    return memory;
}

static uint64_t number(reader_t *reader) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (reader->at == reader->end) break;
        unsigned char byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    reader->is_good = false;
    return 0;
}

/* The next event of a chunk. *stamp and step->block hold those of the event before. */
static bool event(reader_t *reader, uint64_t *stamp, step_t *step) {
    if (reader->at == reader->end) return false;
    step->kind = *reader->at++;
    if (__builtin_add_overflow(*stamp, number(reader), stamp)) reader->is_good = false;
    uint64_t delta = number(reader);
    step->block += delta >> 1 ^ -(delta & 1);
    bool has_size = step->kind == TRACE_MALLOC || step->kind == TRACE_CALLOC ||
                    step->kind == TRACE_ALIGNED || step->kind == TRACE_GIVE;
    step->size = has_size ? number(reader) : 0;
    uint64_t align_log2 = step->kind == TRACE_ALIGNED ? number(reader) : 0;
    step->align_log2 = (uint8_t)align_log2;
    if (step->kind == TRACE_NONE || step->kind >= TRACE_KINDS || align_log2 > TRACE_ALIGN_MOST)
        reader->is_good = false;
    return reader->is_good;
}

/* Calls visit() with each chunk, unpacked. A chunk that was cut off ends the file. */
static void each_chunk(const unsigned char *file, size_t size, trace_t *trace,
                       void (*visit)(trace_t *, const trace_chunk_t *, reader_t)) {
    static unsigned char plain[PLAIN_MOST];
    size_t at = TRACE_MAGIC_SIZE;
    trace_chunk_t chunk;
    for (; at + sizeof chunk <= size; at += chunk.packed) {
        memcpy(&chunk, file + at, sizeof chunk);
        at += sizeof chunk;
        if (chunk.packed > size - at) return;
        uLongf length = sizeof plain;
        if (chunk.plain > sizeof plain ||
            uncompress(plain, &length, file + at, chunk.packed) != Z_OK || length != chunk.plain)
            load_fail("the trace is damaged at byte %zu", at);
        visit(trace, &chunk, (reader_t){plain, plain + length, true});
    }
}

static char no_end[1];

static void count(trace_t *trace, const trace_chunk_t *chunk, reader_t reader) {
    if (chunk->thread == TRACE_END) {
        if (trace->end != no_end) load_fail("the trace is damaged: it ends twice");
        trace->end = load_memory(chunk->plain + 1);
        memcpy(trace->end, reader.at, chunk->plain);
        return;
    }
    uint64_t stamp = 0;
    step_t step = {0};
    uint32_t events = 0;
    while (event(&reader, &stamp, &step)) events++;
    trace->stamps_most += events + LOST_OF_THREAD;
    if (!reader.is_good || events != chunk->events || chunk->thread >= THREADS_MOST ||
        stamp == UINT64_MAX)
        load_fail("the trace is damaged: a chunk of thread %u", chunk->thread);
    if (stamp >= trace->count) trace->count = stamp + 1;
    if (chunk->thread >= trace->threads) trace->threads = chunk->thread + 1;
}

static void place(trace_t *trace, const trace_chunk_t *chunk, reader_t reader) {
    uint64_t stamp = 0;
    step_t step = {0};
    if (chunk->thread == TRACE_END) return;
    while (event(&reader, &stamp, &step)) {
        step.thread = chunk->thread;
        trace->steps[stamp] = step;
    }
}

static struct entry *slot(map_t *map, uint64_t address) {
    size_t at = (address >> 3) * 0x9e3779b97f4a7c15ull >> 20 & map->mask;
    struct entry *first_gone = NULL;
    for (;; at = (at + 1) & map->mask) {
        struct entry *entry = &map->entries[at];
        if (entry->address == address) return entry;
        if (entry->address == GONE && !first_gone) first_gone = entry;
        if (entry->address == EMPTY) return first_gone ? first_gone : entry;
    }
}

/* The block at the address, which the map forgets; NOBODY when it knows none. */
static uint64_t take(numbering_t *all, uint64_t address) {
    struct entry *entry = slot(&all->map, address);
    if (entry->address != address || address <= GONE) return NOBODY;
    entry->address = GONE;
    return entry->block;
}

static void give(numbering_t *all, uint64_t address, uint64_t block, uint64_t size) {
    struct entry *entry = slot(&all->map, address);
    entry->address = address;
    entry->block = block;
    all->live += size - all->sizes[block];
    all->sizes[block] = size;
}

static uint64_t fresh(trace_t *trace, numbering_t *all) {
    return all->free_count ? all->free_ones[--all->free_count] : trace->blocks++;
}

static void release(numbering_t *all, uint64_t block) {
    all->live -= all->sizes[block];
    all->sizes[block] = 0;
    all->free_ones[all->free_count++] = block;
}

/* A block that frees itself: the step becomes FREE, or nothing when the trace does not know it. */
static void end_block(trace_t *trace, numbering_t *all, step_t *step, uint64_t block) {
    step->kind = block == NOBODY ? TRACE_NONE : TRACE_FREE;
    step->block = block;
    if (block == NOBODY)
        trace->foreign++;
    else
        release(all, block);
}

/* The end of a realloc: the block may be one of which the trace does not know the beginning. */
static void end_realloc(trace_t *trace, numbering_t *all, step_t *step) {
    uint64_t address = step->block, block = all->taken[step->thread];
    all->taken[step->thread] = NOBODY;
    if (step->kind == TRACE_DROP) {
        end_block(trace, all, step, block);
        return;
    }
    bool is_kept = step->kind == TRACE_KEEP;
    if (is_kept) step->kind = TRACE_NONE;
    if (block == NOBODY) {
        if (is_kept) return;
        step->kind = TRACE_MALLOC;
        block = fresh(trace, all);
    }
    give(all, address, block, is_kept ? all->sizes[block] : step->size);
    step->block = block;
}

static void number_step(trace_t *trace, numbering_t *all, step_t *step) {
    uint64_t address = step->block;
    switch (step->kind) {
    case TRACE_NONE:
        trace->lost++;
        return;
    case TRACE_FREE:
        end_block(trace, all, step, take(all, address));
        return;
    case TRACE_TAKE:
        all->taken[step->thread] = take(all, address);
        step->kind = TRACE_NONE;
        return;
    case TRACE_GIVE:
    case TRACE_KEEP:
    case TRACE_DROP:
        end_realloc(trace, all, step);
        return;
    default:
        step->block = fresh(trace, all);
        give(all, address, step->block, step->size);
    }
}

/* Numbers instead of addresses, and the peak. An address that is given out while the trace holds it
 * for live was freed unseen: the old block stays live to the end. */
static void number_all(trace_t *trace) {
    size_t slots = 1024;
    while (slots < 2 * trace->count) slots *= 2;
    numbering_t all = {{load_memory(slots * sizeof(struct entry)), slots - 1},
                       load_memory(trace->count * sizeof(uint64_t)),
                       load_memory(trace->count * sizeof(uint64_t)),
                       0,
                       load_memory((trace->threads + 1) * sizeof(uint64_t)),
                       0};
    for (uint32_t i = 0; i < trace->threads; i++) all.taken[i] = NOBODY;
    for (size_t i = 0; i < trace->count; i++) {
        number_step(trace, &all, &trace->steps[i]);
        if (all.live <= trace->peak_bytes) continue;
        trace->peak_bytes = all.live;
        trace->peak_step = i;
    }
}

trace_t load(const char *path) {
    trace_t trace = {.end = no_end, .stamps_most = (size_t)UNSEEN_THREADS * LOST_OF_THREAD};
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0) load_fail("%s: %s", path, strerror(errno));
    size_t size = (size_t)about.st_size;
    if (!S_ISREG(about.st_mode) || size < TRACE_MAGIC_SIZE) load_fail("%s is not a trace", path);
    unsigned char *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED) load_fail("%s: %s", path, strerror(errno));
    close(file);
    if (memcmp(bytes, TRACE_MAGIC, TRACE_MAGIC_SIZE) != 0) load_fail("%s is not a trace", path);
    each_chunk(bytes, size, &trace, count);
    if (trace.count == 0)
        load_fail("%s holds no events%s", path,
                  *trace.end ? "" : ": the program was killed while they were in its memory");
    if (trace.count > trace.stamps_most) load_fail("the trace is damaged: stamps without events");
    trace.steps = load_memory(trace.count * sizeof(step_t));
    each_chunk(bytes, size, &trace, place);
    munmap(bytes, size);
    number_all(&trace);
    return trace;
}
