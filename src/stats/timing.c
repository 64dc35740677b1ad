/* timing.c: writes the times of timing.def as text and as JSON; in the debug build only. */
#include "stats/timing.h"

#if HAKMEM_DEBUG

#include "debug/timing.h"
#include "options/options.h"
#include "os/os.h"
#include "stats/table.h"

enum { NAME_WIDTH = 20 };

static const hak_stat_row_t columns[HAK_TIMING_FIGURE_COUNT] = {
#define FIGURE(row_name) {.name = #row_name},
    HAK_TIMING_FIGURES(FIGURE)
#undef FIGURE
};

_Static_assert(HAK_TIMING_FIGURE_COUNT <= (int)HAK_CLASS_STATS, "a table has so many columns");

static void write_table(hak_out_t *out) {
    hak_table_t table;
    uint64_t figures[HAK_TIMING_FIGURE_COUNT];
    hak_table_begin(&table, NAME_WIDTH, columns, HAK_TIMING_FIGURE_COUNT);
    for (unsigned i = 0; i < HAK_TIMINGS; i++) {
        hak_timing_read((hak_timing_t)i, figures);
        hak_table_fit(&table, figures);
    }
    hak_table_head(out, &table, "step");
    for (unsigned i = 0; i < HAK_TIMINGS; i++) {
        hak_timing_read((hak_timing_t)i, figures);
        hak_table_line(out, &table, hak_timing_rows[i].name, figures);
    }
}

bool hak_stats_times(void) { return hak_option(HAK_OPTION_TIMING) != 0; }

void hak_stats_write_timing(hak_out_t *out) {
    hak_out_print(
        out,
        "hakmem: timing of process %lu, in ns of clock_gettime, about %lu of each time its "
        "own; steps nest\n",
        (unsigned long)hak_os_process_id(), hak_timing_clock_ns());
    write_table(out);
}

void hak_stats_write_timing_json(hak_out_t *out) {
    uint64_t figures[HAK_TIMING_FIGURE_COUNT];
    hak_out_open(out, "timing", '{');
    hak_out_member(out, "clock_ns", hak_timing_clock_ns());
    for (unsigned i = 0; i < HAK_TIMINGS; i++) {
        const hak_timing_row_t *row = &hak_timing_rows[i];
        hak_out_open(out, row->name, '{');
        hak_out_member_text(out, "tier", row->tier);
        hak_timing_read((hak_timing_t)i, figures);
        for (unsigned k = 0; k < HAK_TIMING_FIGURE_COUNT; k++)
            hak_out_member(out, columns[k].name, figures[k]);
        hak_out_close(out, '}');
    }
    hak_out_close(out, '}');
}

#endif
