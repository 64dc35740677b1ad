/* purge_trigger.h: pieces of purge work; purge_trigger.c says which threads do them, and when. */
#pragma once

#include "os/tick.h"
#include "thread/helper_thread.h"

/* Memory that calls of the program have given back, besides the pages that they freed themselves. */
typedef struct {
    _Atomic uint64_t pieces;     /* of purge work */
    _Atomic uint64_t most_looks; /* slabs that one call has examined */
    _Atomic uint64_t most_bytes; /* that one call has given back */
} hak_purge_stats_t;             /* written by the owner (purge_trigger.c), read by anyone */

extern hak_purge_stats_t hak_purge_stats;

/* Called by the helper. The first makes a whole pass over memory that has been free for `delay_ms`; the second does
 * only the work that cannot wait for a pass. Neither does anything while a call does a piece. */
void hak_purge_round(uint32_t delay_ms);
void hak_purge_settle(void);

/* The ticks are called at the end of the slow paths of malloc and free. Now and then a tick calls
 * the look, which does a piece of purge work. */
void hak_purge_look(size_t size, bool is_free);

HAK_FAST_PATH void hak_purge_tick_malloc(size_t size) {
    if (hak_tick_spend(size)) hak_purge_look(size, false);
}
HAK_FAST_PATH void hak_purge_tick_free(size_t size) {
    hak_helper_wake();
    if (hak_tick_spend(size)) hak_purge_look(size, true);
}
/* For a block that stayed, or moved without a copy: the difference was taken, or freed. */
HAK_FAST_PATH void hak_purge_tick_resize(size_t old, size_t size) {
    if (size > old)
        hak_purge_tick_malloc(size - old);
    else
        hak_purge_tick_free(old - size);
}

/* Purge work may find a double free. If the program's handler of SIGABRT jumps back, the caller's piece never ends: the
 * caller gives up what it owns. */
void hak_purge_give_up(void);

/* Gives back everything that is free: blocks in the caller's cache and in waiting caches, empty
 * slabs, free pages. Returns bytes purged. A request that failed may succeed even after 0: blocks of
 * caches are in their slabs again, and units taken ahead in the pool. */
size_t hak_purge_all(void);

/* The same for a call that found no memory for `size` bytes. Does nothing if giving memory back cannot help. The blocks
 * in quarantine stay there if the request is larger than the whole heap and there is no limit: otherwise an attacker
 * could choose a length that makes freed blocks available again. */
void hak_purge_for(size_t size);

/* A function of a higher layer that is called at intervals: by the helper thread in each of its
 * rounds or, if there is no helper, by slow calls. `at_once`: the program is young, and the next
 * call may come much later. Set once, before main. With a watcher the helper is started early. */
typedef void (*hak_watcher_t)(bool at_once);
void hak_purge_set_watcher(hak_watcher_t watcher);
hak_watcher_t hak_purge_watcher(void); /* NULL for none */

/* In the child of a fork. The second where there was no other thread: only a handler that has interrupted the thread's own
 * piece leaves work behind. */
void hak_purge_forget(void);
void hak_purge_forget_own(void);

/* The same in the child of a clone without fork handlers, where the owner of the work is a thread that stayed behind. One
 * thread calls it, and others may run. */
void hak_purge_disown(uintptr_t thread);
