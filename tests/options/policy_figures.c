/* policy_figures.c - what the options of the policy change. */
#define _GNU_SOURCE
#include "policy_figures.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "pool_figures.h"

#if defined(TEST_PREFIXED)
#define SET_OPTION hakmem_option_set
#else
#include <dlfcn.h>
#define SET_OPTION ((int (*)(const char *, const char *))dlsym(RTLD_DEFAULT, "hakmem_option_set"))
#endif

enum { BANDS = 8, COUNT = 20000, ROUNDS = 10 };

static void *blocks[COUNT];

long promoted_bands(void) {
    long count = 0;
    for (int band = 0; band < BANDS; band++) {
        char name[32];
        snprintf(name, sizeof name, "bands.C%d.promoted", band);
        count += statistic(name);
    }
    return count;
}

/* Far more blocks than a cache holds, of three bands in turn. */
static void work(void) {
    static const size_t sizes[] = {64, 128, 256};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) blocks[i] = API(malloc)(sizes[i % 3]);
        for (int i = 0; i < COUNT; i++) API(free)(blocks[i]);
    }
}

long promoted_bands_after_work(void) {
    work();
    return promoted_bands();
}

long looks_after_work(void) {
    work();
    return statistic("policy.looks");
}

/* Lines on stderr while all bands are promoted that were not. */
long lines_of_a_promotion(void) {
    char text[8192];
    long lines = 0;
    int ends[2], before = dup(STDERR_FILENO);
    CHECK(before >= 0 && pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0, "no pipe");
    CHECK(SET_OPTION("TINY_POLICY_PROFILE", "tinyplus_all") == 0, "there is no such option");
    CHECK(dup2(before, STDERR_FILENO) >= 0, "stderr is lost");
    close(ends[1]);
    for (ssize_t size; (size = read(ends[0], text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < size; i++) lines += text[i] == '\n';
    close(ends[0]);
    close(before);
    return lines;
}
