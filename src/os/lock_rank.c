/* lock_rank.c: notes which locks each thread holds; in builds with HAKMEM_VERIFY only. */
#include "os/lock_rank.h"

#if HAKMEM_VERIFY

#include <stdio.h>
#include <stdlib.h>

#include "os/file.h"

enum { HELD_MOST = 32 }; /* one of each rank, and those of a signal handler */

static const char *const names[HAK_LOCK_RANK_COUNT] = {
#define RANK(name, text) text,
    HAK_LOCK_ORDER(RANK)
#undef RANK
};

/* The linker's names for the two ends of the section. */
extern const hak_lock_rank_row_t __start_hak_lock_ranks[]
    __attribute__((weak, visibility("hidden")));
extern const hak_lock_rank_row_t __stop_hak_lock_ranks[]
    __attribute__((weak, visibility("hidden")));

static const hak_lock_rank_row_t any_other = {.rank = HAK_LOCK_RANK_STACK};

/* Of one thread. A signal handler leaves it unchanged when it returns. */
typedef struct {
    const void *locks[HELD_MOST]; /* NULL: released before one that was taken later; an odd address:
                                     reset, see hak_lock_rank_reset */
    unsigned count;
} held_t;

static __thread volatile held_t held;

static const hak_lock_rank_row_t *row_of(const void *lock) {
    for (const hak_lock_rank_row_t *row = __start_hak_lock_ranks; row < __stop_hak_lock_ranks;
         row++) {
        size_t offset = (uintptr_t)lock - (uintptr_t)row->first;
        if (offset < row->bytes && offset % row->stride == 0) return row;
        if (row->has && row->has(lock)) return row;
    }
    return &any_other;
}

static const void *when_reset(const void *lock) { return (const char *)lock + 1; }
static bool is_reset(const void *note) { return (uintptr_t)note & 1; }

static const char *name_of(const void *lock) { return names[row_of(lock)->rank]; }

static HAK_SLOW_PATH void stop(const void *lock, const char *what, const void *other) {
    char line[256];
    int size = other ? snprintf(line, sizeof line, "hakmem: lock order: \"%s\" %p %s \"%s\" %p\n",
                                name_of(lock), lock, what, name_of(other), other)
                     : snprintf(line, sizeof line, "hakmem: lock order: \"%s\" %p %s\n",
                                name_of(lock), lock, what);
    hak_os_write_stderr(line, (size_t)size);
    abort();
}

/* The lock is stored twice: a signal handler that runs between the two steps uses the same place
 * and clears it. */
static void note(const void *lock) {
    if (held.count == HELD_MOST) stop(lock, "is taken by a thread that holds too many locks", NULL);
    held.locks[held.count] = lock;
    held.count++;
    held.locks[held.count - 1] = lock;
}

/* Replaces the last note of a lock; false when there is none. */
static bool replace(const void *lock, const void *other) {
    unsigned at = held.count;
    while (at > 0 && held.locks[at - 1] != lock) at--;
    if (at == 0) return false;
    held.locks[at - 1] = other;
    return true;
}

static bool clear(const void *lock) {
    if (!replace(lock, NULL)) return false;
    while (held.count && !held.locks[held.count - 1]) held.count--;
    return true;
}

void hak_lock_rank_wait(const void *lock) {
    for (unsigned i = 0; i < held.count; i++) {
        const void *other = held.locks[i];
        if (other && !is_reset(other) && row_of(other)->rank >= row_of(lock)->rank)
            stop(lock, "is waited for while the thread holds", other);
    }
    note(lock);
}

void hak_lock_rank_taken(const void *lock) { note(lock); }

/* A signal handler has forked: the interrupted code does not hold the lock any more, but releases it. */
void hak_lock_rank_reset(const void *lock) { replace(lock, when_reset(lock)); }

void hak_lock_rank_release(const void *lock) {
    const hak_lock_rank_row_t *row = row_of(lock);
    if (row->check) row->check(lock);
    if (!clear(lock) && !clear(when_reset(lock)))
        stop(lock, "is released by a thread that does not hold it", NULL);
}

#endif
