/* tally.h - counts of a run: calls by kind and tier, and events of the process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A request's tier by its size, as the allocator's manual names them. */
enum tier { TINY, MID, LARGE, HUGE, TIER_COUNT };

#define TALLY_CALLS(X)                           \
    X(MALLOC, "malloc")                          \
    X(CALLOC, "calloc, zero to the last byte")   \
    X(REALLOC_UP, "realloc to a larger size")    \
    X(REALLOC_DOWN, "realloc to a smaller size") \
    X(POSIX_MEMALIGN, "posix_memalign")          \
    X(ALIGNED_ALLOC, "aligned_alloc")            \
    X(HEAP_MALLOC, "heap_malloc")                \
    X(HEAP_CALLOC, "heap_calloc, the same")      \
    X(HEAP_ALIGNED, "heap_aligned_alloc")        \
    X(HEAP_REALLOC, "heap_realloc")              \
    X(FREE, "free by the maker")                 \
    X(FREE_OTHER, "free by another thread")

#define TALLY_EVENTS(X)                                         \
    X(CHECKED, "blocks checked between calls", 0)               \
    X(HANDED, "blocks handed to another thread", 0)             \
    X(USABLE, "malloc_usable_size, block filled to its end", 1) \
    X(TRIM, "malloc_trim", 1)                                   \
    X(MALLINFO, "mallinfo2", 1)                                 \
    X(STATS, "hakmem_stats_get", 1)                             \
    X(HEAPS_MADE, "heap_new", 1)                                \
    X(HEAPS_EMPTIED, "heap_free_all", 1)                        \
    X(HEAPS_DESTROYED, "heap_destroy", 1)                       \
    X(MAPPED, "foreign mappings made", 0)                       \
    X(UNMAPPED, "foreign mappings checked and unmapped", 0)     \
    X(FORKS, "forks whose child used the heap", 0)              \
    X(STARTS, "threads started", 0)                             \
    X(ENDS, "threads ended", 0)

#define TALLY_NAME(name, ...) name,
enum call { TALLY_CALLS(TALLY_NAME) CALL_COUNT };
enum event { TALLY_EVENTS(TALLY_NAME) EVENT_COUNT };
#undef TALLY_NAME

struct tally {
    uint64_t calls[CALL_COUNT][TIER_COUNT];
    uint64_t events[EVENT_COUNT];
    uint64_t refused; /* requests that a limit made NULL; no calls of the table above */
    uint64_t
        operations; /* calls of the allocator, refused ones and those among the events included */
};

enum tier tally_tier(uint64_t size);

/* The least and the most size of a request of this tier. */
uint64_t tally_least(enum tier tier);
uint64_t tally_most(enum tier tier);

void tally_call(struct tally *tally, enum call call, uint64_t size);
void tally_event(struct tally *tally, enum event event);
void tally_refused(struct tally *tally);
void tally_add(struct tally *sum, const struct tally *part);

/* Prints all counts, and fails when one is 0 or their sum is not the number of operations. Without heaps of
 * the program's own those of them are 0. */
void tally_report(const struct tally *tally, bool has_heaps);
