/* process.c: what HAKMEM does when the process starts, and when it ends. */
#include "api/describe.h"
#include "api/hardened_malloc.h"
#include "api/leaks.h"
#include "api/malloc_sampled.h"
#include "cache/sampler.h"
#include "classes/dyn.h"
#include "error/error.h"
#include "hardened/guard_sample.h"
#include "live_stats/live.h"
#include "options/environment.h"
#include "options/options.h"
#include "os/fault.h"
#include "os/program.h"
#include "policy/band_cost.h"
#include "profile/samples.h"
#include "region/region.h"
#include "stats/exit.h"
#include "stats/heap_profile.h"
#include "thread/fork.h"
#include "thread/purge_trigger.h"
#include "thread/thread.h"

static HAK_BEHIND void give_up(void) {
    hak_purge_give_up();
    hak_guard_sample_give_up();
}

/* Usually the C library has allocated before this runs, so little is left to do. It guarantees
 * what hak_push relies on: the region exists before the program starts a thread. In a program that contains the archive
 * it runs before the program's own constructors, so that their blocks are hardened and sampled, too. */
__attribute__((constructor(102))) static void prepare(void) {
    hak_options_load();
    hak_region_prepare();
    hak_error_give_up = give_up;
    if (HAK_UNLIKELY(hak_option_source(HAK_OPTION_ERROR_FILE) != HAK_SOURCE_DEFAULT))
        hak_error_set_describe(hak_describe);
    if (HAK_UNLIKELY(hak_option(HAK_OPTION_HARDENED) != 0)) hak_hardened_start();
    if (HAK_UNLIKELY(hak_sampler_is_wanted())) hak_malloc_sampled_start();
    if (hak_os_expects_fork_handlers()) hak_fork_install();
    if (HAK_UNLIKELY(hak_option(HAK_OPTION_MID_DYN1) > 0))
        hak_dyn_choose((size_t)hak_option(HAK_OPTION_MID_DYN1));
    hak_band_cost_start();
    if (HAK_UNLIKELY(hak_stats_wanted())) hak_stats_prepare();
    if (HAK_UNLIKELY(hak_option(HAK_OPTION_LIVE) != 0)) hak_live_start();
}

static HAK_BEHIND void report(void *unused) {
    (void)unused;
    if (hak_stats_wanted()) hak_stats_report();
    if (hak_samples_on()) hak_leaks_report();
}

#ifdef __GLIBC__
int __cxa_atexit(void (*function)(void *), void *argument, void *file);
#endif

/* Removes what would run this code after dlclose has unmapped the library. The fork handlers are removed with the
 * library (thread/fork.c), and a library that may be unmapped has no helper thread. */
static HAK_BEHIND void forsake(void) {
    hak_thread_forsake();
    hak_heap_profile_leave_signal();
    hak_os_leave_faults();
}

static HAK_BEHIND void close_files(void) {
    hak_stats_forsake();
    hak_live_forsake();
}

/* Runs after main and all atexit handlers, in each process that ends by exit() or a return from
 * main, children of a fork included; not in a process that _exit or a signal ends. If the archive is
 * linked into a library, it also runs when dlclose unmaps that library; threads that used it end later.
 *
 * Libraries whose destructors run after this one free their blocks then. So with glibc the reports are written later
 * still: exit() calls a handler that is registered now after all destructors. To register it allocates nothing, since
 * the slot of the loader's own handler, which is running, is free. musl's exit() does not do this; there the reports
 * show the state at this moment. */
__attribute__((destructor)) static void finish(void) {
    const bool goes = hak_os_may_be_unloaded(), is_due = hak_stats_wanted() || hak_samples_on();
    if (HAK_UNLIKELY(goes)) forsake();
#ifdef __GLIBC__
    if (HAK_UNLIKELY(is_due) && !goes && __cxa_atexit(report, NULL, NULL) == 0) return;
#endif
    if (HAK_UNLIKELY(is_due)) report(NULL);
    if (HAK_UNLIKELY(goes)) close_files();
}
