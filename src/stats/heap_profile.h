/* heap_profile.h: writes heap profiles and the report of leaks. Calls only what a signal handler
 * may call. */
#pragma once

#include "base/base.h"

/* Writes a profile to a file, and replaces what that has. NULL: to the file of PROF_FILE, with a number appended that
 * counts up. Returns 0 or an error number; EBUSY while another thread writes a profile. */
int hak_heap_profile_dump(const char *path);

/* The same to the file of PROF_FILE; an error is printed on stderr. If another thread is writing a profile, that thread
 * writes this one next. */
void hak_heap_profile_due(void);

/* Whether the sums of sites tell the blocks that the program can still reach from the others. */
typedef struct {
    const char *untold; /* why they are not; NULL: they are */
    size_t unread;      /* bytes that were not searched for pointers: shared with other processes */
} hak_heap_profile_reach_t;

/* Writes the profile, unless nothing was sampled, and the report of leaks unless `reach` is
 * NULL. */
void hak_heap_profile_report(const hak_heap_profile_reach_t *reach);

/* Installs the handler of PROF_SIGNAL, and keeps stderr for the reports. */
void hak_heap_profile_start(void);

/* The signal at which this process writes a profile now; 0 when it writes none, or the program handles
 * the signal. */
unsigned hak_heap_profile_signal(void);

/* Gives the signal its default action again, before the handler's code is unmapped. */
void hak_heap_profile_leave_signal(void);
