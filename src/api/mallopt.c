/* mallopt.c: glibc's parameters, as far as they have a meaning in HAKMEM.
 *
 * Some correspond to an option. Such a parameter acts like hakmem_option_set, unless the user has
 * set that option: the environment takes precedence over mallopt. */
#include <stdio.h>

#include "api/export.h"
#include "api/malloc.h"
#include "options/environment.h"
#include "options/options.h"
#include "os/cpu.h"
#include "thread/thread.h"

/* The values of <malloc.h>, which not every libc has. */
enum {
    MXFAST = 1,
    TRIM_THRESHOLD = -1,
    TOP_PAD = -2,
    MMAP_THRESHOLD = -3,
    MMAP_MAX = -4,
    CHECK_ACTION = -5,
    PERTURB = -6,
    ARENA_TEST = -7,
    ARENA_MAX = -8,
};

enum { KNOWN = 1, REFUSED = 0 };

/* glibc's upper limit of M_MXFAST. */
enum { MXFAST_MOST = 80 * sizeof(size_t) / 4 };

static int set_option(hak_option_t option, const char *name, int64_t value) {
    char text[24];
    hak_options_load();
    hak_option_source_t source = hak_option_source(option);
    if (source != HAK_SOURCE_DEFAULT && source != HAK_SOURCE_PROGRAM) return KNOWN;
    snprintf(text, sizeof text, "%lld", (long long)value);
    hakmem_option_set(name, text);
    return KNOWN;
}

/* glibc keeps that many free bytes at the end of its heap; HAKMEM keeps free memory for a time. A
 * negative value keeps it for ever, 0 gives it back at once, any other value means the default
 * delay. */
static int set_trim_threshold(int bytes) {
    int64_t delay = hak_option_row(HAK_OPTION_PURGE_DELAY_MS).fallback;
    if (bytes < 0) delay = -1; /* as the size_t that it is in glibc: the largest one */
    if (bytes == 0) delay = 0;
    return set_option(HAK_OPTION_PURGE_DELAY_MS, "PURGE_DELAY_MS", delay);
}

/* Blocks up to 64 KiB are never mappings of their own, blocks above 1 MiB always are. A negative
 * value becomes a very large one, as in glibc. */
static int set_mmap_threshold(int bytes) {
    size_t least = hak_max((size_t)bytes, HAK_CLASS_MAX + 1);
    hak_store_relaxed(&hak_mapping_threshold, hak_min(least, HAK_LARGE_MAX + 1));
    return KNOWN;
}

/* A program that asks for few arenas wants little memory kept ready for parallel work: its caches
 * get the budget of a machine with that many CPUs. */
static int set_arena_max(int count) {
    int64_t budget = 0;
    if (count > 0 && (unsigned)count < hak_os_cpu_count())
        budget = (int64_t)count * (int64_t)HAK_BUDGET_PER_CPU;
    return set_option(HAK_OPTION_CACHE_BUDGET, "CACHE_BUDGET", budget);
}

int hakmem_mallopt(int parameter, int value) {
    switch (parameter) {
    case MXFAST: /* no fast bins */
        return value >= 0 && value <= MXFAST_MOST ? KNOWN : REFUSED;
    case TRIM_THRESHOLD:
        return set_trim_threshold(value);
    case MMAP_THRESHOLD:
        return set_mmap_threshold(value);
    case ARENA_MAX:
        return set_arena_max(value);
    case TOP_PAD:      /* there is no heap end */
    case MMAP_MAX:     /* blocks above 1 MiB need mappings */
    case CHECK_ACTION: /* without effect in glibc, too, since 2.26; use HAKMEM_ON_ERROR */
    case PERTURB:      /* filling blocks would cost time in every call */
    case ARENA_TEST:
        return KNOWN;
    default:
        return REFUSED;
    }
}
HAK_TWIN(int, mallopt, (int parameter, int value))
HAK_LIBC_TWIN(int, mallopt, (int parameter, int value))
