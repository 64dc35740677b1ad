/* empty.h: blocks of size 0.
 *
 * They are addresses 16 bytes apart in one reserved range of 2 MiB without access: each read or
 * write ends the program. The first half is for malloc, the third quarter for new, and the last one for
 * new[], so an address tells which function has to free it. One bit for each address says whether it is
 * taken. A thread takes an address by an atomic OR of its bit, and gives it back by an atomic AND; the
 * old value of the bit tells the thread whether it was the one that changed it. When all addresses of a
 * function are in use, its requests are served as if for one byte. */
#pragma once

#include "base/base.h"
#include "hardened/hardened.h"
#include "hardened/state.h"

/* An address at a multiple of `align`, a power of two up to a page; NULL when none is left. */
void *hak_empty_take(hak_random_t *random, size_t align, hak_origin_t origin);

/* True for an address of the range. */
bool hak_empty_has(const void *pointer);

/* Of an address of the range: the kind of function that it was for. */
hak_origin_t hak_empty_origin(const void *pointer);

/* Gives it back; false when it is not in use. */
bool hak_empty_give(const void *pointer);

bool hak_empty_is_used(const void *pointer);

/* Blocks of size 0 in use, for the statistics. */
size_t hak_empty_count(void);
