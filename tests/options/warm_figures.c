/* warm_figures.c - what the options of warm slabs change. */
#define _GNU_SOURCE
#include "warm_figures.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "pool_figures.h"

enum { SIZE = 1024, COUNT = 64 * 40, MORE = COUNT / 4 }; /* forty slabs */

static void *blocks[COUNT], *more[MORE];

/* Every other block of each slab goes back, then half of those are taken again. */
static void refill_from_half_used_slabs(void) {
    for (int i = 0; i < COUNT; i++) CHECK(blocks[i] = API(malloc)(SIZE), "no memory");
    for (int i = 0; i < COUNT; i += 2) API(free)(blocks[i]);
    API(malloc_trim)(0);
    for (int i = 0; i < MORE; i++) CHECK(more[i] = API(malloc)(SIZE), "no memory");
}

static void fill_and_empty_slabs(void) {
    for (int i = 0; i < COUNT; i++) CHECK(blocks[i] = API(malloc)(SIZE), "no memory");
    for (int i = 0; i < COUNT; i++) API(free)(blocks[i]);
    API(malloc_trim)(0);
}

long slabs_bound(void) {
    refill_from_half_used_slabs();
    return statistic("warm.bound");
}

long refills_carved(void) {
    refill_from_half_used_slabs();
    return statistic("bands.C7.tls_carve_success");
}

/* Lines that begin in that way and come to stderr meanwhile. */
static long lines_meanwhile(void (*work)(void), const char *beginning) {
    static char text[1 << 20];
    int file = memfd_create("stderr", 0), before = dup(STDERR_FILENO);
    CHECK(file >= 0 && before >= 0 && dup2(file, STDERR_FILENO) >= 0, "no file");
    work();
    CHECK(dup2(before, STDERR_FILENO) >= 0, "stderr is lost");
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    CHECK(size >= 0 && size < (ssize_t)sizeof text - 1, "%zd bytes on stderr", size);
    close(file);
    close(before);
    long lines = 0;
    for (const char *at = text; (at = strstr(at, beginning)) != NULL; at++) lines++;
    return lines;
}

long lines_of_warm_slabs(void) {
    return lines_meanwhile(refill_from_half_used_slabs, "hakmem: warm: ");
}

long lines_of_hand_overs(void) {
    return lines_meanwhile(fill_and_empty_slabs, "hakmem: pagebox: ");
}
