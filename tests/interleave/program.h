/* program.h: what the threads of the whole engine's scenarios do, and what must hold then: every
 * block is the program's once and keeps its contents, and the counts are right. */
#pragma once

#include <stddef.h>

#include "base/base.h"
#include "explore.h"
#include "hakmem.h"

enum {
    PROGRAM_SLOTS = 192
}; /* where the program keeps its blocks; each belongs to one thread at a time */

/* In prepare: sets options, one "NAME=value" each up to NULL. */
void program_options(const char *const *options);

/* The public functions, on the block of a slot. */
void program_malloc(unsigned slot, size_t size);
void program_calloc(unsigned slot, size_t size);
void program_aligned(unsigned slot, size_t align, size_t size);
void program_realloc(unsigned slot, size_t size);
void program_free(unsigned slot);
void program_delete(unsigned slot); /* on the hardened path */
size_t program_usable(unsigned slot);

/* A block of a heap of the program's own, which program_free frees, too; and blocks that go with it. */
void program_heap_malloc(hakmem_heap_t *heap, unsigned slot, size_t size);
void program_forget(unsigned first, unsigned count);

/* The same for slots first .. first + count - 1. */
void program_malloc_all(unsigned first, unsigned count, size_t size);
void program_free_all(unsigned first, unsigned count);

/* Blocks that the program has: of a size, or of any (0). */
unsigned program_live(size_t size);

/* One thread has put a block into a slot, and another one waits for it. */
void program_post(unsigned slot);
void program_await(unsigned slot);

/* A place in the program's file, for nm(1), where an address is in one. */
const char *program_describe(const volatile void *variable);

/* A figure of the statistics. */
size_t program_figure(const char *name);

/* At the end: no live block was changed, what is handed out next is none of them, and the statistics
 * count them right; but not in a fork's child, where what other threads cached is lost. */
void program_check(void);

/* Sizes that programs ask for. */
enum {
    SMALL = 100,
    PAGES = 8 * KIB,   /* of the mid tier: 8 blocks a slab */
    RAGGED = 40 * KIB, /* one in a slab */
    WARM = 2 * KIB,
    LARGE = 100 * KIB,
    HUGE = 2 * MIB,
};

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A process without a call so far. */
void program_begin(void);

/* A process whose first thread has a cache, as one that starts others. */
void program_start(const char *const *options);
