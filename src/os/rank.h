/* rank.h: the order of all locks, and the debug build's check of it.
 *
 * A thread waits for a lock only while each lock that it holds has a lower rank. So no two threads
 * can wait for each other. A lock that is only tried is taken out of order at will, since nobody
 * waits for it: a second bin, the bins of a sweep, every lock of a report at exit.
 *
 * In builds with HAKMEM_VERIFY each lock has a row, beside its definition, and a thread notes what
 * it holds. Before it waits, and when it releases, the notes are checked; a violation is one line
 * with the names of both locks, and abort(). A row may have a function that is called before the
 * lock is released: it checks a bounded part of what the lock protects.
 * Other builds have nothing of this, neither words nor instructions.
 *
 * A signal handler that interrupts a thread notes its locks behind those of the thread, and takes
 * them off before it returns. */
#ifndef HAK_RANK_H
#define HAK_RANK_H

#include "base/base.h"

/* Outermost first: name, and what a message calls it. Never two of the same rank. */
#define HAK_RANKS(RANK)                                           \
    RANK(VERIFY, "verification")                                  \
    RANK(REFRESH, "refresh of the live page") /* only tried */    \
    RANK(SNAPSHOT, "snapshot of statistics")  /* only tried */    \
    RANK(THREADS, "thread list")                                  \
    RANK(BIN, "shard bin")                                        \
    RANK(HEAP, "large heap")                                      \
    RANK(TRANSFER, "transfer array")                              \
    RANK(POOL, "pool")                                            \
    RANK(REGION, "region")                                        \
    RANK(HUGE, "huge blocks")                                     \
    RANK(STACK, "stacks of a cache") /* every lock without row */ \
    RANK(META, "records")                                         \
    RANK(LOOK, "look at the bands")

typedef enum {
#define RANK(name, text) HAK_RANK_##name,
    HAK_RANKS(RANK)
#undef RANK
        HAK_RANK_COUNT
} hak_rank_t;

#if HAKMEM_VERIFY

typedef void (*hak_rank_check_t)(const void *lock);

/* Locks of one rank, `stride` apart. */
typedef struct {
    const void *first;
    size_t bytes, stride;
    hak_rank_t rank;
    hak_rank_check_t check; /* or NULL */
} hak_rank_row_t;

/* The row of an array of locks, or of one, at file scope. The linker gathers all rows. */
#define HAK_LOCK_RANKS(row, name, first, bytes, stride, check)                        \
    static const hak_rank_row_t row                                                   \
        __attribute__((used, section("hak_lock_ranks"), aligned(sizeof(void *)))) = { \
            (first), (bytes), (stride), HAK_RANK_##name, (check)}
#define HAK_LOCK_RANK(name, lock, check) \
    HAK_LOCK_RANKS(lock##_rank, name, &(lock), sizeof(lock), sizeof(lock), check)

void hak_rank_wait(const void *lock);  /* the caller is about to wait for it: noted, if in order */
void hak_rank_taken(const void *lock); /* noted, in any order */
void hak_rank_release(const void *lock); /* checked, and no longer noted */
void hak_rank_forget(const void *lock);  /* no longer noted; the lock stays held */
void hak_rank_reset(const void *lock);   /* no longer noted, if it was */

#define HAK_RANK_WAIT(lock) hak_rank_wait(lock)
#define HAK_RANK_TAKEN(lock) hak_rank_taken(lock)
#define HAK_RANK_RELEASE(lock) hak_rank_release(lock)
#define HAK_RANK_FORGET(lock) hak_rank_forget(lock)
#define HAK_RANK_RESET(lock) hak_rank_reset(lock)

#else

#define HAK_LOCK_RANKS(row, name, first, bytes, stride, check) \
    _Static_assert(HAK_RANK_##name < HAK_RANK_COUNT, "a rank")
#define HAK_LOCK_RANK(name, lock, check) HAK_LOCK_RANKS(, name, , , , )
#define HAK_RANK_WAIT(lock) ((void)0)
#define HAK_RANK_TAKEN(lock) ((void)0)
#define HAK_RANK_RELEASE(lock) ((void)0)
#define HAK_RANK_FORGET(lock) ((void)0)
#define HAK_RANK_RESET(lock) ((void)0)

#endif

#endif
