/* table.c: computes the widths of columns, and writes lines. */
#include "stats/table.h"

#include <string.h>

void hak_table_begin(hak_table_t *table, unsigned label_width, const hak_stat_row_t *columns,
                     unsigned count) {
    table->columns = columns;
    table->column_count = count;
    table->label_width = label_width;
    for (unsigned i = 0; i < count; i++)
        table->widths[i] = (unsigned)strlen(columns[i].name) + HAK_TABLE_GAP;
}

void hak_table_fit(hak_table_t *table, const uint64_t *line) {
    for (unsigned i = 0; i < table->column_count; i++) {
        unsigned width = hak_out_digits(line[i]) + HAK_TABLE_GAP;
        if (table->widths[i] < width) table->widths[i] = width;
    }
}

void hak_table_head(hak_out_t *out, const hak_table_t *table, const char *label) {
    hak_out_left(out, label, table->label_width);
    for (unsigned i = 0; i < table->column_count; i++)
        hak_out_right(out, table->columns[i].name, table->widths[i]);
    hak_out_text(out, "\n");
}

void hak_table_line(hak_out_t *out, const hak_table_t *table, const char *label,
                    const uint64_t *line) {
    hak_out_left(out, label, table->label_width);
    for (unsigned i = 0; i < table->column_count; i++)
        hak_out_number(out, line[i], table->widths[i]);
    hak_out_text(out, "\n");
}
