/* mallopt.c: glibc's parameters, as far as they have a meaning here.
 *
 * Some are options of HAKMEM in other words. Such a parameter does what hakmem_option_set does,
 * unless the user of the program has set that option: the environment wins over the program. */
#include <stdio.h>

#include "api/export.h"
#include "api/malloc.h"
#include "options/options.h"
#include "os/os.h"
#include "thread/thread.h"

/* Of <malloc.h>, which not every libc has. */
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

/* glibc's limit on that value. */
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

/* glibc keeps that many free bytes at the end of its heap. Here free memory is kept for a time: for
 * ever where the program wants no trimming, not at all where it wants it always. */
static int set_trim_threshold(int bytes) {
    int64_t delay = hak_option_row(HAK_OPTION_PURGE_DELAY_MS).fallback;
    if (bytes < 0) delay = -1; /* as the size_t that it is in glibc: the largest one */
    if (bytes == 0) delay = 0;
    return set_option(HAK_OPTION_PURGE_DELAY_MS, "PURGE_DELAY_MS", delay);
}

/* Blocks up to 64 KiB are never mappings of their own, those above 1 MiB always are. A negative
 * value is a large one, as for glibc. */
static int set_mmap_threshold(int bytes) {
    size_t least = hak_max((size_t)bytes, HAK_CLASS_MAX + 1);
    hak_store_relaxed(&hak_mapping_threshold, hak_min(least, HAK_LARGE_MAX + 1));
    return KNOWN;
}

/* A program that wants few arenas wants little memory held ready for parallel work: its caches
 * share what they would with so many CPUs. */
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
    case CHECK_ACTION: /* nor has glibc from 2.26 on; HAKMEM_ON_ERROR has */
    case PERTURB:      /* a look at each call is not to be had for nothing */
    case ARENA_TEST:
        return KNOWN;
    default:
        return REFUSED;
    }
}
HAK_TWIN(int, mallopt, (int parameter, int value))
