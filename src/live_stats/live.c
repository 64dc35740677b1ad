/* live.c: makes the page, refreshes it, and handles forks.
 *
 * FORK: the child inherits the file and the mapping of its parent's page. It gives up both in its
 * fork handler, and makes a page of its own when it next allocates. A page is made inside the gate
 * (os/gate.h), because a child that was forked meanwhile would have a file that no variable names. If
 * a signal handler forks meanwhile, the child goes on where its parent makes the page, and gives it up. A
 * child that was made without fork handlers (clone, vfork) is recognised by its process number before
 * anything is written. If it shares the memory of its parent, it refreshes the parent's page: they have
 * one heap. If it has a copy, it makes a page of its own, and leaves the mapping of the parent's where it
 * is. On a kernel that cannot tell the two apart (os/own_word.h), it does neither: each child of vfork would leave a page
 * behind in its parent, and the parent would then make another one.
 *
 * The file is kept open only for its name in /proc/PID/fd. The process writes through the mapping,
 * so the program may close the file, and another file may get its number; a reader then needs the right
 * to read the process's memory. */
#include "live_stats/live.h"

#include <string.h>

#include "live_stats/fill.h"
#include "meta/meta.h"
#include "os/lock.h"
#include "os/os.h"
#include "os/own_word.h"
#include "stats/collect.h"
#include "stats/heap_profile.h"
#include "thread/fork.h"
#include "thread/purge_trigger.h"

enum {
    INTERVAL_MS = 250,
    PLACES_INTERVAL_MS = 1000, /* between two looks at all slabs */
    PATIENCE_MS = 20,          /* wait for other users of the statistics, if `at_once` */
    REST = 100,                /* least pause after a refresh, in durations of the refresh */
};

_Atomic bool hak_live_on;
hak_live_private_t *hak_live_private;

static hak_lock_t refresh_lock;
HAK_LOCK_RANK(REFRESH, refresh_lock, NULL);
static hak_os_shared_t page_file; /* refresh lock */
static unsigned maker;            /* refresh lock; number of the process that made the page */
static hak_own_word_t *own_word;  /* refresh lock; NULL before the first page, or on old kernels */
static bool refused;              /* refresh lock; the system refused to make the file */
static _Atomic uint64_t due_ms;   /* written under the refresh lock */
static uint64_t places_due_ms;    /* refresh lock */
static uint64_t refresh_count;    /* refresh lock; half of the last even `sequence` */

/* True when the page is that of this process, or of one that it shares its memory with. */
static bool has_page(unsigned pid) {
    const bool is_shared = own_word && hak_load_relaxed(&own_word->owner) == HAK_WORD_OWN;
    return page_file.addr && (maker == pid || is_shared);
}

static void note_maker(unsigned pid) {
    maker = pid;
    if (!own_word) own_word = hak_os_own_word();
    if (own_word) hak_store_relaxed(&own_word->owner, HAK_WORD_OWN);
}

static bool make_page(void) {
    unsigned pid = hak_os_process_id();
    if (has_page(pid)) return true;
    if (HAK_UNLIKELY(page_file.addr && !own_word)) return false; /* see FORK */
    if (refused || !hak_gate_try_enter()) return false;
    note_maker(pid);
    places_due_ms = 0;
    refused = !hak_os_share(HAK_LIVE_NAME, sizeof(hak_live_page_t), &page_file);
    hak_gate_leave();
    if (HAK_UNLIKELY(hak_os_process_id() != pid)) hak_os_unshare(&page_file); /* see FORK */
    if (!page_file.addr) return false;
    hak_live_head_t *head = page_file.addr;
    head->version = HAK_LIVE_VERSION;
    head->page_size = (uint32_t)hak_os_page_size();
    head->layout = hak_live_layout();
    head->size = sizeof(hak_live_page_t);
    head->pid = pid;
    return true;
}

/* False when another thread holds the statistics: a refresh must not wait for a report that waits
 * for its reader. */
static HAK_SLOW_PATH bool refresh(uint64_t now, bool with_places) {
    hak_live_page_t *page = page_file.addr;
    const hak_stats_t *stats = hak_stats_begin_within(with_places ? PATIENCE_MS : 0);
    if (!stats) return false;
    uint32_t sequence = (uint32_t)(2 * ++refresh_count);
    hak_store_relaxed(&page->head.sequence, sequence - 1);
    atomic_thread_fence(memory_order_seq_cst); /* partner: the reader's second look */
    memcpy(&page->stats, stats, sizeof *stats);
    hak_stats_end(stats);
    hak_live_fill_options(page);
    hak_live_fill_caches(page);
    hak_live_fill_asked(page);
    hak_live_fill_ranges(page, with_places);
    if (with_places || now >= places_due_ms) {
        hak_live_fill_superslabs(page);
        page->head.profile_signal = hak_heap_profile_signal();
        places_due_ms = now + hak_max(PLACES_INTERVAL_MS, (hak_os_now_ms() - now) * REST);
    }
    page->head.refreshed_ms = now;
    page->head.refresh_count = refresh_count;
    memcpy(page->head.magic, HAK_LIVE_MAGIC, sizeof page->head.magic);
    hak_store_release(&page->head.sequence, sequence); /* partner: the reader's first look */
    return true;
}

/* The watcher (hak_purge_set_watcher). `at_once`: refreshes even if that is not due. Does nothing
 * in a thread that has closed the gate: a collection of statistics in another thread waits for this
 * thread, and this thread would wait for the collection. */
static void look(bool at_once) {
    uint64_t now = hak_os_now_ms();
    if (!at_once && now < hak_load_relaxed(&due_ms)) return;
    if (hak_gate_is_mine() || !hak_lock_try_apart(&refresh_lock)) return;
    if (!make_page() || refresh(now, at_once)) {
        uint64_t took = hak_os_now_ms() - now;
        hak_store_relaxed(&due_ms, now + hak_max(INTERVAL_MS, took * REST));
    }
    hak_lock_release_apart(&refresh_lock);
}

static void after_fork_child(void) {
    hak_lock_reset(&refresh_lock);
    hak_os_unshare(&page_file);
    hak_store_relaxed(&due_ms, 0);
}

void hak_live_forsake(void) {
    if (!hak_lock_try_apart(&refresh_lock)) return;
    refused = true;
    hak_os_unshare(&page_file);
    hak_lock_release_apart(&refresh_lock);
}

void hak_live_start(void) {
    hak_live_private = hak_meta_alloc_zeroed(sizeof *hak_live_private);
    if (!hak_live_private) return;
    hak_store_release(&hak_live_on, true); /* partner: hak_allocate */
    hak_fork_register(NULL, NULL, after_fork_child);
    hak_purge_set_watcher(look);
    look(true);
}
