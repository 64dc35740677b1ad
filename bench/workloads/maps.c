/*
 * maps - input for the compiler: hash maps and sorted vectors for many pairs of types, made
 * from one text by macros, and a program that uses each. A few hundred functions of ordinary
 * code, so that parsing, inlining and register allocation all have work.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAP(name, key_type, value_type)                                                        \
    struct name##_entry {                                                                      \
        key_type key;                                                                          \
        value_type value;                                                                      \
        unsigned char used;                                                                    \
    };                                                                                         \
    struct name {                                                                              \
        struct name##_entry *entries;                                                          \
        size_t capacity, count;                                                                \
    };                                                                                         \
    static size_t name##_slot(const struct name *map, key_type key) {                          \
        uint64_t hash = (uint64_t)key * 0x9E3779B97F4A7C15u;                                   \
        size_t at = (size_t)(hash >> 20) & (map->capacity - 1);                                \
        while (map->entries[at].used && map->entries[at].key != key)                           \
            at = (at + 1) & (map->capacity - 1);                                               \
        return at;                                                                             \
    }                                                                                          \
    static void name##_grow(struct name *map) {                                                \
        struct name bigger = {NULL, map->capacity ? 2 * map->capacity : 8, map->count};        \
        bigger.entries = calloc(bigger.capacity, sizeof *bigger.entries);                      \
        if (!bigger.entries) abort();                                                          \
        for (size_t i = 0; i < map->capacity; i++)                                             \
            if (map->entries[i].used)                                                          \
                bigger.entries[name##_slot(&bigger, map->entries[i].key)] = map->entries[i];   \
        free(map->entries);                                                                    \
        *map = bigger;                                                                         \
    }                                                                                          \
    static void name##_put(struct name *map, key_type key, value_type value) {                 \
        if (3 * (map->count + 1) > 2 * map->capacity) name##_grow(map);                        \
        struct name##_entry *entry = &map->entries[name##_slot(map, key)];                     \
        map->count += !entry->used;                                                            \
        *entry = (struct name##_entry){key, value, 1};                                         \
    }                                                                                          \
    static value_type name##_get(const struct name *map, key_type key, value_type otherwise) { \
        if (!map->capacity) return otherwise;                                                  \
        const struct name##_entry *entry = &map->entries[name##_slot(map, key)];               \
        return entry->used ? entry->value : otherwise;                                         \
    }                                                                                          \
    static void name##_sift(struct name##_entry *heap, size_t at, size_t count) {              \
        for (size_t child; (child = 2 * at + 1) < count; at = child) {                         \
            if (child + 1 < count && heap[child + 1].key > heap[child].key) child++;           \
            if (heap[at].key >= heap[child].key) return;                                       \
            struct name##_entry swap = heap[at];                                               \
            heap[at] = heap[child];                                                            \
            heap[child] = swap;                                                                \
        }                                                                                      \
    }                                                                                          \
    static size_t name##_sorted(const struct name *map, struct name##_entry *out) {            \
        size_t count = 0;                                                                      \
        for (size_t i = 0; i < map->capacity; i++)                                             \
            if (map->entries[i].used) out[count++] = map->entries[i];                          \
        for (size_t i = count / 2; i-- > 0;) name##_sift(out, i, count);                       \
        for (size_t end = count; end-- > 1;) {                                                 \
            struct name##_entry swap = out[0];                                                 \
            out[0] = out[end];                                                                 \
            out[end] = swap;                                                                   \
            name##_sift(out, 0, end);                                                          \
        }                                                                                      \
        return count;                                                                          \
    }                                                                                          \
    static double name##_use(uint64_t seed) {                                                  \
        struct name map = {NULL, 0, 0};                                                        \
        double sum = 0;                                                                        \
        for (int i = 0; i < 500; i++) {                                                        \
            seed = seed * 6364136223846793005u + 1442695040888963407u;                         \
            key_type key = (key_type)(seed >> 40 & 127);                                       \
            switch (seed >> 60 & 3) {                                                          \
            case 0:                                                                            \
                name##_put(&map, key, (value_type)(seed >> 33));                               \
                break;                                                                         \
            case 1:                                                                            \
                sum += (double)name##_get(&map, key, (value_type)1);                           \
                break;                                                                         \
            case 2:                                                                            \
                name##_put(&map, (key_type)(key / 3), (value_type)i);                          \
                break;                                                                         \
            default:                                                                           \
                sum = sum * 0.5 + (double)map.count;                                           \
            }                                                                                  \
        }                                                                                      \
        struct name##_entry *sorted = malloc((map.count + 1) * sizeof *sorted);                \
        if (!sorted) abort();                                                                  \
        size_t count = name##_sorted(&map, sorted);                                            \
        for (size_t i = 1; i < count; i++) sum += (double)(sorted[i].key - sorted[i - 1].key); \
        free(sorted);                                                                          \
        free(map.entries);                                                                     \
        return sum;                                                                            \
    }

#define VALUES(make, prefix, key)                                          \
    make(prefix##_i8, key, int8_t) make(prefix##_u16, key, uint16_t)       \
        make(prefix##_i32, key, int32_t) make(prefix##_u64, key, uint64_t) \
            make(prefix##_f, key, float) make(prefix##_d, key, double)

#define KEYS(make)                  \
    VALUES(make, map_i16, int16_t)  \
    VALUES(make, map_u16, uint16_t) \
    VALUES(make, map_i32, int32_t)  \
    VALUES(make, map_u32, uint32_t) \
    VALUES(make, map_i64, int64_t)  \
    VALUES(make, map_u64, uint64_t)

KEYS(MAP)

#define USE(name, key_type, value_type) sum += name##_use((uint64_t)argc + sizeof(key_type));

int main(int argc, char **argv) {
    double sum = 0;

    (void)argv;
    KEYS(USE)
    printf("%.6f\n", sum);
    return 0;
}
