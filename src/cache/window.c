/* window.c: windows change places with magazines; mines. */
#include "cache/window.h"

#include <string.h>

#include "options/options.h"
#include "os/os.h"

enum { LEAST = 64, MOST = 256, BYTES = 32 * 1024 }; /* of a window that is filled up */

/* -log2 of a random number between 0 and 1, times 2^16: the leading zeros of a random word, and its
 * next bits f, with log2(1 + f) taken as f + c f (1 - f), and the c of which the mean is exact. */
static uint64_t random_log2(uint64_t *random) {
    uint64_t state = *random += 0x9E3779B97F4A7C15u;
    state = (state ^ state >> 32) * 0xD6E8FEB86659FD93u;
    state = (state ^ state >> 32) * 0xD6E8FEB86659FD93u;
    state = (state ^ state >> 32) | 1;
    unsigned zeros = 63u - hak_highest_bit(state);
    uint64_t f = zeros == 63 ? 0 : state << (zeros + 1) >> 48;
    return ((uint64_t)(zeros + 1) << 16) - f - (22533 * (f * (65536 - f) >> 16) >> 16);
}

/* Calls before the next sampled one: GUARD_SAMPLE - 1 on average. */
static uint32_t draw(struct hak_windows *windows) {
    uint64_t each = (uint64_t)hak_option(HAK_OPTION_GUARD_SAMPLE);
    if (each <= 1) return 0;
    uint64_t calls = (2 * each - 1) * random_log2(&windows->random) / 2 * 45426 >> 32; /* ln 2 */
    return (uint32_t)hak_min(calls, UINT32_MAX);
}

void hak_window_reset(hak_cache_t *cache) {
    struct hak_windows *windows = cache->windows;
    if (HAK_LIKELY(!windows)) return;
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) {
        memset(&windows->magazines[i], 0, sizeof windows->magazines[i]);
        hak_store_relaxed(&windows->magazines[i].top,
                          hak_load_relaxed(&hak_cache_none.magazines[0].top));
        windows->countdowns[i] = (hak_countdown_t){.until = draw(windows)};
    }
}

void hak_window_make(hak_cache_t *cache) {
    cache->windows = (struct hak_windows *)(void *)((char *)cache + HAK_WINDOWS_OFFSET);
    cache->windows->random = hak_os_random();
    hak_window_reset(cache);
    for (unsigned i = 0; i <= HAK_SMALL_MAX / 8; i++)
        cache->route[i] = (uint16_t)(cache->route[i] + HAK_WINDOWS_OFFSET);
}

static size_t count_of(const hak_magazine_t *magazine) {
    return magazine->slots ? (size_t)(hak_load_relaxed(&magazine->top) - magazine->base) : 0;
}

size_t hak_window_count(const hak_cache_t *cache, unsigned class_index) {
    return HAK_LIKELY(!cache->windows) ? 0 : count_of(&cache->windows->magazines[class_index]);
}

/* The window and the magazine of a class change places. */
static void change(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *window = &cache->windows->magazines[class_index];
    hak_magazine_t *magazine = &cache->magazines[class_index], old = *magazine;
    hak_lock_acquire(&cache->stack_lock);
    hak_store_relaxed(&magazine->top, hak_load_relaxed(&window->top));
    magazine->base = window->base;
    magazine->slots = window->slots;
    magazine->limit =
        magazine->slots ? (uint32_t)(uintptr_t)(magazine->base + magazine->slots - 1) : 0;
    hak_store_relaxed(&window->top, hak_load_relaxed(&old.top));
    window->base = old.base;
    window->slots = old.slots;
    hak_lock_release(&cache->stack_lock);
}

/* Counts the calls that the window will serve, and lays the mine. */
static void count_down(hak_magazine_t *window, hak_countdown_t *countdown) {
    size_t count = count_of(window);
    if (count <= countdown->until) {
        countdown->until -= (uint32_t)count;
        return;
    }
    countdown->mine = (uint32_t)count - countdown->until;
    countdown->mined = window->base[countdown->mine];
    window->base[countdown->mine] = NULL;
    countdown->until = 0;
}

/* Undoes it for the calls that it has not served yet. */
static void count_up(hak_magazine_t *window, hak_countdown_t *countdown) {
    countdown->until += (uint32_t)count_of(window) - countdown->mine;
    if (countdown->mine) window->base[countdown->mine] = countdown->mined;
    countdown->mine = 0;
}

bool hak_window_is_due(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *window = &cache->windows->magazines[class_index];
    hak_countdown_t *countdown = &cache->windows->countdowns[class_index];
    bool has_window = hak_classes[class_index].size <= HAK_SMALL_MAX;
    if (countdown->until) {
        countdown->until -= !has_window;
        return false;
    }
    count_up(window, countdown);
    countdown->until = draw(cache->windows);
    count_down(window, countdown);
    return true;
}

void *hak_window_pop(hak_cache_t *cache, unsigned class_index) {
    hak_magazine_t *window = &cache->windows->magazines[class_index];
    hak_countdown_t *countdown = &cache->windows->countdowns[class_index];
    const size_t size = hak_classes[class_index].size;
    void *block = NULL;
    if (count_of(window) == 0) {
        if (count_of(&cache->magazines[class_index]) == 0) {
            block = hak_cache_refill(cache, class_index, NULL);
            countdown->until -= block != NULL;
        }
        hak_cache_top_up(cache, class_index, hak_max(LEAST, hak_min(MOST, BYTES / size)));
        change(cache, class_index);
        count_down(window, countdown);
    }
    if (block) return block;
    void **top = hak_load_relaxed(&window->top);
    if (*top) hak_store_relaxed(&window->top, top - 1);
    return *top;
}

bool hak_window_close(hak_cache_t *cache, unsigned class_index) {
    if (HAK_LIKELY(hak_window_count(cache, class_index) == 0)) return false;
    count_up(&cache->windows->magazines[class_index], &cache->windows->countdowns[class_index]);
    change(cache, class_index);
    return true;
}
