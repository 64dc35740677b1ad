/* memory.c: vector clocks of threads and atomic variables, and a shadow of the tracked lines.
 *
 * clock[t][u] is how many of u's operations happened before what t does next. A byte remembers its
 * last write and each thread's last read; an access that one of these is not in the clock of is a
 * race. An atomic variable carries the clock that its last release published; an operation that
 * reads and writes leaves the release before it in force.
 *
 * Times have 16 bits: the marks of a byte fill half a line of a CPU's cache, and an execution of a whole
 * engine, which is a process of its own, touches half the pages. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "explore.h"

enum {
    LINE_SIZE = 64,
    LINES_MAX = 16384,
    LINE_SLOTS = 65536, /* of the table from address to line; a power of two */
    SEEN_LINES = 256,
    CELLS_MAX = 16384,
    CELL_SLOTS = 65536,
    CELL_SPACING = 16, /* bytes for each atomic variable, mostly */
    FORBIDDEN_MAX = 32,
    LEFT_OUT_MAX = 8,
    OLD_MAX = 8,         /* variables whose old values are kept */
    OLD_STORES_MAX = 64, /* values of each, the first one included */
};

/* What happened before: operations of each thread, and of each variable with old values the store that may be
 * read at the earliest. */
typedef struct {
    uint16_t by_thread[EXPLORE_THREADS_MAX];
    uint8_t oldest[OLD_MAX];
} clock_vector_t;

typedef struct {
    uint16_t write_time, read_time[EXPLORE_THREADS_MAX];
    uint8_t writer;
} byte_t;

typedef struct {
    uint64_t execution; /* the bytes' marks are those of this one */
    byte_t bytes[LINE_SIZE];
} line_t;

typedef struct {
    uintptr_t address;
    uint64_t last_store;       /* its thread and time */
    unsigned touched, written; /* bit per thread */
    clock_vector_t released;
} cell_t;

static line_t lines[LINES_MAX];
static unsigned line_count;
static struct {
    uintptr_t address;
    line_t *line; /* NULL: free */
} line_slots[LINE_SLOTS];

/* What the table said last, of few addresses: also that a line is not tracked, which takes the longest
 * to find out. 0 is no line. */
static struct {
    uintptr_t address;
    line_t *line;
} seen[SEEN_LINES];

static cell_t cells[CELLS_MAX];
static unsigned cell_count;
static struct {
    uint64_t execution;
    uint16_t index;
} cell_slots[CELL_SLOTS];

static struct {
    uintptr_t start, end;
} forbidden[FORBIDDEN_MAX];
static unsigned forbidden_count;

static struct {
    uintptr_t start, end;
} left_out[LEFT_OUT_MAX];
static unsigned left_out_count;
static bool tracks_all;

static uint64_t execution;
static clock_vector_t clock_of[EXPLORE_THREADS_MAX];
static uint64_t history[EXPLORE_THREADS_MAX];
static uint64_t
    stores; /* the last store of every variable, in one number; all stores of one with old values */

/* Variables of which a load may return an old value, and their stores in the order in which they were made. */
typedef struct {
    uint64_t value, store;
    clock_vector_t released;
} old_store_t;
static struct {
    uintptr_t address;
    unsigned last; /* of the stores; 0: the one before the threads' first one */
    old_store_t stores[OLD_STORES_MAX];
} old_values[OLD_MAX];
static unsigned old_count;
static bool old_is_chosen; /* what the operation under way reads; else it is the newest */
static clock_vector_t
    fenced; /* what threads knew of them at their sequentially consistent fences */
static clock_vector_t
    published[EXPLORE_THREADS_MAX]; /* what a thread knew at its last fence that releases */
static clock_vector_t
    read_so_far[EXPLORE_THREADS_MAX]; /* what its next fence that acquires makes it know */

uint64_t memory_mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2))) * 0xFF51AFD7ED558CCDu;
    x = (x ^ x >> 32) * 0xC4CEB9FE1A85EC53u;
    return x ^ x >> 29;
}

/* Where a table of `slots` entries begins to look for what is number `index` in memory. Neighbours in
 * memory are neighbours there: an execution of a bounded search is a new process, and each page of a
 * table that it touches costs it a fault. */
static unsigned first_slot(uintptr_t index, unsigned slots) {
    enum { GROUP = 256 };
    uintptr_t group = (index / GROUP * 0x9E3779B97F4A7C15u >> 32) % (slots / GROUP);
    return (unsigned)(group * GROUP + index % GROUP);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static unsigned line_slot(uintptr_t address) {
    unsigned slot = first_slot(address / LINE_SIZE, LINE_SLOTS);
    while (line_slots[slot].line && line_slots[slot].address != address)
        slot = (slot + 1) % LINE_SLOTS;
    return slot;
}

static void enter_line(unsigned slot, uintptr_t address) {
    EXPLORE_CHECK(line_count < LINES_MAX, "too many tracked lines");
    line_slots[slot].address = address;
    line_slots[slot].line = &lines[line_count++];
    seen[address / LINE_SIZE % SEEN_LINES].address = 0;
}

static bool is_left_out(uintptr_t address) {
    for (unsigned i = 0; i < left_out_count; i++)
        if (address >= left_out[i].start && address < left_out[i].end) return true;
    return false;
}

static line_t *find_line(uintptr_t start, uintptr_t address) {
    unsigned slot = line_slot(start);
    if (!line_slots[slot].line && tracks_all && !is_left_out(address)) enter_line(slot, start);
    return line_slots[slot].line;
}

/* Every access of the checked code comes here: mostly one look. */
static line_t *line_of(uintptr_t address) {
    uintptr_t start = address & ~(uintptr_t)(LINE_SIZE - 1);
    unsigned i = start / LINE_SIZE % SEEN_LINES;
    if (seen[i].address != start) {
        line_t *line = find_line(start, address);
        /* A part of a line may be left out: then the line is not tracked for this address alone. */
        if (!line && tracks_all) return NULL;
        seen[i].address = start;
        seen[i].line = line;
    }
    return seen[i].line;
}

void memory_track(const volatile void *start, size_t size) {
    uintptr_t first = (uintptr_t)start & ~(uintptr_t)(LINE_SIZE - 1);
    for (uintptr_t address = first; address < (uintptr_t)start + size; address += LINE_SIZE) {
        unsigned slot = line_slot(address);
        if (!line_slots[slot].line) enter_line(slot, address);
    }
}

void memory_track_all(void) {
    tracks_all = true;
    memset(seen, 0, sizeof seen);
}

void memory_leave_out(const volatile void *start, size_t size) {
    for (unsigned i = 0; i < left_out_count; i++)
        if (left_out[i].start == (uintptr_t)start) return;
    if (left_out_count == LEFT_OUT_MAX) abort();
    left_out[left_out_count].start = (uintptr_t)start;
    left_out[left_out_count++].end = (uintptr_t)start + size;
}

bool memory_is_tracked(const volatile void *address) {
    if (tracks_all) return !is_left_out((uintptr_t)address);
    return line_of((uintptr_t)address) != NULL;
}

void memory_forbid(const volatile void *start, size_t size) {
    EXPLORE_CHECK(forbidden_count < FORBIDDEN_MAX, "too many forbidden ranges");
    forbidden[forbidden_count].start = (uintptr_t)start;
    forbidden[forbidden_count++].end = (uintptr_t)start + size;
}

static void check_allowed(const volatile void *address, size_t size) {
    for (unsigned i = 0; i < forbidden_count; i++)
        EXPLORE_CHECK((uintptr_t)address >= forbidden[i].end ||
                          (uintptr_t)address + size <= forbidden[i].start,
                      "%s is used after it was given back", explore_name(address));
}

/* ---- Plain accesses -------------------------------------------------------------------------- */

static void check_race(const byte_t *byte, bool writes, const volatile void *address) {
    const clock_vector_t *clock = &clock_of[explore_thread()];
    EXPLORE_CHECK(byte->write_time <= clock->by_thread[byte->writer],
                  "data race: nothing orders this %s of %s after thread %u's write",
                  writes ? "write" : "read", explore_name(address), byte->writer);
    for (unsigned i = 1; writes && i < EXPLORE_THREADS_MAX; i++)
        EXPLORE_CHECK(byte->read_time[i] <= clock->by_thread[i],
                      "data race: nothing orders this write of %s after thread %u's read",
                      explore_name(address), i);
}

/* The bytes of an access that lie in one line. */
static void access_line(line_t *line, uintptr_t at, size_t size, bool writes) {
    if (line->execution != execution) {
        memset(line->bytes, 0, sizeof line->bytes);
        line->execution = execution;
    }
    unsigned thread = explore_thread();
    uint16_t now = clock_of[thread].by_thread[thread];
    byte_t *byte = &line->bytes[at % LINE_SIZE];
    for (size_t i = 0; i < size; i++, byte++) {
        check_race(byte, writes, (const volatile void *)(at + i));
        if (writes) {
            byte->write_time = now;
            byte->writer = (uint8_t)thread;
        } else {
            byte->read_time[thread] = now;
        }
    }
}

static void access_memory(const volatile void *address, size_t size, bool writes) {
    if (explore_thread() == 0) return;
    uintptr_t at = (uintptr_t)address, end = at + size;
    line_t *line = line_of(at);
    if (!line) return;
    explore_note("%s %s", writes ? "write" : "read", explore_name(address));
    check_allowed(address, size);
    while (at < end) {
        size_t rest = LINE_SIZE - at % LINE_SIZE;
        if (rest > end - at) rest = end - at;
        if (line) access_line(line, at, rest, writes);
        at += rest;
        line = at < end ? line_of(at) : NULL;
    }
}

void memory_read(const volatile void *address, size_t size) { access_memory(address, size, false); }

void memory_write(const volatile void *address, size_t size) {
    if (memory_is_tracked(address)) memory_fence();
    access_memory(address, size, true);
}

/* ---- Atomic operations ----------------------------------------------------------------------- */

static cell_t *cell_of(uintptr_t address) {
    unsigned slot = first_slot(address / CELL_SPACING, CELL_SLOTS);
    for (; cell_slots[slot].execution == execution; slot = (slot + 1) % CELL_SLOTS)
        if (cells[cell_slots[slot].index].address == address) return &cells[cell_slots[slot].index];
    EXPLORE_CHECK(cell_count < CELLS_MAX, "too many atomic variables");
    cell_slots[slot].execution = execution;
    cell_slots[slot].index = (uint16_t)cell_count;
    cells[cell_count] = (cell_t){.address = address};
    return &cells[cell_count++];
}

/* Of variables with old values alone: fences order no plain accesses here. */
static void join_old(clock_vector_t *into, const clock_vector_t *other) {
    for (unsigned i = 0; i < old_count; i++)
        if (into->oldest[i] < other->oldest[i]) into->oldest[i] = other->oldest[i];
}

static void join(clock_vector_t *into, const clock_vector_t *other) {
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        if (into->by_thread[i] < other->by_thread[i]) into->by_thread[i] = other->by_thread[i];
    join_old(into, other);
}

/* What the thread does next has a time of its own. */
static void advance(unsigned thread) {
    EXPLORE_CHECK(++clock_of[thread].by_thread[thread] != 0, "a thread has too many steps");
}

static bool acquires(int order) {
    return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME || order == __ATOMIC_ACQ_REL ||
           order == __ATOMIC_SEQ_CST;
}

static bool releases(int order) {
    return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

/* A plain write that nothing orders before an atomic operation on the same bytes. */
static void check_plain_writes(const volatile void *address, size_t size) {
    const line_t *line = line_of((uintptr_t)address);
    if (!line || line->execution != execution) return;
    for (size_t i = 0; i < size; i++)
        check_race(&line->bytes[(uintptr_t)address % LINE_SIZE + i], false, address);
}

void (*memory_signal)(void);

void memory_interrupt(void) {
    if (memory_signal && explore_thread() != 0) memory_signal();
}

void memory_atomic_begin(const volatile void *address, size_t size) {
    memory_interrupt();
    explore_step_at(address);
    if (explore_thread() == 0) return;
    check_allowed(address, size);
    check_plain_writes(address, size);
}

/* ---- Old values ------------------------------------------------------------------------------ */

void memory_keep_old(const volatile void *address) {
    EXPLORE_CHECK(old_count < OLD_MAX, "too many variables with old values");
    old_values[old_count].address = (uintptr_t)address;
    old_values[old_count++].last = 0;
}

/* Its number, or OLD_MAX. */
static unsigned old_number(const volatile void *address) {
    unsigned number = 0;
    while (number < old_count && old_values[number].address != (uintptr_t)address) number++;
    return number < old_count ? number : OLD_MAX;
}

uint64_t memory_choose_old(const volatile void *address, uint64_t newest, int order) {
    const unsigned number = old_number(address), thread = explore_thread();
    if (number == OLD_MAX || thread == 0 || old_values[number].last == 0) return newest;
    uint8_t *oldest = &clock_of[thread].oldest[number];
    if (order == __ATOMIC_SEQ_CST && *oldest < fenced.oldest[number])
        *oldest = fenced.oldest[number];
    const unsigned back = explore_choose(old_values[number].last - *oldest + 1);
    *oldest = (uint8_t)(old_values[number].last - back);
    old_is_chosen = true;
    if (back) explore_note("the next load is of an old value, %u stores behind", back);
    return old_values[number].stores[*oldest].value;
}

void memory_order_fence(int order) {
    const unsigned thread = explore_thread();
    clock_vector_t *const clock = &clock_of[thread];
    if (thread == 0 || !old_count) return;
    if (acquires(order)) join_old(clock, &read_so_far[thread]);
    if (order == __ATOMIC_SEQ_CST) {
        join_old(clock, &fenced);
        join_old(&fenced, clock);
    }
    if (releases(order)) published[thread] = *clock;
    for (unsigned i = 0; i < old_count; i++) memory_learn(clock->oldest[i]);
}

/* The store that a thread reads; NULL before the first one. */
static const old_store_t *old_read(unsigned number, unsigned thread) {
    const unsigned last = old_values[number].last;
    if (!old_is_chosen) clock_of[thread].oldest[number] = (uint8_t)last;
    old_is_chosen = false;
    return last ? &old_values[number].stores[clock_of[thread].oldest[number]] : NULL;
}

/* After a store of the thread; `released`: what it publishes. */
static void old_write(unsigned number, uint64_t before, uint64_t after, uint64_t store,
                      const clock_vector_t *released) {
    const unsigned last = ++old_values[number].last;
    EXPLORE_CHECK(last < OLD_STORES_MAX, "too many stores of a variable with old values");
    if (last == 1) old_values[number].stores[0] = (old_store_t){.value = before};
    old_values[number].stores[last] = (old_store_t){after, store, *released};
    stores ^= memory_mix(old_values[number].address + last, store);
}

void memory_atomic_end(const volatile void *address, const char *operation, bool reads, bool writes,
                       int order, uint64_t before, uint64_t after) {
    unsigned thread = explore_thread();
    if (thread == 0) return;
    clock_vector_t *clock = &clock_of[thread];
    cell_t *cell = cell_of((uintptr_t)address);
    explore_note("%s %s: %#llx -> %#llx", operation, explore_name(address),
                 (unsigned long long)before, (unsigned long long)after);
    cell->touched |= 1u << thread;
    if (writes) cell->written |= 1u << thread;
    history[thread] = memory_mix(history[thread], cell->address * 2 + writes);
    const unsigned number = old_number(address);
    if (reads) {
        const old_store_t *old = number < OLD_MAX ? old_read(number, thread) : NULL;
        const uint64_t store = old ? old->store : cell->last_store;
        history[thread] = memory_mix(history[thread], memory_mix(store, before));
        const clock_vector_t *const released = old ? &old->released : &cell->released;
        if (acquires(order)) join(clock, released);
        join_old(&read_so_far[thread], released);
    }
    if (writes) {
        if (number < OLD_MAX) clock->oldest[number] = (uint8_t)(old_values[number].last + 1);
        if (!reads) memset(&cell->released, 0, sizeof cell->released);
        if (releases(order)) join(&cell->released, clock);
        join_old(&cell->released, &published[thread]);
        if (cell->last_store) stores ^= memory_mix(cell->address, cell->last_store);
        cell->last_store = (uint64_t)thread << 32 | clock->by_thread[thread];
        stores ^= memory_mix(cell->address, cell->last_store);
        if (number < OLD_MAX) {
            old_write(number, before, after, cell->last_store, &cell->released);
            if (order == __ATOMIC_SEQ_CST && fenced.oldest[number] < clock->oldest[number])
                fenced.oldest[number] = clock->oldest[number];
        }
    }
    advance(thread);
}

void memory_learn(uint64_t value) {
    unsigned thread = explore_thread();
    history[thread] = memory_mix(history[thread], value);
}

void memory_reset(void) {
    memory_forget_delayed();
    old_count = 0;
    memset(&fenced, 0, sizeof fenced);
    memset(published, 0, sizeof published);
    memset(read_so_far, 0, sizeof read_so_far);
    execution++;
    cell_count = forbidden_count = 0;
    stores = 0;
    memset(history, 0, sizeof history);
    memset(clock_of, 0, sizeof clock_of);
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) clock_of[i].by_thread[i] = 1;
}

void memory_join(void) {
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        join(&clock_of[explore_thread()], &clock_of[i]);
}

void memory_start(unsigned thread) {
    join(&clock_of[thread], &clock_of[explore_thread()]);
    advance(explore_thread());
}

void memory_joined(unsigned thread) { join(&clock_of[explore_thread()], &clock_of[thread]); }

void memory_each_shared(void (*visit)(const volatile void *address)) {
    for (unsigned i = 0; i < cell_count; i++)
        if (cells[i].written && (cells[i].touched & (cells[i].touched - 1)))
            visit((const volatile void *)cells[i].address);
}

uint64_t memory_state(void) {
    uint64_t state = stores;
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) state = memory_mix(state, history[i]);
    return state;
}
