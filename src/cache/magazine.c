/* magazine.c: how blocks leave a magazine. */
#include "cache/magazine.h"

#include <string.h>

#include "base/probe.h"
#include "cache/cpu_depot.h"
#include "shard/flush.h"

HAK_BEHIND void hak_magazine_give(hak_cache_t *cache, unsigned class_index, void *block) {
    HAK_ADD_OWNED(&hak_magazine_counts(cache, class_index)->flushed, 1);
    hak_shard_flush(hak_cache_find_partner(cache), class_index, &block, 1);
}

/* Gives blocks that neither the magazine nor a lifo or share holds any more; lists those that were already free. */
static HAK_BEHIND void give_taken(hak_cache_t *cache, unsigned class_index, void **blocks,
                                  size_t count, hak_bad_t *bad) {
    HAK_ADD_OWNED(&hak_magazine_counts(cache, class_index)->flushed, count);
    const unsigned home = hak_cache_find_partner(cache);
    bad->count = hak_shard_flush_all_inside(home, class_index, blocks, (unsigned)count);
    bad->first = blocks;
}

size_t hak_magazine_remove(hak_cache_t *cache, unsigned class_index, size_t count, bool to_depot,
                           hak_twice_t *twice) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    void **const blocks = magazine->base + 1;
    twice->bits = 0;
    hak_cache_begin_change(cache);
    size_t done = hak_lifo_put(cache, class_index, blocks, count);
    const unsigned home = hak_cache_find_partner(cache);
    if (to_depot) done += hak_depot_put(home, class_index, blocks + done, count - done);
    if (count > done) {
        const unsigned given = hak_shard_flush_inside(home, class_index, blocks + done,
                                                      (unsigned)(count - done), twice);
        HAK_ADD_OWNED(&hak_magazine_counts(cache, class_index)->flushed, given);
        done += given;
    }
    size_t left = hak_magazine_count(magazine) - done;
    memmove(blocks, blocks + done, left * sizeof(void *));
    hak_store_relaxed(&magazine->top, magazine->base + left);
    hak_cache_end_change(cache);
    return done;
}

/* Reports blocks that were freed twice. The program's handler of SIGABRT may run, and a free in it may flush the
 * magazine, from which all blocks that were given back are removed by now. `coming` lies in it meanwhile, since the
 * handler may jump away; there is room for it by now. Returns how many of the `count` blocks that are still to go the
 * handler has left. */
static HAK_BEHIND size_t report_twice(hak_cache_t *cache, unsigned class_index,
                                      const hak_twice_t *twice, size_t count, void *coming) {
    hak_magazine_t *magazine = &cache->magazines[class_index];
    void **const top = hak_load_relaxed(&magazine->top) + (coming != NULL);
    if (coming) *top = coming;
    hak_store_relaxed(&magazine->top, top);
    hak_shard_report_twice(twice, class_index);
    if (coming && hak_load_relaxed(&magazine->top) == top)
        hak_store_relaxed(&magazine->top, top - 1);
    const size_t left = hak_magazine_count(magazine);
    return count < left ? count : left;
}

void hak_magazine_flush(hak_cache_t *cache, unsigned class_index, size_t count, bool to_depot,
                        void *coming) {
    hak_twice_t twice;
    HAK_PROBE(flush, hak_classes[class_index].size, count);
    while (count) {
        count -= hak_magazine_remove(cache, class_index, count, to_depot, &twice);
        if (HAK_UNLIKELY(twice.bits != 0))
            count = report_twice(cache, class_index, &twice, count, coming);
    }
}

HAK_BEHIND void hak_magazine_report(const hak_bad_t *bad) {
    hak_shard_report_all(bad->first, bad->count, bad->class_index);
}

/* Empties the lifo and the share of a class. */
static HAK_BEHIND void empty_more(hak_cache_t *cache, unsigned class_index, hak_bad_t *bad) {
    void **const blocks = bad->blocks;
    size_t count;
    while (!bad->count && (count = hak_lifo_take(cache, class_index, blocks, HAK_BAD_MOST)) > 0)
        give_taken(cache, class_index, blocks + 1, count, bad);
    while (!bad->count && cache->has_sampler &&
           (count = hak_sampler_take_back(cache, class_index, blocks, HAK_BAD_MOST)) > 0)
        give_taken(cache, class_index, blocks, count, bad);
}

static HAK_BEHIND void list_bad(const hak_twice_t *twice, hak_bad_t *bad) {
    bad->first = bad->blocks;
    bad->count = hak_shard_list_twice(bad->blocks, 0, twice);
}

HAK_NEXT void hak_magazine_empty_inside(hak_cache_t *cache, unsigned class_index, bool to_depot,
                                        hak_bad_t *bad) {
    hak_twice_t twice = {0};
    size_t count = hak_magazine_count(&cache->magazines[class_index]);
    bad->class_index = class_index;
    bad->count = 0;
    if (count) {
        HAK_PROBE(flush, hak_classes[class_index].size, count);
        hak_magazine_remove(cache, class_index, count, to_depot, &twice);
    }
    if (HAK_UNLIKELY(twice.bits != 0))
        list_bad(&twice, bad);
    else if (HAK_UNLIKELY(hak_cache_has_more(cache)))
        empty_more(cache, class_index, bad);
}

HAK_NEXT void hak_magazine_empty(hak_cache_t *cache, unsigned class_index, bool to_depot) {
    hak_bad_t bad;
    for (;;) {
        hak_magazine_empty_inside(cache, class_index, to_depot, &bad);
        if (HAK_LIKELY(!bad.count)) return;
        hak_magazine_report(&bad);
    }
}
