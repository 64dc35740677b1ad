/* figures.h - the library's own figures and options, asked of whichever form is under test. */
#pragma once

#include <stdint.h>

#include "load.h"

#if defined(TEST_PREFIXED)
#define LIBRARY(function) (&(function))
#else
#include <dlfcn.h>
#define LIBRARY(function) dlsym(RTLD_DEFAULT, #function)
#endif

/* A figure by the name that hakmem_stats_get knows. */
static inline uint64_t figure(const char *name) {
    int (*get)(const char *, uint64_t *) = LIBRARY(hakmem_stats_get);
    uint64_t value = 0;
    CHECK(get != NULL && get(name, &value) == 0, "there is no figure %s", name);
    return value;
}

static inline void set_option(const char *name, const char *value) {
    int (*set)(const char *, const char *) = LIBRARY(hakmem_option_set);
    CHECK(set != NULL && set(name, value) == 0, "%s cannot be %s", name, value);
}
