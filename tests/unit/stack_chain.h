/* stack_chain.h: a chain of calls with known return addresses. */
#pragma once

#include <stdint.h>

enum { CHAIN_MOST = 128 };

typedef struct chain {
    uintptr_t expected[CHAIN_MOST]; /* the outermost first */
    unsigned count;
    uintptr_t found[CHAIN_MOST]; /* the innermost first */
    unsigned found_count;
    void (*bottom)(struct chain *chain);
} chain_t;

/* Each calls itself and its like `left` times, then chain->bottom. */
void chain_by_tables(chain_t *chain, unsigned left);   /* tables, no frame pointers */
void chain_by_pointers(chain_t *chain, unsigned left); /* frame pointers, no tables */
void chain_by_nothing(chain_t *chain, unsigned left);  /* neither */
