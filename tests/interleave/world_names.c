/* world_names.c: names of the world's variables, for the report of a violation. */
#include <stdio.h>

#include "world.h"

typedef struct {
    const char *name;
    size_t offset, size;
} field_t;

#define FIELD(type, field) \
    { #field, offsetof(type, field), sizeof(((type *)0)->field) }
static const field_t slab_fields[] = {
    FIELD(hak_unit_t, bits),         FIELD(hak_unit_t, words_free), FIELD(hak_unit_t, remote_words),
    FIELD(hak_unit_t, pending_next), FIELD(hak_unit_t, free_count), FIELD(hak_unit_t, owner),
    FIELD(hak_unit_t, next),         FIELD(hak_unit_t, prev),       {NULL, 0, 0},
};
static const field_t bin_fields[] = {
    FIELD(hak_bin_t, lock),    FIELD(hak_bin_t, listed_count), FIELD(hak_bin_t, head),
    FIELD(hak_bin_t, tail),    FIELD(hak_bin_t, empty),        FIELD(hak_bin_t, pending),
    FIELD(hak_bin_t, touched), FIELD(hak_bin_t, spare),        {NULL, 0, 0},
};

/* "WHAT index.field", or NULL when the variable is not in the array. */
static const char *describe_in(const world_array_t *array, const field_t *field,
                               const volatile void *variable) {
    static char text[4][60];
    static unsigned next;
    size_t offset = (size_t)((uintptr_t)variable - (uintptr_t)array->start);
    if (offset >= array->count * array->size) return NULL;
    next = (next + 1) % 4;
    int head = snprintf(text[next], sizeof *text, "%s %zu", array->what, offset / array->size);
    size_t within = offset % array->size;
    for (; field && field->name; field++) {
        if (within - field->offset >= field->size) continue;
        snprintf(text[next] + head, sizeof *text - (size_t)head, ".%s", field->name);
        return text[next];
    }
    snprintf(text[next] + head, sizeof *text - (size_t)head, " + %zu", within);
    return text[next];
}

static const char *describe_bin(unsigned shard, unsigned class_index,
                                const volatile void *variable) {
    char what[40];
    const world_array_t bin = {what, hak_bin_of(shard, class_index), 1, sizeof(hak_bin_t)};
    snprintf(what, sizeof what, "bin of class %u, shard %u, bin", class_index, shard);
    return describe_in(&bin, bin_fields, variable);
}

const char *world_describe(const volatile void *variable) {
    const world_array_t counts[] = {
        {"counts of class 41", hak_bin_counts(0, WORLD_COUNTED), 1, sizeof(hak_bin_counts_t)},
        {"carries", hak_bin_carries, HAK_CLASS_COUNT + 1, sizeof *hak_bin_carries},
    };
    const char *name = variable == &hak_warm_seen ? "hak_warm_seen" : NULL;
    for (const world_array_t *array = world_arrays; array->what && !name; array++)
        name = describe_in(array, array == world_arrays ? slab_fields : NULL, variable);
    for (unsigned i = 1; i <= HAK_CLASS_COUNT && !name; i++)
        for (unsigned shard = 0; shard < WORLD_SHARDS && !name; shard++)
            name = describe_bin(shard, i, variable);
    for (unsigned i = 0; i < 2 && !name; i++) name = describe_in(&counts[i], NULL, variable);
    return name;
}
