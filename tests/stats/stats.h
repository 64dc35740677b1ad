/* stats.h - figures of the allocator, and the table that they come from. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "alloc_names.h"
#include "check.h"

static inline uint64_t stat_of(const char *name) {
    uint64_t value = 0;
    CHECK(hakmem_stats_get(name, &value) == 0, "there is no figure %s", name);
    return value;
}

enum { COUNTER = true, GAUGE = false };

/* Every row of the table: "classes", "bands", "tiers" or the group of the process's figures; name; kind. */
static const struct stat_row {
    const char *group, *name;
    bool is_counter;
} stat_rows[] = {
#define STAT_CLASS(name, kind, ...) {"classes", #name, kind},
#define STAT_BAND(name, kind, ...) {"bands", #name, kind},
#define STAT_TIER(name, kind, ...) {"tiers", #name, kind},
#define STAT_VALUE(group, name, kind, ...) {#group, #name, kind},
#include "stats/each_figure.def"
};

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
