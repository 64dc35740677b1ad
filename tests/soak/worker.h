/* worker.h - a place where one thread after another works, and what such a thread does.
 *
 * A thread lives only briefly. It takes over the blocks that its predecessor left in the table, and
 * gets others from the place's queue. So blocks outlive the threads that allocated them, and other
 * threads resize and free them. */
#pragma once

#include <stdatomic.h>

#include "foreign.h"
#include "heaps.h"
#include "queue.h"

enum { THREADS_MOST = 64, SLOTS_MOST = 1500 };

/* What a thread does: the shares of its requests, in 1/1024, and its most steps. */
struct character {
    const char *name;
    unsigned parts[TIER_COUNT];
    unsigned step_count;
};

struct settings {
    unsigned long long operations;
    unsigned thread_count;
    uint64_t seed;
    const struct character *character; /* of every life; NULL: chosen by chance */
    bool has_limit;                    /* a request may be refused */
    bool is_plain;                     /* no heaps of the program's own */
};

struct place {
    struct queue queue;
    struct foreign foreign;
    struct own_heap heap;
    struct block slots[TIER_COUNT][SLOTS_MOST];
    struct tally tally;
    uint64_t life_count;
    bool has_toured; /* a life of this place has made every call in every tier */
};

struct worker {
    struct place *place;
    struct rng rng;
    uint64_t life; /* number of this life in the run */
    uint64_t next_number;
    const struct character *character;
    const char *doing; /* the call under way, for the report of a crash */
    size_t doing_size;
    bool is_child; /* alone in a forked process: others may hold any queue's lock for ever */
};

extern struct settings settings;
extern struct place *places;
extern atomic_ullong operations_left;

/* How many blocks of a tier a place may hold. */
unsigned worker_slot_count(enum tier tier);

/* NULL when there is no such character. */
const struct character *worker_find_character(const char *name);

/* From now on a signal of a wild access ends the test with a line that says whose it is. */
void worker_report_crashes(void);

/* One life in a place; the body of a thread. */
void *worker_live(void *place);

/* Checks and frees what lies in the place's queue and table; the heap stays. No thread works there any more. */
void worker_clear(struct place *place);
