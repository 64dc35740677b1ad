/* load.h - the same small piece of work for every stress test: a table of blocks whose bytes are
 * checked whenever one is freed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alloc_names.h"
#include "check.h"
#include "rng.h"

#define LOAD_SLOTS 200

struct load {
    struct rng rng;
    size_t most; /* sizes are 1..most */
    struct load_slot {
        unsigned char *block;
        size_t size;
    } slots[LOAD_SLOTS];
};

/* The mark at both ends of a block tells to whom it belongs. */
static inline unsigned char load_mark(const struct load_slot *slot) {
    return (unsigned char)(((uintptr_t)slot->block >> 4) + slot->size);
}

static inline void load_free(struct load_slot *slot) {
    if (slot->block == NULL) return;
    CHECK(slot->block[0] == load_mark(slot) && slot->block[slot->size - 1] == load_mark(slot),
          "block %p of %zu bytes has changed", (void *)slot->block, slot->size);
    API(free)(slot->block);
    slot->block = NULL;
}

static inline void load_fill(struct load *load, struct load_slot *slot) {
    slot->size = rng_size(&load->rng, 1, load->most);
    slot->block = API(malloc)(slot->size);
    CHECK(slot->block != NULL, "malloc(%zu) gave NULL", slot->size);
    slot->block[0] = slot->block[slot->size - 1] = load_mark(slot);
}

/* Frees and fills slots at random, so many times. */
static inline void load_run(struct load *load, unsigned long steps) {
    while (steps-- > 0) {
        struct load_slot *slot = &load->slots[rng_below(&load->rng, LOAD_SLOTS)];
        if (slot->block != NULL)
            load_free(slot);
        else
            load_fill(load, slot);
    }
}

static inline void load_end(struct load *load) {
    for (size_t i = 0; i < LOAD_SLOTS; i++) load_free(&load->slots[i]);
}
