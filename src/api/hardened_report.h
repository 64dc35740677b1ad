/* hardened_report.h: the diagnoses of the hardened path. Each prints a line; HAKMEM_ON_ERROR says whether the
 * process ends.
 *
 * `function` is the name of the public function that was called; `block` and `size` are the block that it got. */
#pragma once

#include "base/base.h"
#include "hardened/state.h"

/* The origin of the blocks that a public function may free. The first letter of its name, and what
 * follows "operator delete", tell it. */
HAK_FAST_PATH hak_origin_t hak_hardened_origin_of(const char *function) {
    if (function[0] != 'o') return HAK_ORIGIN_MALLOC;
    return function[sizeof "operator delete" - 1] ? HAK_ORIGIN_NEW_ARRAY : HAK_ORIGIN_NEW;
}

/* True if a block of malloc may be freed by operator delete, or one of operator new by free, because another loaded file
 * has operators of its own. A library that contains the C++ runtime may call them: they take blocks from malloc, and
 * the program frees such a block by HAKMEM's operator delete. This is correct, although it looks like a mistake. The
 * size must match all the same. */
HAK_SLOW_PATH bool hak_hardened_matches_mixed(const char *function, size_t size,
                                              hak_origin_t origin, size_t said);

/* The block was allocated by a function that does not match. */
HAK_SLOW_PATH void hak_hardened_report_mismatch(const char *function, const void *block,
                                                size_t size, hak_origin_t origin);

/* The same, or the caller passed the wrong size `said`. */
HAK_SLOW_PATH void hak_hardened_report_wrong(const char *function, const void *block, size_t size,
                                             hak_origin_t origin, size_t said);

/* The canary behind the block was written to. */
HAK_SLOW_PATH void hak_hardened_report_overflow(const char *function, const void *block,
                                                size_t size);

/* No block in use begins there. */
HAK_SLOW_PATH void hak_hardened_report_pointer(const char *function, const void *pointer);
