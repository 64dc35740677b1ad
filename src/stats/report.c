/* report.c: the report of the process that it is in; the `hakmem` command makes one of
 * another process by the same writers. */
#include "stats/report.h"

#include "os/os.h"

unsigned hak_stats_process(void) { return hak_os_process_id(); }

void hak_stats_write_json(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_open(out, NULL, '{');
    hak_stats_write_members(out, stats);
    hak_stats_write_timing_json(out);
    hak_out_close(out, '}');
}
