/* profile_figures.c - what the options of the heap profiler change. */
#define _GNU_SOURCE
#include "profile_figures.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* PROF_FILE is a folder of the process's own with a / behind it: so the profile of the end has no name, and nothing
 * is left. */
static long profiles_written(bool keeps) {
    char folder[64], path[96];
    long count = 0;
    snprintf(folder, sizeof folder, FOLDER_OF_PROFILES "%d", (int)getpid());
    CHECK(mkdir(folder, 0700) == 0, "no folder %s", folder);
    for (int i = 0; i < 8192; i++) {
        void *volatile block = API(malloc)(1024);
        CHECK(block != NULL, "no memory");
        if (!keeps) API(free)(block);
    }
    do snprintf(path, sizeof path, "%s/.%ld", folder, count + 1);
    while (unlink(path) == 0 && ++count);
    rmdir(folder);
    return count;
}

long profiles_while_growing(void) { return profiles_written(true); }
long profiles_while_changing(void) { return profiles_written(false); }

long error_of_dump(void) { return DUMP(NULL); }

long handled_signal(void) {
    struct sigaction action;
    for (int number = 64; number > 50; number--)
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL) return number;
    return 0;
}
