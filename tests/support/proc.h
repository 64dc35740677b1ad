/* proc.h - what the kernel knows of this process. Nothing here allocates, unless it says so. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Resident memory in KiB, exact (/proc/self/smaps_rollup; the counters of statm lag). */
size_t proc_rss_kib(void);
size_t proc_anonymous_kib(void); /* the same without pages of files, such as code */

/* Memory in KiB that this process alone has written to. */
size_t proc_private_dirty_kib(void);

/* Memory in KiB that is in huge pages. */
size_t proc_huge_kib(void);

/* A field of /proc/self/status in KiB, for example "VmHWM". */
size_t proc_status_kib(const char *field);

/* Sets VmHWM back to the present resident memory. */
void proc_reset_peak(void);

/* Page faults so far that needed no disk. */
long proc_minor_faults(void);

/* Threads of this process. Unlike the others it allocates. */
unsigned proc_threads(void);

/* Waits until no other thread of this process has run for so long: each sleeps, and none has woken. False
 * after so many seconds. It allocates. */
bool proc_others_rest(unsigned milliseconds, unsigned seconds);

/* Limits the address space of this process to so many bytes. */
void proc_limit_address_space(size_t bytes);

/* Core files would only cost time: a crash is what some tests want. */
void proc_no_core_files(void);

void proc_sleep_ms(unsigned milliseconds);
