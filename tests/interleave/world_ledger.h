/* world_ledger.h: what the world asks the ledger of blocks, and it the world. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A new execution: nobody holds a block. */
void ledger_reset(void);

/* True when a block in use lies in these bytes, or a part of it. */
bool ledger_has(const char *start, size_t size);

/* Whether a second free may go by without a report; how many did. */
bool ledger_may_miss(void);
unsigned ledger_missed(void);

/* When nothing is under way: each block in use has a slab, each double free was reported. */
void ledger_check_finally(void);

/* The contents of these bytes are written, by the holder of their block, or by the kernel. */
void world_write(const char *start, size_t size);
