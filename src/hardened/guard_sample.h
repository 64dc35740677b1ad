/* guard_sample.h: a few blocks of the program on pages of their own (HAKMEM_GUARD_SAMPLE).
 *
 *   | no access | page 0 | no access | page 1 | no access | ... | no access |
 *
 * One call of malloc in GUARD_SAMPLE, chosen at random (cache/sampler.h), gets a block in such
 * a page, at its beginning or at its end: an access beyond the block hits a page without access,
 * unless the alignment leaves a few bytes between. The other bytes of the page have a known value,
 * which free compares. After the free the page is inaccessible until all pages that were freed
 * before it have been used again. The handler of faults (os/fault.h) prints which block an address
 * belongs to, and the stacks of the calls that allocated and freed it.
 *
 * There are HAK_GUARD_SAMPLE_PAGES pages, so memory is bounded: while all are in use, no call is
 * sampled. Where the kernel has MADV_GUARD_INSTALL, all pages are one mapping; elsewhere each page
 * in use adds two.
 *
 * PROTOCOL. The lock protects the queue of free pages and the change of a page's state:
 *   FREE -> BUSY    alloc takes the page at the head of the queue
 *   BUSY -> USED    before the program has the address
 *   USED -> BUSY    free: of two racing frees one wins, the other reports
 *   BUSY -> FREE    the page enters the queue at its tail
 *   BUSY -> REPORTED -> FREE   free of a damaged block: the page waits for the end of the report, or
 *                   for give_up, which comes before abort(): the program's handler may jump away
 * The thread that has made a page BUSY makes system calls for it without the lock. Meanwhile the
 * page is in no list, so the thread stays inside the gate, and a fork waits. Reports read a page's
 * record without the lock; if the block is freed at that moment, which is an error of the program,
 * a report may mix old and new values. */
#pragma once

#include "base/base.h"
#include "os/lock.h"
#include "os/range.h"

enum { HAK_GUARD_SAMPLE_PAGES = 128 };

typedef struct {
    _Atomic uintptr_t start;       /* of the addresses; 0, then constant */
    _Atomic size_t bytes;          /* of the addresses; 0, then constant; written after `start` */
    _Atomic uint64_t blocks;       /* sampled so far; the lock to write, as the rest */
    _Atomic uint64_t without_page; /* calls that found no free page */
    _Atomic size_t live, live_bytes;
} HAK_ALIGNED(HAK_LINE) hak_guard_sample_t; /* frees read the first two: a line of its own */

extern hak_guard_sample_t hak_sampled;
extern hak_lock_t hak_guard_sample_lock;

HAK_FAST_PATH bool hak_guard_sample_on(void) {
    return HAK_UNLIKELY(hak_load_acquire(&hak_sampled.bytes)); /* partner: hak_guard_sample_start */
}

HAK_FAST_PATH bool hak_guard_sample_has(const void *pointer) {
    size_t bytes = hak_load_acquire(&hak_sampled.bytes); /* partner: hak_guard_sample_start */
    return HAK_UNLIKELY((uintptr_t)pointer - hak_load_relaxed(&hak_sampled.start) < bytes);
}

/* Makes the pages and installs the handler; without memory nothing is sampled. */
void hak_guard_sample_start(void);

/* A block of `size` bytes, all zero, at a multiple of `align`; NULL when either is more than a
 * page, or no page is free. `site` is the HAK_CALLER of the public function. */
void *hak_guard_sample_alloc(size_t size, size_t align, const void *site);

/* The last block of the page of an address: its start, NULL for none, and size; true when it is in
 * use. */
bool hak_guard_sample_find(const void *pointer, void **start, size_t *size);

/* Shows the pages, and the notes about blocks, which hold their addresses. */
void hak_guard_sample_each_range(hak_range_visitor_t visit, void *context);

/* Frees a block, or reports why not; false then. `function` is the public function. */
bool hak_guard_sample_free(void *pointer, const char *function, const void *site);

/* Reports a pointer into a page that is not the start of a block in use. */
HAK_SLOW_PATH void hak_guard_sample_report(const char *function, const void *pointer);

/* Called before abort(): frees the page of a damaged block that the calling thread reports. */
void hak_guard_sample_give_up(void);

/* Bytes charged for the pages; the most mappings that they make up. */
size_t hak_guard_sample_committed(void);
size_t hak_guard_sample_mappings(void);
