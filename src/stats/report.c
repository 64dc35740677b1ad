/* report.c: a process's report on itself. The `hakmem` command uses the same writers for a report
 * on another process. */
#include "stats/report.h"

#include "os/os.h"

unsigned hak_stats_process(void) { return hak_os_process_id(); }

void hak_stats_write_json(hak_out_t *out, const hak_stats_t *stats) {
    hak_out_open(out, NULL, '{');
    hak_stats_write_members(out, stats);
    hak_stats_write_timing_json(out);
    hak_out_close(out, '}');
}
