/* faults.c - under HAKMEM_PROFILE=HARDENED: fresh memory costs one page fault a page, although malloc
 * compares each block with zero. A page that is read before it is written to would have two. */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/resource.h>

#include "alloc_names.h"
#include "check.h"

enum { SIZE = 103, BLOCK = 112, BLOCKS = 200000, PAGE = 4096, TOLERATED = 400 };

static long faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

int main(void) {
    const long pages = (long)BLOCKS * BLOCK / PAGE;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    API(free)(API(malloc)(SIZE));
    const long before = faults();
    for (int i = 0; i < BLOCKS; i++) CHECK(API(malloc)(SIZE) != NULL, "no block");
    const long more = faults() - before;
    CHECK(more < pages + pages / 4 + TOLERATED, "%ld faults for %ld pages", more, pages);
    return 0;
}
