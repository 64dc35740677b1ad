/* table.h: tables for people. Each column is as wide as its widest entry: the caller first passes
 * every line to hak_table_fit, then writes the lines. */
#pragma once

#include "stats/out.h"
#include "stats/stats.h"

enum { HAK_TABLE_GAP = 2 }; /* between two columns */

typedef struct {
    const hak_stat_row_t *columns;
    unsigned column_count;
    unsigned label_width;
    unsigned widths[HAK_CLASS_STATS];
} hak_table_t;

/* At most HAK_CLASS_STATS columns. Labels are in the first column. */
void hak_table_begin(hak_table_t *table, unsigned label_width, const hak_stat_row_t *columns,
                     unsigned count);
void hak_table_fit(hak_table_t *table, const uint64_t *line);
void hak_table_head(hak_out_t *out, const hak_table_t *table, const char *label);
void hak_table_line(hak_out_t *out, const hak_table_t *table, const char *label,
                    const uint64_t *line);

enum { HAK_STATS_LABEL_WIDTH = 8 }; /* of the first column of a table */
