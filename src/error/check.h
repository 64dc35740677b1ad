/* check.h: invariants that are checked at run time.
 *
 * The comment at a struct states its equations. A `..._check` function states them once more, as
 * calls of the two functions below; a violation is counted and printed as a line on stderr:
 *
 *   hakmem: slab 0x7f0000010000: free_count = set bits: 12, not 13
 *
 * Functions that walk over everything run in hakmem_verify(), with every thread outside the engine.
 * Functions named `..._at_release` check a bounded part. They run in builds with HAKMEM_VERIFY when
 * the lock is released, and the first violation aborts. os/lock_rank.h prints locks that are taken out of
 * order. HAK_ASSERT (base/base.h) prints nothing: it traps where it stands, for the debugger. */
#pragma once

#include "base/base.h"

enum { HAK_CHECK_LINES = 100 }; /* violations that are printed; further ones are only counted */

typedef struct {
    size_t violations;
} hak_check_t;

HAK_SLOW_PATH void hak_check_failed(hak_check_t *check, const char *what, const void *object,
                                    const char *equation, const uint64_t *sides);

/* `equation` says in words that `left` is equal to `right`. */
HAK_FAST_PATH void hak_check_equal(hak_check_t *check, const char *what, const void *object,
                                   const char *equation, uint64_t left, uint64_t right) {
    const uint64_t sides[] = {left, right};
    if (HAK_UNLIKELY(left != right)) hak_check_failed(check, what, object, equation, sides);
}

HAK_FAST_PATH void hak_check_that(hak_check_t *check, const char *what, const void *object,
                                  const char *statement, bool holds) {
    if (HAK_UNLIKELY(!holds)) hak_check_failed(check, what, object, statement, NULL);
}

/* Ends the process after a violation. */
void hak_check_stop(const hak_check_t *check);
