/* heap.h: writes heap profiles and the report of leaks. Calls only what a signal handler may call. */
#ifndef HAK_STATS_HEAP_H
#define HAK_STATS_HEAP_H

#include "base/base.h"

/* Writes a profile to a file that is made anew. NULL: to the file of PROF_FILE, with a number behind
 * it that counts up. Returns 0 or an error number; EBUSY while another thread writes one. */
int hak_heap_dump(const char *path);

/* Writes the profile, unless nothing was sampled, and the report of leaks that the options ask for. */
void hak_heap_report(void);

/* Installs the handler of PROF_SIGNAL, and keeps stderr for the reports. */
void hak_heap_start(void);

#endif
