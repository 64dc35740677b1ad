/* load.h: the workloads: what the simulated threads do.
 *
 * Their own tables are not instrumented, so that every transfer is the allocator's or a block's: a
 * new block is written (its first 256 bytes), a block is read before it is freed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct worker {
    unsigned id, left; /* operations of this phase */
    unsigned phase, turn;
    uint64_t random, finished_at;
    void **slots;
    struct box *box; /* what others hand to this worker */
    struct seat *seats;
} worker_t;

typedef struct {
    const char *name, *operation, *about;
    unsigned slots, min, max;
    unsigned divisor;                             /* of the operations, for costly ones; 0 is 1 */
    unsigned round;                               /* operations in the life of a thread; 0: all */
    void (*prepare)(worker_t *worker);            /* NULL: fill the slots */
    void (*work)(worker_t *worker, unsigned ops); /* NULL: `life` does all */
    void *(*life)(void *worker);
    unsigned (*share)(unsigned id, unsigned ops); /* operations of a worker; NULL: all the same */
} load_t;

typedef struct {
    const load_t *load;
    unsigned workers, ops, warm, seats; /* seats: threads for each CPU in the server */
    uint64_t seed;
} load_options_t;

extern load_options_t load_options;

const load_t *load_find(const char *name);
void load_list(void);

/* Runs the workload; returns when the measured operations are done. */
void load_run(void);
uint64_t load_operations(void); /* measured */
uint64_t load_ns(void);         /* simulated time that they took */

/* For the workloads. */
void *load_life(void *worker);
void load_next_phase(worker_t *worker);
uint32_t load_random(worker_t *worker, uint32_t below);
void *load_get(worker_t *worker); /* a new block of the workload's sizes */
void *load_get_sized(size_t size);
void load_put(void *block);
void load_check(void *block);
void *load_table(size_t size); /* zeroed memory for a workload's own tables */
