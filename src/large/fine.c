/* fine.c: superslabs cut in grains of 64 bytes: first fit, by bitmaps. */
#include "large/fine.h"

#include "meta/meta.h"
#include "os/gate.h"
#include "os/lock.h"
#include "pool/pool.h"
#include "region/region.h"

enum {
    LISTS = 16,    /* by the highest bit of `longest`: a superslab has 32,768 grains at most */
    LOOKS_MAX = 8, /* superslabs that a request searches before it takes a fresh one */
};

/* The record of a fine superslab; the descriptor of its first unit leads to it by `bits`. */
typedef struct fine {
    struct fine *next, *prev;
    hak_unit_t *units;
    uint64_t *in_use, *begins;
    uint32_t used, longest, hint; /* grains */
    uint32_t list;
} fine_t;

static hak_lock_t fine_lock;
HAK_LOCK_RANK(FINE, fine_lock, NULL);

/* Under the lock. */
static fine_t *lists[LISTS];
static size_t block_count, grain_count; /* in use */

static size_t grain_total(void) { return hak_superslab_size() >> HAK_FINE_SHIFT; }
static size_t bitmap_size(void) { return grain_total() / 8; }

/* ---- bits ---- */

/* The first grain from `at` on whose bit is `value`, or `end`. */
static size_t next(const uint64_t *bits, size_t at, size_t end, bool value) {
    const uint64_t flip = value ? 0 : ~(uint64_t)0;
    for (; at < end; at = (at | 63) + 1) {
        uint64_t word = (bits[at / 64] ^ flip) >> at % 64;
        if (word) return hak_min(at + hak_lowest_bit(word), end);
    }
    return end;
}

/* The grain behind the last one before `at` that is in use; 0 when there is none. */
static size_t end_before(const uint64_t *bits, size_t at) {
    for (; at > 0; at = (at - 1) & ~(size_t)63) {
        uint64_t word = bits[(at - 1) / 64] << (63 - (at - 1) % 64);
        if (word) return at - (63 - hak_highest_bit(word));
    }
    return 0;
}

static bool is_set(const uint64_t *bits, size_t at) { return bits[at / 64] >> at % 64 & 1; }

/* Turns `count` bits, all of which are alike. */
static void turn(uint64_t *bits, size_t at, size_t count) {
    for (size_t some; count; at += some, count -= some) {
        some = hak_min(64 - at % 64, count);
        bits[at / 64] ^= (~(uint64_t)0 >> (64 - some)) << at % 64;
    }
}

/* ---- lists. All under the lock ---- */

static void link_to_list(fine_t *fine) {
    fine->list = fine->longest ? hak_highest_bit(fine->longest) : 0;
    fine->prev = NULL;
    fine->next = lists[fine->list];
    if (fine->next) fine->next->prev = fine;
    lists[fine->list] = fine;
}

static void unlink_from_list(fine_t *fine) {
    *(fine->prev ? &fine->prev->next : &lists[fine->list]) = fine->next;
    if (fine->next) fine->next->prev = fine->prev;
}

/* ---- allocation ---- */

/* First fit in one superslab; grain_total() when it has none, and `longest` is exact then. */
static size_t carve(fine_t *fine, size_t grains, size_t align_grains) {
    size_t end = grain_total(), longest = 0, stop;
    fine->hint = (uint32_t)next(fine->in_use, fine->hint, end, false);
    for (size_t from = fine->hint; from < end; from = next(fine->in_use, stop, end, false)) {
        size_t at = hak_align_up(from, align_grains), behind = at + grains;
        stop = next(fine->in_use, from, hak_min(behind, end), true);
        if (stop < behind) {
            stop = next(fine->in_use, stop, end, true);
            longest = hak_max(longest, stop - from);
            continue;
        }
        turn(fine->in_use, at, grains);
        turn(fine->begins, at, 1);
        fine->used += (uint32_t)grains;
        block_count++;
        grain_count += grains;
        return at;
    }
    fine->longest = (uint32_t)longest;
    return end;
}

static void *address_of(const fine_t *fine, size_t grain) {
    return fine->units[0].base + (grain << HAK_FINE_SHIFT);
}

/* Searches superslabs that may have room, up to `looks`. One that has none says so from then on, so
 * that even without a bound each is searched in vain once for each stretch that was freed in it. */
static void *find_room(size_t grains, size_t align_grains, size_t looks) {
    for (unsigned list = hak_highest_bit(grains); list < LISTS; list++)
        for (fine_t *fine = lists[list], *behind; fine && looks; fine = behind) {
            behind = fine->next;
            if (fine->longest < grains) continue;
            looks--;
            size_t at = carve(fine, grains, align_grains);
            if (at < grain_total()) return address_of(fine, at);
            unlink_from_list(fine);
            link_to_list(fine);
        }
    return NULL;
}

static void set_owner(const fine_t *fine, uint16_t owner) {
    for (unsigned i = 0; i < hak_superslab_units(); i++)
        hak_store_release(&fine->units[i].owner, owner); /* partner: any look at it */
    hak_region_set_class(fine->units, hak_superslab_units(), hak_owner_class(owner));
}

static void free_record(fine_t *fine) {
    hak_meta_free(fine->in_use, bitmap_size());
    hak_meta_free(fine->begins, bitmap_size());
    hak_meta_free(fine, sizeof *fine);
}

/* A record for a superslab without blocks. */
static fine_t *make_record(void) {
    fine_t *fine = hak_meta_alloc(sizeof *fine);
    if (!fine) return NULL;
    *fine = (fine_t){.in_use = hak_meta_alloc(bitmap_size()),
                     .begins = hak_meta_alloc(bitmap_size()),
                     .longest = (uint32_t)grain_total()};
    if (fine->in_use && fine->begins) {
        for (size_t i = 0; i < grain_total() / 64; i++) fine->in_use[i] = fine->begins[i] = 0;
        return fine;
    }
    free_record(fine);
    return NULL;
}

/* The block in a fresh superslab. Inside the gate while the superslab is in nobody's list. */
static void *take_fresh(size_t grains) {
    bool zeroed;
    fine_t *fine = make_record();
    void *block = NULL;
    if (!fine) return NULL;
    hak_gate_enter();
    fine->units = hak_pool_take(hak_superslab_units(), &zeroed);
    if (fine->units) {
        hak_lock_acquire(&fine_lock);
        hak_store_release(&fine->units[0].bits, (uint64_t *)(void *)fine);
        set_owner(fine, HAK_FINE_OWNER);
        block = address_of(fine, carve(fine, grains, 1));
        link_to_list(fine);
        hak_lock_release(&fine_lock);
    } else {
        free_record(fine);
    }
    hak_gate_leave();
    return block;
}

void *hak_fine_alloc(size_t size, size_t align) {
    size_t grains = ((hak_max(size, 1) - 1) >> HAK_FINE_SHIFT) + 1;
    size_t align_grains = hak_max(align >> HAK_FINE_SHIFT, 1);
    hak_lock_acquire(&fine_lock);
    void *block = find_room(grains, align_grains, LOOKS_MAX);
    hak_lock_release(&fine_lock);
    if (!block) block = take_fresh(grains);
    if (HAK_LIKELY(block != NULL)) return block;
    HAK_HOLD(&fine_lock);
    return find_room(grains, align_grains, SIZE_MAX);
}

/* ---- from a pointer ---- */

/* The record of the superslab that contains an address, and the address's grain; NULL when it is
 * none. Lock held. */
static fine_t *record_of(const void *pointer, size_t *grain) {
    const hak_superslab_t *super = hak_superslab_of(pointer);
    if (hak_load_acquire(&super->units[0].owner) != HAK_FINE_OWNER) return NULL;
    fine_t *fine = (fine_t *)(void *)hak_load_acquire(&super->units[0].bits);
    *grain = (size_t)((const char *)pointer - fine->units[0].base) >> HAK_FINE_SHIFT;
    return fine;
}

/* Grains of the block that begins at a grain. */
static size_t length_at(const fine_t *fine, size_t grain) {
    size_t end = next(fine->in_use, grain, grain_total(), false);
    return next(fine->begins, grain + 1, end, true) - grain;
}

size_t hak_fine_free(void *block) {
    size_t at, grains = 0;
    bool is_empty = false;
    hak_gate_enter();
    hak_lock_acquire(&fine_lock);
    fine_t *fine = record_of(block, &at);
    if (fine && address_of(fine, at) == block && is_set(fine->begins, at)) {
        grains = length_at(fine, at);
        turn(fine->in_use, at, grains);
        turn(fine->begins, at, 1);
        fine->used -= (uint32_t)grains;
        block_count--;
        grain_count -= grains;
        size_t first = end_before(fine->in_use, at);
        size_t end = next(fine->in_use, at + grains, grain_total(), true);
        unlink_from_list(fine);
        fine->hint = (uint32_t)hak_min(fine->hint, first);
        fine->longest = (uint32_t)hak_max(fine->longest, end - first);
        is_empty = fine->used == 0;
        if (is_empty)
            set_owner(fine, 0);
        else
            link_to_list(fine);
    }
    hak_lock_release(&fine_lock);
    if (is_empty) {
        hak_pool_give(fine->units, hak_superslab_units());
        free_record(fine);
    }
    hak_gate_leave();
    return grains << HAK_FINE_SHIFT;
}

bool hak_fine_find(const void *pointer, void **start, size_t *size) {
    size_t at;
    HAK_HOLD(&fine_lock);
    const fine_t *fine = record_of(pointer, &at);
    if (!fine || !is_set(fine->in_use, at)) return false;
    size_t first = end_before(fine->begins, at + 1) - 1;
    *start = address_of(fine, first);
    *size = length_at(fine, first) << HAK_FINE_SHIFT;
    return true;
}

void hak_fine_add_stats(size_t *count, size_t *bytes) {
    HAK_HOLD(&fine_lock);
    *count += block_count;
    *bytes += grain_count << HAK_FINE_SHIFT;
}

/* ---- check ---- */

typedef struct {
    size_t blocks, grains;
} sums_t;

static HAK_SLOW_PATH void check_record(hak_check_t *check, const fine_t *fine, sums_t *sums) {
    size_t used = 0, blocks = 0, longest = 0, stray = 0, end = grain_total(), stop;
    for (size_t i = 0; i < end / 64; i++) {
        used += fine->in_use[i] ? hak_bit_count(fine->in_use[i]) : 0;
        blocks += fine->begins[i] ? hak_bit_count(fine->begins[i]) : 0;
        stray += (fine->begins[i] & ~fine->in_use[i]) != 0;
    }
    for (size_t from = next(fine->in_use, 0, end, false); from < end;
         from = next(fine->in_use, stop, end, false)) {
        stop = next(fine->in_use, from, end, true);
        longest = hak_max(longest, stop - from);
    }
    hak_check_equal(check, "fine superslab", fine, "used = grains in use", fine->used, used);
    hak_check_that(check, "fine superslab", fine, "blocks begin in grains in use", stray == 0);
    hak_check_that(check, "fine superslab", fine, "it has a block", blocks > 0);
    hak_check_that(check, "fine superslab", fine, "longest >= longest free stretch",
                   fine->longest >= longest);
    hak_check_that(check, "fine superslab", fine, "all below the hint is in use",
                   next(fine->in_use, 0, end, false) >= fine->hint);
    hak_check_that(check, "fine superslab", fine, "its first unit leads to it",
                   hak_load_relaxed(&fine->units[0].bits) == (const uint64_t *)(const void *)fine);
    sums->blocks += blocks;
    sums->grains += used;
}

HAK_SLOW_PATH void hak_fine_check(hak_check_t *check) {
    sums_t sums = {0, 0};
    for (unsigned list = 0; list < LISTS; list++)
        for (const fine_t *fine = lists[list]; fine; fine = fine->next)
            check_record(check, fine, &sums);
    hak_check_equal(check, "fine blocks", lists, "blocks, counted", block_count, sums.blocks);
    hak_check_equal(check, "fine blocks", lists, "grains, counted", grain_count, sums.grains);
}
