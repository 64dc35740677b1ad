/* region.h: the heap's addresses, and the flat map from any pointer to its class.
 *
 * The heap grows in one window of addresses (os/window.h), which is not reserved: superslabs are
 * mapped step by step from low to high addresses. So are the records that describe them, each kind
 * in an area of its own with inaccessible ends (area.h):
 *
 *   | records of meta.c | superslabs | units: 64 bytes each | map: 2 bytes a unit | units ... |
 *                                                             ^hak_map.entries      ^heap
 *
 * The areas never move. While a foreign mapping is in the way of one, the heap cannot grow (area.h
 * says why). Free memory is still used then, and blocks above 1 MiB lie elsewhere.
 *
 * Units are numbered from the map's own address on, so one pointer gives both the number and the
 * entry. An entry holds the class, as the byte offset of its magazine in a thread's cache; 0: not
 * in the heap. Units below the first are 0, too. `hak_map.unit_end` is the end of the readable
 * entries; it grows.
 *
 * HOLES. Other code may have mapped memory behind the heap. Then the heap continues behind that
 * mapping. The superslabs in between are holes: they have records and entries (all zero) but no
 * memory. So the whole heap is in one map, and every free takes the same path. A wholly free
 * superslab can become a hole, too: when the address space is limited, or when the heap was much
 * larger once. It is mapped again before the heap grows; if other code has mapped its addresses
 * meanwhile, it stays a hole.
 *
 *   mapped superslabs = those carved and not holes + those below `limit` that are not carved yet
 *   pieces = runs of neighbouring mapped superslabs <= HAK_PIECES_MAX
 *
 * Mappings, as the kernel counts them: pieces + borders of zones (thp.h) + 3 for each area. */
#pragma once

#include "base/base.h"
#include "os/lock.h"
#include "os/range.h"
#include "region/superslab.h"
#include "region/unit.h"
#include "region/walk.h"

enum {
    HAK_PIECES_MAX = 256, /* from here on no superslab becomes a hole if that adds a piece */
};

/* The data that each free reads. It has a cache line of its own, since a lock beside it would make
 * each free wait for the line. The end is zero until the region exists, so every pointer is foreign
 * before. hak_region_prepare() runs before a second thread can start, so only fields that change
 * later are atomic. If the system refuses the region, `entries` gets a value with which every
 * pointer is foreign to a thread that reads it. */
typedef struct {
    _Atomic uint16_t *entries; /* constant, as the next three */
    uintptr_t units;           /* where the descriptor of unit 0 would be; saves a subtraction */
    uintptr_t supers;          /* the same for superslabs */
    const hak_class_t *rows;   /* hak_classes; to read it here saves an instruction */
    _Atomic size_t unit_end;   /* readable entries; only grows, under the region lock. A thread that
                                  has a block got it after the growth, and so sees the growth */
    /* atomic, read while the heap starts, too; then constant: log2 of a superslab's units, by
     * SS_SIZE */
    _Atomic unsigned super_shift;
    /* constant once the hardened path is on: the table of near arrays (hardened/state.h), and the
     * first unit that it has no room for; or 0 */
    uintptr_t states;
    size_t states_end;
} HAK_ALIGNED(HAK_LINE) hak_map_t;
_Static_assert(sizeof(hak_map_t) == HAK_LINE, "another variable would share the line");

extern hak_map_t hak_map;
extern hak_lock_t hak_region_lock;
extern _Atomic uint32_t hak_region_short; /* region lock to write; see hak_region_is_short */

/* Units and bytes of a superslab, once the region exists. */
HAK_FAST_PATH unsigned hak_superslab_units(void) { return 1u << hak_map.super_shift; }
HAK_FAST_PATH size_t hak_superslab_size(void) {
    return (size_t)HAK_UNIT_SIZE << hak_map.super_shift;
}
HAK_FAST_PATH unsigned hak_superslab_grains(void) { return HAK_UNIT_GRAINS << hak_map.super_shift; }
HAK_FAST_PATH unsigned hak_superslab_words(void) { return hak_superslab_grains() / 64; }

/* Makes the region, unless it exists. Called before the program has threads. */
void hak_region_prepare(void);

/* Takes a fresh superslab: accessible, zero, all units free. NULL when there is no memory. `dense`:
 * nearly all of the heap is in use; if more memory must be mapped, and the heap is not small, it is
 * advised to have huge pages. */
hak_superslab_t *hak_region_take_superslab(bool dense);

/* Map an unmapped superslab again, which is then like a fresh one (`dense`: see above). The first
 * takes any; NULL when there is none. The second takes a given one, whose record may lie before the
 * first or behind the last one; false when it cannot. */
hak_superslab_t *hak_region_take_unmapped(bool dense);
bool hak_region_map_again(hak_superslab_t *super);
bool hak_region_has_unmapped(void);

/* Unmaps a superslab that is wholly free and in no list. If it stays mapped, nothing has
 * changed. */
typedef enum {
    HAK_REGION_UNMAPPED,
    HAK_REGION_KEEPS,   /* it would make too many pieces */
    HAK_REGION_REFUSED, /* by the kernel */
} hak_region_answer_t;
hak_region_answer_t hak_region_unmap(hak_superslab_t *super);

/* The zone of a superslab gets no huge pages from now on, until all of it has been unmapped. Not if the
 * superslab lies in a probe (thp.h), or if the kernel has no room for more advice. */
void hak_region_refuse_huge(hak_superslab_t *super);

/* Purges pages of a superslab; see hak_os_purge. Its zone gets no huge pages from then on, since
 * the kernel would fill the gap again to make one, until all of the zone has been unmapped. */
bool hak_region_purge(hak_superslab_t *super, void *start, size_t size);

/* True when huge pages are requested: for the zone of a superslab; for the superslab itself, which
 * lies in no probe (thp.h). The third: true when they were requested for the zone, and are refused
 * now. */
bool hak_region_wishes_huge(const hak_superslab_t *super);
bool hak_region_asks_huge(const hak_superslab_t *super);
bool hak_region_refuses_huge(const hak_superslab_t *super);

/* True when the address space is limited and the heap takes a good part of the limit. Then blocks
 * above `hak_region_short` bytes are packed (large/fine_grain.h); otherwise the variable is 0. A hint
 * that any thread reads without a lock. Each growth of the heap reads the limit, and so does the
 * pool when it hands out free memory. */
void hak_region_look_at_limit(void);
HAK_FAST_PATH bool hak_region_is_short(void) {
    return HAK_UNLIKELY(hak_load_relaxed(&hak_region_short) != 0);
}

/* Descriptor of the unit that contains an address; NULL when the address is not in the heap. */
hak_unit_t *hak_region_unit_of(const void *addr);

/* The same for an address known to be in a unit. */
HAK_FAST_PATH hak_unit_t *hak_unit_of(const void *block) {
    size_t unit = ((uintptr_t)block - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
    if (HAK_LIKELY(hak_is_below(unit, &hak_map.unit_end)))
        return (hak_unit_t *)(hak_map.units + unit * sizeof(hak_unit_t));
    return hak_region_unit_of(block);
}

/* The same for many blocks of slabs: the base is computed once, and each address is added to it.
 * The map begins at a multiple of a unit's size. */
HAK_FAST_PATH uintptr_t hak_units_base(void) {
    return hak_map.units - ((uintptr_t)hak_map.entries >> (HAK_UNIT_SHIFT - 6));
}
HAK_FAST_PATH hak_unit_t *hak_unit_by_base(uintptr_t base, uintptr_t block) {
    _Static_assert(sizeof(hak_unit_t) == 1 << 6, "the shift");
    return (hak_unit_t *)(base + (block >> (HAK_UNIT_SHIFT - 6) & -sizeof(hak_unit_t)));
}

/* The same by the number of the unit: the address without its low 16 bits. */
HAK_FAST_PATH hak_unit_t *hak_unit_by_number(uintptr_t base, uintptr_t number) {
    return (hak_unit_t *)(base + number * sizeof(hak_unit_t));
}

/* True when an address lies in a superslab that was unmapped, and was not mapped again. */
bool hak_region_was_unmapped(const void *addr);

hak_superslab_t *hak_region_superslab_of(const hak_unit_t *slab);

/* The record of the superslab that a block lies in. */
HAK_FAST_PATH hak_superslab_t *hak_superslab_of(const void *block) {
    size_t unit = ((uintptr_t)block - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
    if (HAK_LIKELY(hak_is_below(unit, &hak_map.unit_end)))
        return (hak_superslab_t *)(hak_map.supers +
                                   (unit >> hak_map.super_shift) * sizeof(hak_superslab_t));
    return hak_region_superslab_of(hak_region_unit_of(block));
}

/* Number of superslabs whose units share a line of the map, and the place of one among them. */
enum { HAK_MAP_LINE_UNITS = HAK_LINE / sizeof(uint16_t) };
HAK_FAST_PATH unsigned hak_superslabs_of_line(void) {
    return HAK_MAP_LINE_UNITS >> hak_map.super_shift;
}
HAK_FAST_PATH unsigned hak_superslab_in_line(const hak_superslab_t *super) {
    return ((uintptr_t)super - hak_map.supers) / sizeof *super % hak_superslabs_of_line();
}

/* True when the next fresh superslab will lie directly behind this one, if those addresses are
 * free. */
bool hak_region_superslab_is_last(const hak_superslab_t *super);

/* True when a superslab was handed out and is not a hole. The record may lie before the first or
 * behind the last one. */
bool hak_region_is_mapped(const hak_superslab_t *super);

/* The superslab before this one; NULL when that is a hole, or there is none. */
hak_superslab_t *hak_region_superslab_before(hak_superslab_t *super);

/* Enters the class of `count` units from `slab` on in the map. */
void hak_region_set_class(const hak_unit_t *slab, unsigned count, unsigned class_index);

/* Calls `visit` for every superslab. */
void hak_region_each_superslab(void (*visit)(hak_superslab_t *super, void *context), void *context);

/* Calls `visit` for each range of the heap's records and of the heap, under the lock: it must not
 * allocate. */
void hak_region_each_range(hak_range_visitor_t visit, void *context);

/* The same, in pieces of a few thousand looks (walk.h); false after the last piece. Changes between
 * two pieces may be missed. */
bool hak_region_each_piece(hak_region_cursor_t *cursor, hak_range_visitor_t visit, void *context);

/* Finds every n-th superslab, `most` at most, in bounded time; n is stored in *stride (walk.h). */
unsigned hak_region_sample(hak_superslab_t **found, unsigned most, size_t *stride);

/* Bytes of the records of holes. Nobody writes to them, so they are not charged as committed. */
size_t hak_region_uncharged(void);

/* Number of mapped superslabs; upper bound of the kernel's mappings for the region. */
size_t hak_region_mapped_superslabs(void);
size_t hak_region_mappings(void);
