/* purge_ahead.h: how much free memory a program keeps that has no helper thread; purge_ahead.c says why. */
#pragma once

#include "base/base.h"

/* Bytes of free memory with pages that are more than may be kept, 0 when that is little; by sums
 * that are a little behind. */
size_t hak_purge_ahead_excess(void);

/* Most of what was in use is gone, it still falls, and more has pages than may be kept, as far as the last look has seen. */
bool hak_purge_ahead_falls(void);

/* What is in use has stayed about where it was for as long as free memory keeps its pages, and has not risen since,
 * as far as the last look has seen: allocations give back, too. */
bool hak_purge_ahead_rests(void);

/* True when the last look is some time ago, or much has changed since; a hint. */
bool hak_purge_ahead_is_due(uint64_t now_ms);

/* A look at what is in use. By the owner of purge work (purge_trigger.c). */
void hak_purge_ahead_look(uint64_t now_ms);

/* Frees have given so much back. By the owner. */
void hak_purge_ahead_gave(size_t bytes);

/* In the child of a fork. */
void hak_purge_ahead_forget(void);
