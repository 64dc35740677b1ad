/* verify.h: the invariants of superslabs in the hands of the pool, and of its lists. */
#pragma once

#include "error/check.h"
#include "region/superslab.h"

/* Checks one record by itself. Pool lock held, or every thread outside the engine. */
void hak_superslab_check(hak_check_t *check, const hak_superslab_t *super);

/* All of them, with every thread outside the engine. */
void hak_pool_check(hak_check_t *check);

void hak_pool_check_at_release(const void *lock);
