/* first_pages.c - row B1: the first 100 small allocations of a program touch at most 40 pages. */
#define _GNU_SOURCE
#include <stdio.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

#define PAGE_LIMIT 40

int main(void) {
    static unsigned char *blocks[100];
    watchdog(10, "100 allocations");
    long before = proc_minor_faults();
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = API(malloc)(16 + i * 10);
        blocks[i][0] = 1;
    }
    long faults = proc_minor_faults() - before;
    require_hakmem();
    printf("%ld page faults for the first 100 small allocations\n", faults);
    CHECK(faults <= PAGE_LIMIT, "%ld page faults for the first 100 small allocations", faults);
    for (size_t i = 0; i < 100; i++) API(free)(blocks[i]);
    return 0;
}
