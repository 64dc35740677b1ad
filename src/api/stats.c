/* stats.c: the public functions on statistics: read a figure, list all figures, make the JSON. */
#include <errno.h>
#include <string.h>

#include "api/export.h"
#include "stats/collect.h"
#include "stats/report.h"
#include "stats/stats.h"

int hakmem_stats_get(const char *name, uint64_t *value) {
    size_t index = hak_stats_find(name);
    if (index == HAK_STATS_COUNT) return ENOENT;
    const hak_stats_t *stats = hak_stats_begin();
    if (HAK_UNLIKELY(!stats)) return EDEADLK;
    *value = hak_stats_value(stats, index);
    hak_stats_end(stats);
    return 0;
}

int hakmem_stats_info(size_t index, struct hakmem_stat *stat, size_t size) {
    struct hakmem_stat info = {0};
    if (index >= HAK_STATS_COUNT) return ENOENT;
    const hak_stat_row_t *row = hak_stats_name(index, info.name);
    info.unit = row->unit;
    info.help = hak_stats_help(row);
    info.is_counter = row->is_counter;
    memset(stat, 0, size);
    memcpy(stat, &info, hak_min(size, sizeof info));
    return 0;
}

size_t hakmem_stats_json(char *buffer, size_t size) {
    hak_out_t out = hak_out_to_buffer(buffer, size);
    const hak_stats_t *stats = hak_stats_begin();
    if (HAK_LIKELY(stats != NULL)) {
        hak_stats_write_json(&out, stats);
        hak_stats_end(stats);
    }
    return hak_out_end(&out);
}
