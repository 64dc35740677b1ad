/* empty.h: blocks of size 0.
 *
 * They are addresses 16 bytes apart in one reserved range of 1 MiB without access: each read or
 * write ends the program. One bit for each address says whether it is taken. A thread takes an
 * address by an atomic OR of its bit, and gives it back by an atomic AND; the old value of the bit
 * tells the thread whether it was the one that changed it. When all are in use, malloc(0) is served
 * as malloc(1). */
#pragma once

#include "base/base.h"
#include "hardened/hardened.h"

/* An address at a multiple of `align`, a power of two up to a page; NULL when none is left. */
void *hak_empty_take(hak_random_t *random, size_t align);

/* True for an address of the range. */
bool hak_empty_has(const void *pointer);

/* Gives it back; false when it is not in use. */
bool hak_empty_give(const void *pointer);

bool hak_empty_is_used(const void *pointer);

/* Blocks of size 0 in use, for the statistics. */
size_t hak_empty_count(void);
