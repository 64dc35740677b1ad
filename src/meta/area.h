/* area.h: memory for records that grows in place, between two inaccessible ends.
 *
 *   | guard | accessible ......... | reserved .... guard |            | limit
 *           ^base                  ^base + committed     ^base + reserved
 *
 * The accessible part doubles up to HAK_AREA_STEP and then grows by steps; the reserved part
 * doubles up to 1 MiB and then grows by quarters. Both grow by the exact need where the system
 * refuses more. At least one page before and behind the accessible part is inaccessible: a write
 * beyond a block of the program faults there before it reaches a record. Guards are short because
 * mlockall counts every mapped address of a process. Everything here is under the lock of the
 * owner.
 *
 * An area cannot grow past a mapping that is not HAKMEM's. The records of meta.c continue in
 * another area. The region's records cannot: they are found by their number, without a lock, so
 * they must stay in one piece, and a foreign mapping inside the map would be read as classes. The
 * region therefore waits until the mapping is gone.
 *
 * A program that maps over reserved addresses (MAP_FIXED) takes addresses that are not its own; HAKMEM does not detect
 * this. Rejected: to detect it when a part becomes accessible. mprotect does not tell. A look at the contents cannot
 * tell fresh pages from foreign ones that are zero, brings each page into memory, and proves nothing about a later
 * mapping. To map the part anew would destroy what the program has put there. */
#pragma once

#include "base/base.h"
#include "os/os.h"

enum {
    HAK_AREA_STEP = 64 * 1024, /* a page at least, however large pages are */
    HAK_AREA_MAPPINGS = 3,     /* of one area, as the kernel counts */
};

/* Invariant: uncharged <= committed; committed + a page <= reserved <= limit; all are multiples of
 * a page. */
typedef struct {
    char *base;       /* constant once placed; NULL before */
    size_t committed; /* bytes that can be read and written; only grows */
    size_t uncharged; /* of these, never written, so the limit does not count them */
    size_t reserved;  /* bytes mapped from base on */
    size_t limit;     /* constant; bytes that may be mapped from base on */
    const char *name; /* constant; in /proc/PID/maps */
} hak_area_t;

/* Bytes of address space that an area for `size` bytes of records takes, both guards included. */
HAK_FAST_PATH size_t hak_area_span(size_t size) {
    return hak_align_up(size, HAK_AREA_STEP) + 3 * (size_t)HAK_AREA_STEP;
}

/* Places an area of hak_area_span(size) bytes at `start`; nothing of it is accessible yet. */
hak_os_answer_t hak_area_place(hak_area_t *area, char *start, size_t size, const char *name);

/* Unmaps an area; for one whose neighbours found no place. */
void hak_area_remove(hak_area_t *area);

/* Makes the first `want` bytes accessible, and charges them as committed, except the pages below
 * the offset `from`: these hold the records of a hole, to which nobody writes. Unless the answer is
 * HAK_OS_MAPPED, the accessible part is as before. HAK_OS_TAKEN: a foreign mapping is in the way,
 * or the area has reached its limit. */
hak_os_answer_t hak_area_commit(hak_area_t *area, size_t from, size_t want);

HAK_FAST_PATH size_t hak_area_charged(const hak_area_t *area) {
    return area->committed - area->uncharged;
}
