/* area.h: memory for records that grows in place, between two inaccessible ends.
 *
 *   | guard | accessible ......... | reserved .... guard |            | limit
 *           ^base                  ^base + committed     ^base + reserved
 *
 * What is accessible grows by doubling up to HAK_AREA_STEP and then by steps, what is reserved by
 * doubling up to 1 MiB and then by quarters; both by the exact need where more is refused. Behind it
 * there is always a page or more without access, and below it the same: a write beyond a block of the
 * program runs into it before it reaches a record. A guard is not longer than that since a process that
 * locks its memory (mlockall) has all of its addresses counted. Everything here is under the lock of the
 * owner.
 *
 * An area does not go round somebody else's mapping. Records of meta.c go on in another area. Those of the region are
 * found by their number, without a lock: they cannot move, nor lie in two places, and a gap in the map would be read
 * as classes. So the region waits until the mapping is gone. */
#pragma once

#include "base/base.h"
#include "os/os.h"

enum {
    HAK_AREA_STEP = 64 * 1024, /* a page at least, however large pages are */
    HAK_AREA_MAPPINGS = 3,     /* that one area is to the kernel */
};

/* Invariant: uncharged <= committed; committed + a page <= reserved <= limit; all are multiples of a
 * page. */
typedef struct {
    char *base;       /* constant once placed; NULL before */
    size_t committed; /* bytes that can be read and written; only grows */
    size_t uncharged; /* of them: nobody writes there, so the limit does not count them */
    size_t reserved;  /* bytes mapped from base on */
    size_t limit;     /* constant; bytes that may be mapped from base on */
    const char *name; /* constant; in /proc/PID/maps */
} hak_area_t;

/* Bytes of addresses that an area for `size` bytes of records takes, both guards included. */
HAK_FAST_PATH size_t hak_area_span(size_t size) {
    return hak_align_up(size, HAK_AREA_STEP) + 3 * (size_t)HAK_AREA_STEP;
}

/* Places an area of hak_area_span(size) bytes at `start`; nothing of it is accessible yet. */
hak_os_answer_t hak_area_place(hak_area_t *area, char *start, size_t size, const char *name);

/* Unmaps an area; for one whose neighbours found no place. */
void hak_area_remove(hak_area_t *area);

/* Makes the first `want` bytes accessible. What becomes accessible is charged as committed, without the
 * pages below the offset `from`, where nobody will write: records of a hole. Unless the answer is
 * HAK_OS_MAPPED, what was accessible still is, and no more; HAK_OS_TAKEN: it never will be. */
hak_os_answer_t hak_area_commit(hak_area_t *area, size_t from, size_t want);

HAK_FAST_PATH size_t hak_area_charged(const hak_area_t *area) {
    return area->committed - area->uncharged;
}
