/* layout.c: where the fields lie that the debugger's reader of the heap needs. Nothing loads
 * this module: make_reader.py reads the table out of its file, so a cross compiler's will do. */
#include "cache/cache.h"
#include "cache/sampler.h"
#include "classes/classes.h"
#include "large/fine_grain.h"
#include "large/heap.h"
#include "large/huge.h"
#include "large/huge_table.h"
#include "region/region.h"

typedef struct {
    char name[56];
    uint64_t value;
} row_t;

#define FIELD(type, field) \
    { #type "." #field, offsetof(hak_##type##_t, field) }
#define SIZE(type) \
    { #type, sizeof(hak_##type##_t) }
#define VALUE(name) \
    { #name, name }

__attribute__((used, section(".hakmem_layout"))) static const row_t rows[] = {
    FIELD(map, entries),
    FIELD(map, units),
    FIELD(map, supers),
    FIELD(map, unit_end),
    FIELD(map, super_shift),
    SIZE(unit),
    FIELD(unit, base),
    FIELD(unit, bits),
    FIELD(unit, remote_words),
    FIELD(unit, free_count),
    FIELD(unit, large),
    FIELD(unit, owner),
    SIZE(superslab),
    FIELD(superslab, units),
    FIELD(superslab, free),
    FIELD(superslab, dirty),
    FIELD(superslab, mapped),
    FIELD(superslab, large),
    SIZE(class),
    FIELD(class, size),
    FIELD(class, count),
    FIELD(class, words),
    FIELD(class, colours),
    FIELD(class, step_shift),
    SIZE(magazine),
    FIELD(magazine, top),
    FIELD(magazine, base),
    FIELD(magazine, slots),
    FIELD(cache, has_sampler),
    FIELD(cache, tid),
    FIELD(cache, shard),
    FIELD(cache, next),
    SIZE(mapping),
    FIELD(mapping, start),
    FIELD(mapping, size),
    SIZE(huge_table),
    FIELD(huge_table, current),
    FIELD(huge_table, former),
    FIELD(slots, slots),
    FIELD(slots, size),
    FIELD(huge_stats, kept_bytes),
    VALUE(HAK_SLAB_MARKS),
    VALUE(HAK_CLASS_LIMIT),
    VALUE(HAK_CLASS_COUNT),
    VALUE(HAK_CLASS_SMALL),
    VALUE(HAK_CLASS_LARGE),
    VALUE(HAK_MAGAZINE_SHIFT),
    VALUE(HAK_HUGE_TABLE_MAX),
    VALUE(HAK_SAMPLER_AT),
    VALUE(HAK_FINE_OWNER),
    VALUE(HAK_LARGE_FREED),
    VALUE(HAK_UNIT_SHIFT),
    VALUE(HAK_GRAIN_SIZE),
};
