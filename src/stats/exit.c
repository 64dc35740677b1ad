/* exit.c: writes the reports of HAKMEM_STATS, HAKMEM_TINY_STATS_DUMP and HAKMEM_WARM_POOL_STATS,
 * after main and all atexit handlers. */
#include "stats/exit.h"

#include "options/options.h"
#include "os/file.h"
#include "os/gate.h"
#include "os/open_files.h"
#include "stats/collect.h"
#include "stats/report.h"
#include "stats/text.h"
#include "stats/timing.h"

enum { STATS_OFF, STATS_TEXT, STATS_JSON };
enum { PATH_SIZE = 4096, STDERR = 2 };

static _Atomic bool is_prepared;
static int stderr_copy = -1;             /* constant once prepared, until the code goes */
static hak_os_file_id_t stderr_at_start; /* the same */
/* Under the snapshot lock. Not on the stack, since the thread that ends the process may have a
 * small one. */
static char path[PATH_SIZE] HAK_APART; /* of the report's file */
static char chunk[HAK_OUT_CHUNK] HAK_APART;

void hak_stats_prepare(void) {
    hak_gate_enter(); /* the child of a fork has all of it, or makes its own */
    if (!hak_exchange_acq_rel(&is_prepared, true)) { /* partner: another thread's */
        stderr_copy = hak_os_copy_stderr();
        stderr_at_start = hak_os_file_id(STDERR);
    }
    hak_gate_leave();
}

HAK_BEHIND void hak_stats_forsake(void) {
    const int file = stderr_copy;
    stderr_copy = -1;
    if (hak_os_is_file(file, &stderr_at_start)) hak_os_close(file);
}

int hak_stats_stderr(void) {
    if (hak_os_is_file(STDERR, &stderr_at_start) || hak_os_is_listener(STDERR)) return STDERR;
    return hak_os_is_file(stderr_copy, &stderr_at_start) ? stderr_copy : -1;
}

void hak_stats_complain(const char *what, const char *name, int error, char *buffer) {
    int file = hak_stats_stderr();
    if (file < 0) return;
    hak_out_t out = hak_out_to_file(file, buffer);
    hak_out_print(&out, "hakmem: %s cannot be written to %s: %s (%lu)\n", what, name,
                  hak_os_reason(error), (unsigned long)error);
    hak_out_end(&out);
}

static void write_report(int64_t form, const hak_stats_t *stats, const char *name) {
    int file = hak_stats_stderr(), error = 0;
    if (*name) {
        hak_os_expand(name, path, sizeof path);
        file = hak_os_create(path, &error);
    }
    if (file >= 0) {
        hak_out_t out = hak_out_to_file(file, chunk);
        if (form == STATS_JSON)
            hak_stats_write_json(&out, stats);
        else
            hak_stats_write_text(&out, stats);
        hak_out_end(&out);
        error = out.error;
    }
    if (*name && file >= 0) hak_os_close(file);
    if (*name && error) hak_stats_complain("statistics", path, error, chunk);
}

/* Writes the reports that always go to stderr. */
static void write_beside(int64_t form, const hak_stats_t *stats) {
    int file = hak_stats_stderr();
    if (file < 0) return;
    hak_out_t out = hak_out_to_file(file, chunk);
    if (hak_option(HAK_OPTION_TINY_STATS_DUMP)) hak_stats_write_classes(&out, stats);
    if (hak_option(HAK_OPTION_WARM_POOL_STATS)) hak_stats_write_warm(&out, stats);
    if (form == STATS_OFF && hak_stats_times()) hak_stats_write_timing(&out);
    hak_out_end(&out);
}

void hak_stats_report(void) {
    int64_t form = hak_option(HAK_OPTION_STATS);
    const hak_stats_t *stats = hak_stats_try_begin();
    if (!stats) {
        static const char line[] = "hakmem: no statistics: exit() interrupted the allocator\n";
        int error, file = hak_stats_stderr();
        if (file >= 0) hak_os_write(file, line, sizeof line - 1, &error);
        return;
    }
    if (form != STATS_OFF) write_report(form, stats, hak_option_text(HAK_OPTION_STATS_FILE));
    write_beside(form, stats);
    hak_stats_end(stats);
}
