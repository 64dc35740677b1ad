/* quarantine.c: free lists and quarantines, and the way of blocks between them and the shards. */
#include "classes/dyn.h"
#include "hardened/quarantine.h"

#include <string.h>

#include "cache/cache.h"
#include "error/error.h"
#include "hardened/guard.h"
#include "hardened/state.h"
#include "meta/meta.h"
#include "shard/flush.h"
#include "shard/shard.h"

enum {
    ROOM_FIRST = 32,        /* entries of a new free list, at most */
    BYTES_FIRST = 8 * 1024, /* of blocks in it, unless that is too few */
    ROOM_MAX = 128, /* entries of one that has been refilled some times; blocks that move at once */
    ROOM_MOST = 2048,             /* entries of one that has grown */
    ROOM_LEAST = 4,               /* the same for large blocks */
    ROOM_BYTES = 32 * 1024,       /* the same of its blocks */
    LONGEST = HAK_STATE_LONG + 1, /* largest class whose words hold every size, with a canary */
    LOW_PART = 4,                 /* a refill is due at this part of a free list */
    MANY_SLOW = 3,                /* slow calls of one kind, besides the first */
};

static void describe(hak_free_list_t *list, const hak_class_t *info) {
    list->start_test = info->start_test;
    list->size = info->size;
    const bool known = info->size && info->size <= LONGEST && !hak_class_is_coloured(info);
    list->level = known ? info->level : HAK_STATE_NO_LEVEL;
}

static hak_rest_t nothing(hak_quarantine_t *quarantine) {
    return (hak_rest_t){{NULL, NULL}, &quarantine->lists[0]};
}

/* Entries for so many bytes of blocks. */
static unsigned room_for(const hak_free_list_t *list, size_t bytes, size_t most) {
    size_t room = hak_min(bytes / list->size, most);
    return (unsigned)hak_ceil_pow2(hak_max(room, ROOM_LEAST));
}

/* Entries that a free list has room for after its first calls. */
static unsigned usual_room(const hak_free_list_t *list) {
    return room_for(list, ROOM_BYTES, ROOM_MAX);
}

hak_quarantine_t *hak_quarantine_make(hak_cache_t *cache) {
    size_t size = sizeof(hak_quarantine_t) + hak_hardened.quarantine * sizeof(hak_rest_t);
    hak_quarantine_t *quarantine = hak_load_relaxed(&cache->quarantine);
    if (quarantine || !(quarantine = hak_meta_alloc(size))) return quarantine;
    memset(quarantine, 0, size);
    for (unsigned i = 0; i < HAK_CLASS_LIMIT; i++) quarantine->lists[i].level = HAK_STATE_NO_LEVEL;
    for (unsigned i = 1; i <= HAK_CLASS_FIXED; i++)
        describe(&quarantine->lists[i], &hak_classes[i]);
    for (uint32_t i = 0; i < hak_hardened.quarantine; i++)
        quarantine->places[i] = nothing(quarantine);
    hak_random_seed(&quarantine->random);
    hak_store_release(&cache->quarantine, quarantine);
    if (hak_hardened.all) cache->quick = quarantine;
    return quarantine;
}

/* Gives a free list room for `room` entries; false without memory. */
static bool resize(hak_free_list_t *list, unsigned room) {
    hak_entry_t *entries = hak_meta_alloc(room * sizeof *entries), *old = list->entries;
    if (!entries) return false;
    if (old) {
        memcpy(entries, old, list->count * sizeof *entries);
        hak_meta_free(old, list->room * sizeof *old);
    }
    list->entries = entries;
    list->room = (uint16_t)room;
    list->light_room = hak_free_list_is_light(list) ? list->room : 0;
    if (room <= usual_room(list)) list->low = (uint16_t)(hak_hardened.random ? room / LOW_PART : 0);
    return true;
}

/* Doubles a free list that is shorter than usual. */
static bool grow_to_usual(hak_free_list_t *list) {
    return list->room < usual_room(list) && resize(list, list->room * 2u);
}

/* Notes a slow call of malloc, or of free, for which a free list may grow. */
static void grow(hak_quarantine_t *quarantine, hak_free_list_t *list, bool overflow) {
    if (grow_to_usual(list)) return;
    const unsigned before = list->slow / 2u, factor = before < MANY_SLOW ? 2 : 4;
    const bool turned = (list->slow & 1) != overflow;
    list->slow = (uint8_t)(overflow + 2 * (turned ? 0 : hak_min(before + 1, MANY_SLOW)));
    if (!turned || list->size > HAK_TINY_MAX || list->room >= ROOM_MOST) return;
    const unsigned room = (unsigned)hak_min((size_t)list->room * factor, ROOM_MOST);
    const size_t more = (size_t)(room - list->room) * list->size;
    if (quarantine->grown_bytes + more > hak_cache_budget(HAK_TINY)) return;
    if (resize(list, room)) quarantine->grown_bytes += more;
}

static bool make_list(hak_free_list_t *list, unsigned class_index) {
    describe(list, &hak_classes[class_index]); /* the dynamic class has its numbers by now */
    return resize(list, room_for(list, BYTES_FIRST, ROOM_FIRST));
}

/* Writes to the page of a block of a clean unit that is NEVER, since a page that is read first costs two faults; *touched
 * is the last such page.
 * What lies there stays: somebody may have written to the block, which no call has returned yet. */
static void touch(char *block, uintptr_t *touched) {
    enum { PAGE_SHIFT = 12 };
    const uintptr_t page = (uintptr_t)block >> PAGE_SHIFT;
    char zero = 0;
    if (page != *touched) hak_cas_acquire((_Atomic char *)block, &zero, 0);
    *touched = page;
}

/* Takes up to `want` blocks from the shard and sets their states; blocks for whose state there is no
 * memory go back. A small block that is zero now, or was zero when it went back, must be zero when
 * malloc returns it: this finds a write in between. */
static unsigned take(unsigned home, unsigned class_index, unsigned want, hak_entry_t *entries) {
    void *top[ROOM_MAX + 1];
    unsigned taken = hak_shard_take(home, class_index, want, top, NULL);
    hak_entry_t *to = entries;
    const hak_class_t *info = &hak_classes[class_index];
    uint32_t reciprocal = info->reciprocal, first = 0;
    size_t size = info->size;
    bool looks = hak_hardened.check_freed && size <= HAK_SMALL_MAX;
    hak_state_word_t *words = NULL;
    bool clean = false;
    size_t unit =
        0; /* of the words, `first` and `clean`; blocks of a slab lie one behind the other */
    uintptr_t touched = 0;
    for (unsigned i = 1; i <= taken; i++) {
        char *block = top[i];
        if ((uintptr_t)block >> HAK_UNIT_SHIFT != unit) {
            unit = (uintptr_t)block >> HAK_UNIT_SHIFT;
            words = hak_state_make(hak_state_unit(block), info);
            first = hak_first_offset((uintptr_t)block, info);
            clean = hak_state_is_clean(hak_state_unit(block));
        }
        if (HAK_UNLIKELY(!words)) {
            hak_shard_flush(home, class_index, &top[i], 1);
            continue;
        }
        uint32_t offset = (uint16_t)((uintptr_t)block - first);
        hak_state_word_t *at = &words[hak_block_index(offset, reciprocal)];
        const uint16_t word = hak_load_relaxed(at);
        const bool untouched = clean && word == HAK_STATE_NEVER;
        if (untouched) touch(block, &touched);
        bool known = looks && (word == HAK_STATE_FREE || untouched ||
                               hak_is_zero(block, size, &hak_hardened.wide));
        hak_store_relaxed(at, known ? HAK_STATE_FREE : HAK_STATE_FRESH);
        *to++ = (hak_entry_t){block, at};
    }
    return (unsigned)(to - entries);
}

static HAK_OUT_OF_LINE void make_guard_unit(unsigned home) {
    hak_entry_t entry;
    unsigned class_index = hak_class_of(HAK_UNIT_SIZE);
    void *unit = take(home, class_index, 1, &entry) ? entry.block : NULL;
    if (!hak_guard_unit_make(unit) && unit) hak_shard_flush(home, class_index, &unit, 1);
}

/* Each entry from `count` on changes places with one before it, or stays. */
static void shuffle(hak_random_t *random, hak_entry_t *entries, unsigned count, unsigned end) {
    enum { CHANCES = 4 }; /* one random number is good for so many places */
    uint64_t chances = 0;
    for (unsigned left = 0; count < end; count++, left--, chances >>= 16) {
        if (left == 0) chances = hak_random_whole(random), left = CHANCES;
        hak_entry_t *at = entries + ((uint16_t)chances * (count + 1) >> 16), old = *at;
        *at = entries[count];
        entries[count] = old;
    }
}

hak_entry_t hak_quarantine_refill(hak_quarantine_t *quarantine, unsigned home,
                                  unsigned class_index) {
    const hak_entry_t none = {NULL, NULL};
    hak_free_list_t *list = &quarantine->lists[class_index];
    if (list->entries)
        grow(quarantine, list, false);
    else if (!make_list(list, class_index))
        return none;
    if (hak_guard_unit_is_due(&quarantine->random)) make_guard_unit(home);
    unsigned count = list->count, want = (unsigned)hak_min((list->room - count) / 2u, ROOM_MAX);
    unsigned end = count + take(home, class_index, want, list->entries + count);
    if (hak_hardened.random) shuffle(&quarantine->random, list->entries, count, end);
    hak_store_relaxed(&list->count, (uint16_t)end);
    return end ? hak_quarantine_pop(list, end)[-1] : none;
}

hak_entry_t hak_quarantine_take_one(unsigned class_index) {
    hak_entry_t entry = {NULL, NULL};
    take(0, class_index, 1, &entry);
    return entry;
}

/* Zeroes a block that was written to; returns the first byte that is not zero, or `size`: no such byte is left if another
 * thread writes to the block even now. */
static HAK_SLOW_PATH size_t clean(void *block, size_t size) {
    const char *bytes = block;
    size_t at = 0;
    while (at < size && !bytes[at]) at++;
    memset(block, 0, size);
    return at;
}

static HAK_SLOW_PATH void tell_write(const void *block, size_t size, size_t at) {
    if (at == size)
        hak_error_report("malloc",
                         "write after free: %p is a free block of %zu bytes, and it was written to",
                         block, size);
    else
        hak_error_report("malloc",
                         "write after free: %p is a free block of %zu bytes, and byte %zu of it "
                         "was written to",
                         block, size, at);
}

void hak_quarantine_report_write(void *block, size_t size) {
    tell_write(block, size, clean(block, size));
}

/* A block that was written to after its free, and zeroed again; no block at first. */
typedef struct {
    void *block;
    size_t at; /* the first byte that was not zero */
} damage_t;

/* Checks a block that leaves the thread, and stores its address. */
static void *check_freed(const hak_entry_t *entry, size_t size, damage_t *damage) {
    if (hak_hardened.check_freed && hak_load_relaxed(entry->at) != HAK_STATE_FRESH &&
        HAK_UNLIKELY(!hak_is_zero(entry->block, size, &hak_hardened.wide)))
        *damage = (damage_t){entry->block, clean(entry->block, size)};
    return entry->block;
}

/* A report comes last: a handler of the program may jump out of it. */
static void report_damage(const damage_t *damage, size_t size) {
    if (HAK_UNLIKELY(damage->block != NULL)) tell_write(damage->block, size, damage->at);
}

static unsigned class_of(const hak_quarantine_t *quarantine, const hak_free_list_t *list) {
    return (unsigned)(list - quarantine->lists);
}

/* Gives up to `count` entries of a free list to the shard: the oldest, or, where places are random, the last ones. Ends
 * after a block that was written to, which the caller has to report. */
static damage_t give(hak_quarantine_t *quarantine, unsigned home, hak_free_list_t *list,
                     unsigned count) {
    void *blocks[ROOM_MAX];
    damage_t damage = {NULL, 0};
    for (unsigned some; count > 0 && !damage.block; count -= some) {
        const unsigned most = hak_min(count, ROOM_MAX);
        const hak_entry_t *from = list->entries, *last = from + list->count - 1;
        for (some = 0; some < most && !damage.block; some++)
            blocks[some] =
                check_freed(hak_hardened.random ? last - some : from + some, list->size, &damage);
        const unsigned left = list->count - some;
        if (!hak_hardened.random)
            memmove(list->entries, list->entries + some, left * sizeof *list->entries);
        hak_store_relaxed(&list->count, (uint16_t)left);
        /* Last: a handler of the program may run in it, and allocate. */
        hak_shard_flush(home, class_of(quarantine, list), blocks, some);
    }
    return damage;
}

/* A free list that is full gives half of its blocks away; one that has none yet is made. */
static HAK_OUT_OF_LINE void push_slow(hak_quarantine_t *quarantine, unsigned home,
                                      hak_rest_t rest) {
    hak_free_list_t *list = rest.list;
    const unsigned class_index = class_of(quarantine, list);
    damage_t damage = {NULL, 0};
    if (list->entries || make_list(list, class_index)) {
        if (list->count >= list->room) grow(quarantine, list, true);
        if (list->count >= list->room) damage = give(quarantine, home, list, list->room / 2);
        quarantine->gave = true;
        hak_quarantine_push(rest, list->room, hak_quarantine_chance(&quarantine->random));
    } else {
        void *block = check_freed(&rest.entry, hak_classes[class_index].size, &damage);
        hak_shard_flush(home, class_index, &block, 1);
    }
    report_damage(&damage, hak_classes[class_index].size);
}

static void push(hak_quarantine_t *quarantine, unsigned home, hak_rest_t rest) {
    hak_chance_t chance = hak_quarantine_chance(&quarantine->random);
    if (HAK_UNLIKELY(!hak_quarantine_push(rest, rest.list->room, chance)))
        push_slow(quarantine, home, rest);
}

/* 0 for a light block, and for no block. */
HAK_FAST_PATH uint64_t heavy_bytes(const hak_free_list_t *list) {
    return list->size > hak_hardened.light_size ? list->size : 0;
}

void hak_quarantine_leave(hak_quarantine_t *quarantine, unsigned home, hak_rest_t rest) {
    if (!rest.entry.block) return;
    if (hak_hardened.quarantine) quarantine->bytes -= heavy_bytes(rest.list);
    push(quarantine, home, rest);
}

/* Empties a place of the quarantine. */
static void empty(hak_quarantine_t *quarantine, unsigned home, uint32_t at) {
    hak_quarantine_leave(quarantine, home,
                         hak_quarantine_exchange(quarantine, nothing(quarantine), at));
}

/* The next place from `at` on with a block that is not light; `at` if there is none. */
static uint32_t next_heavy(const hak_quarantine_t *quarantine, uint32_t at) {
    const uint32_t mask = hak_hardened.quarantine_mask, light_size = hak_hardened.light_size;
    uint32_t next = at;
    while (quarantine->places[next].list->size <= light_size) {
        next = (next + 1) & mask;
        if (HAK_UNLIKELY(next == at)) break;
    }
    return next;
}

static uint32_t any_place(hak_quarantine_t *quarantine) {
    uint32_t at = hak_hardened.random ? hak_random_next(&quarantine->random) : quarantine->at++;
    return at & hak_hardened.quarantine_mask;
}

static bool is_above(const hak_quarantine_t *quarantine) {
    return quarantine->bytes > hak_hardened.quarantine_bytes;
}

/* With the block, the quarantine may exceed its bytes. Then the block takes the place of the next block from a random
 * place on that is not light, since light ones do not count. If that block is shorter, more such blocks leave. */
void hak_quarantine_keep(hak_quarantine_t *quarantine, unsigned home, hak_rest_t rest) {
    if (!rest.list->size) describe(rest.list, &hak_classes[class_of(quarantine, rest.list)]);
    if (!hak_hardened.quarantine) {
        hak_quarantine_leave(quarantine, home, rest);
        return;
    }
    uint32_t at = any_place(quarantine);
    quarantine->bytes += heavy_bytes(rest.list);
    if (is_above(quarantine)) at = next_heavy(quarantine, at);
    hak_quarantine_leave(quarantine, home, hak_quarantine_exchange(quarantine, rest, at));
    for (uint32_t left = hak_hardened.quarantine; HAK_UNLIKELY(is_above(quarantine)) && left;
         left--)
        empty(quarantine, home, next_heavy(quarantine, any_place(quarantine)));
}

void hak_quarantine_flush(hak_quarantine_t *quarantine, unsigned home) {
    for (uint32_t i = 0; i < hak_hardened.quarantine; i++) empty(quarantine, home, i);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT; i++) {
        hak_free_list_t *list = &quarantine->lists[i];
        while (list->count) {
            const damage_t damage = give(quarantine, home, list, list->count);
            report_damage(&damage, list->size);
        }
    }
}
