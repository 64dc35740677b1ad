/* window.h: which calls of malloc are sampled, while GUARD_SAMPLE is set (hardened/sampled.h).
 *
 * Each call is sampled with the same chance, one in GUARD_SAMPLE, whatever the calls before were. So
 * each call has to be counted, and the hot path must not do it. While the option is set, a class that
 * the hot path serves has two magazines, which lie one array behind the other:
 *
 *   free pushes on the magazine of the class; malloc pops from the class's window
 *
 * Nothing enters a window but by a slow call of malloc, which finds the window empty, lets the two
 * change places, and so knows how many calls the window will serve. If the sampled one is among them
 * the slow call puts a mine into the stack, a NULL in the place of a block: malloc finds an empty
 * window exactly there. `until` counts the calls up to the sampled one, those left out that the
 * window will serve. It is drawn at random again after each sample, for each thread and class by
 * itself, with the geometric distribution: then calls of all classes together have it, too.
 *
 *   window: base -> [NULL] [block] ... [mine] [block] ... [block] <- top
 *
 * A window gets 64 to 256 blocks if the heap has them, so a slow call serves many calls. Calls
 * above HAK_SMALL_MAX are slow or rare; they are counted one by one. A thread without a cache
 * samples nothing. */
#ifndef HAK_WINDOW_H
#define HAK_WINDOW_H

#include "cache/cache.h"

typedef struct {
    void *mined;    /* the block whose place the mine has */
    uint32_t mine;  /* its index in the stack; 0 for none */
    uint32_t until; /* calls */
} hak_countdown_t;

/* Behind the counters of a cache. The owner writes all, `magazines` under the stack lock. */
struct hak_windows {
    hak_magazine_t magazines[HAK_CLASS_LIMIT];
    hak_countdown_t countdowns[HAK_CLASS_LIMIT];
    uint64_t random;
};

enum { HAK_WINDOWED_CACHE_SIZE = HAK_WINDOWS_OFFSET + sizeof(struct hak_windows) };

/* Prepares the windows of a new cache, and routes malloc to them. */
void hak_window_make(hak_cache_t *cache);

/* For hak_cache_reset. */
void hak_window_reset(hak_cache_t *cache);

/* A slow call of malloc: true when it is sampled. */
bool hak_window_is_due(hak_cache_t *cache, unsigned class_index);

/* A block of a class up to HAK_SMALL_MAX, whose window has none; NULL without memory. */
void *hak_window_pop(hak_cache_t *cache, unsigned class_index);

/* Blocks in a window; the owner may call it, or the holder of the stack lock. */
size_t hak_window_count(const hak_cache_t *cache, unsigned class_index);

/* Moves the blocks of a window to the empty magazine of its class; false when there are none. */
bool hak_window_close(hak_cache_t *cache, unsigned class_index);

#endif
