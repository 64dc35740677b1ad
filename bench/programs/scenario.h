/*
 * scenario.h - what the scenarios of bench_scenario share: the run, its checksum, and
 * allocation that ends the program when there is no memory.
 */
#pragma once

#include "bench.h"

/* One run of a scenario. The checksum must not depend on addresses. */
struct scenario_run {
    uint64_t wanted; /* operations to do at least */
    uint64_t done;
    uint64_t checksum;
    uint32_t state; /* of the random numbers */
};

void scenario_string_builder(struct scenario_run *run);
void scenario_token_stream(struct scenario_run *run);
void scenario_small_objects(struct scenario_run *run);
void scenario_json(struct scenario_run *run);
void scenario_mir(struct scenario_run *run);
void scenario_vm(struct scenario_run *run);

/* A number below `limit`. */
static inline uint32_t scenario_draw(struct scenario_run *run, uint32_t limit) {
    return bench_random(&run->state) % limit;
}

/* A length in low..high: most are short, few are long. */
static inline uint32_t scenario_draw_log(struct scenario_run *run, uint32_t low, uint32_t high) {
    return bench_size_log(&run->state, low, high);
}

static inline void scenario_note(struct scenario_run *run, uint64_t value) {
    run->checksum = (run->checksum ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    run->checksum ^= run->checksum >> 29;
}

static inline void *scenario_checked(void *block, size_t size) {
    if (__builtin_expect(block == NULL, 0)) bench_fail(1, "no memory for %zu bytes", size);
    return block;
}

static inline void *scenario_malloc(size_t size) { return scenario_checked(malloc(size), size); }

static inline void *scenario_calloc(size_t count, size_t size) {
    return scenario_checked(calloc(count, size), count * size);
}

static inline void *scenario_realloc(void *block, size_t size) {
    return scenario_checked(realloc(block, size), size);
}
