/* purge.h: pieces of purge work; purge.c says who does them, and when. */
#ifndef HAK_THREAD_PURGE_H
#define HAK_THREAD_PURGE_H

#include "base/base.h"

/* What calls of the program have given back, besides the pages of what they freed. */
typedef struct {
    _Atomic uint64_t pieces;     /* of purge work */
    _Atomic uint64_t most_looks; /* slabs that one call has looked at */
    _Atomic uint64_t most_bytes; /* that one call has given back */
} hak_purge_stats_t;             /* written by the owner (purge.c), read by anyone */

extern hak_purge_stats_t hak_purge_stats;

/* By the helper: a whole pass over what has been free for `delay_ms`; only what cannot wait
 * for that. Neither does anything while a call does a piece. */
void hak_purge_round(uint32_t delay_ms);
void hak_purge_settle(void);

/* In the child of a fork. */
void hak_purge_forget(void);

#endif
