/* profile_figures.c - what the options of the heap profiler change. */
#define _GNU_SOURCE
#include "profile_figures.h"

#include <signal.h>

#include "alloc_names.h"
#include "check.h"
#include "pool_figures.h"

#if defined(TEST_PREFIXED)
#define DUMP hakmem_prof_dump
#else
#include <dlfcn.h>
#define DUMP ((int (*)(const char *))dlsym(RTLD_DEFAULT, "hakmem_prof_dump"))
#endif

long sampled_blocks(void) {
    static void *blocks[4096];
    long before = statistic("profile.samples");
    for (int i = 0; i < 4096; i++) blocks[i] = API(malloc)(1024);
    CHECK(blocks[4095] != NULL, "no memory");
    return statistic("profile.samples") - before;
}

long error_of_dump(void) { return DUMP(NULL); }

long handled_signal(void) {
    struct sigaction action;
    for (int number = 64; number > 50; number--)
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL) return number;
    return 0;
}
