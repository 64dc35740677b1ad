/* lock_rank.h: the order of all locks, and the debug build's check of it.
 *
 * A thread waits for a lock only while each lock that it holds has a lower rank. So no two threads
 * can wait for each other. A lock that is only tried may be taken out of order, since the caller
 * does not wait for it: a second bin, the bins of a sweep.
 *
 * In builds with HAKMEM_VERIFY each lock has a row next to its definition, and each thread notes
 * the locks that it holds. The notes are checked before the thread waits, and when it releases a
 * lock; a violation prints one line with the names of both locks and aborts. A row may name a
 * function that runs before the lock is released; it checks a bounded part of the data that the
 * lock protects. Other builds contain nothing of this.
 *
 * The first four are taken apart from the gate (gate.h). A thread enters the gate before it waits for any
 * other, and holds the gate until it has released that one. Before the gate closes for a fork, fork.c
 * takes the list lock of stdio, whose holder may wait for malloc.
 *
 * A signal handler that interrupts a thread appends its locks to those of the thread, and removes
 * them before it returns. */
#pragma once

#include "base/base.h"

/* Outermost first: the name, and the text for messages. A thread never holds two locks of one
 * rank. The comment above a rank says why it has this place: what its holder takes, and whose
 * holders take it. "Alone": no holder of another lock waits for it. */
#define HAK_LOCK_ORDER(RANK)                                                                   \
    /* alone; hak_verify looks at everything, lock by lock */                                  \
    RANK(VERIFY, "verification")                                                               \
    /* only tried; reads what the statistics read, some of it under SNAPSHOT */                \
    RANK(REFRESH, "refresh of the live page")                                                  \
    /* alone; hak_stats_copy takes SNAPSHOT, then the report is written without it */          \
    RANK(REPORT, "report to a stream")                                                         \
    /* reads the figures of each structure under its lock */                                   \
    RANK(SNAPSHOT, "snapshot of statistics")                                                   \
    /* and the home groups; settles caches under STACK */                                      \
    RANK(THREADS, "thread list")                                                               \
    /* purges pages, which may refuse huge pages under REGION; asks POOL before or after */    \
    RANK(BIN, "shard bin")                                                                     \
    /* puts TRANSFER's blocks back; takes superslabs from POOL; */                             \
    /* purges short pieces, which may refuse huge pages under REGION */                        \
    RANK(HEAP, "large heap")                                                                   \
    /* takes nothing; HEAP's holder takes a block of the array, or empties it (waiting.h) */   \
    RANK(TRANSFER, "transfer array")                                                           \
    /* and the program's heaps, and their table. Swaps notes under HUGE, ends samples under */ \
    /* SAMPLES, takes and frees records of META; asks POOL before or after */                  \
    RANK(FINE, "fine blocks")                                                                  \
    /* gets addresses from REGION */                                                           \
    RANK(POOL, "pool")                                                                         \
    /* takes nothing; POOL's holder grows the heap, BIN's and HEAP's refuse huge pages */      \
    RANK(REGION, "region")                                                                     \
    /* gets more places for kept stretches from META; FINE's holder swaps a note */            \
    RANK(HUGE, "huge blocks")                                                                  \
    /* every lock without a row; a new stack is one of META */                                 \
    RANK(STACK, "stacks of a cache")                                                           \
    /* takes nothing; FINE's holder ends the samples of a heap that is freed (user_heap.c) */  \
    RANK(SAMPLES, "heap samples")                                                              \
    /* takes nothing; the holders of FINE, HUGE and STACK make or free records */              \
    RANK(META, "records")                                                                      \
    /* alone (a slow call, an option that changes); takes nothing: any place would do */       \
    RANK(BAND_COST, "band cost")                                                               \
    /* alone; takes nothing: any place would do */                                             \
    RANK(SAMPLED, "pages of sampled blocks")

typedef enum {
#define RANK(name, text) HAK_LOCK_RANK_##name,
    HAK_LOCK_ORDER(RANK)
#undef RANK
        HAK_LOCK_RANK_COUNT
} hak_lock_rank_t;

#if HAKMEM_VERIFY

typedef void (*hak_lock_rank_check_t)(const void *lock);

/* Locks of one rank, `stride` apart; or those for which `has` is true. */
typedef struct {
    const void *first;
    size_t bytes, stride;
    bool (*has)(const void *lock); /* or NULL */
    hak_lock_rank_t rank;
    hak_lock_rank_check_t check; /* or NULL */
} hak_lock_rank_row_t;

/* The row of one lock or of an array of locks, at file scope. The linker collects all rows. */
#define HAK_LOCK_RANKS(row, name, first, bytes, stride, check)                        \
    static const hak_lock_rank_row_t row                                              \
        __attribute__((used, section("hak_lock_ranks"), aligned(sizeof(void *)))) = { \
            (first), (bytes), (stride), NULL, HAK_LOCK_RANK_##name, (check)}
/* The same for locks in records that are made at their first use: `has` says which locks have this
 * rank. */
#define HAK_LOCK_RANKS_MADE(row, name, has, check)                                    \
    static const hak_lock_rank_row_t row                                              \
        __attribute__((used, section("hak_lock_ranks"), aligned(sizeof(void *)))) = { \
            NULL, 0, 1, (has), HAK_LOCK_RANK_##name, (check)}
#define HAK_LOCK_RANK(name, lock, check) \
    HAK_LOCK_RANKS(lock##_rank, name, &(lock), sizeof(lock), sizeof(lock), check)

void hak_lock_rank_wait(const void *lock);    /* before a wait: checks the order, notes the lock */
void hak_lock_rank_taken(const void *lock);   /* notes a lock that was tried, in any order */
void hak_lock_rank_release(const void *lock); /* runs the lock's check, removes the note */
void hak_lock_rank_reset(const void *lock);   /* the thread may hold it, and releases it later */

#else

#define HAK_LOCK_RANKS(row, name, first, bytes, stride, check) \
    _Static_assert(HAK_LOCK_RANK_##name < HAK_LOCK_RANK_COUNT, "a rank")
#define HAK_LOCK_RANKS_MADE(row, name, has, check) HAK_LOCK_RANKS(, name, , , , )
#define HAK_LOCK_RANK(name, lock, check) HAK_LOCK_RANKS(, name, , , , )
HAK_FAST_PATH void hak_lock_rank_wait(const void *lock) { (void)lock; }
HAK_FAST_PATH void hak_lock_rank_taken(const void *lock) { (void)lock; }
HAK_FAST_PATH void hak_lock_rank_release(const void *lock) { (void)lock; }
HAK_FAST_PATH void hak_lock_rank_reset(const void *lock) { (void)lock; }

#endif
