/* live.h: the live page of a running process, as a checked copy. */
#pragma once

#include <sys/types.h>

#include "live_stats/live_page.h"

typedef enum {
    LIVE_READ,
    LIVE_NO_PROCESS, /* the process does not exist, or has ended */
    LIVE_NO_PAGE,    /* the process has no page that can be used: see `problem` */
} live_result_t;

/* Reads the page of a process. Unless the result is LIVE_READ, *problem is one line for people,
 * valid until the next call. Every number in the copy is within its bound. */
live_result_t live_read(pid_t pid, hak_live_page_t *page, const char **problem);

/* From now on all calls of live_read together wait at most so many milliseconds for pages that are being written to; each
 * alone waits 400, also without a limit, which is INT_MAX. Any user can make such a page. */
void live_limit_patience(int ms);

/* Checks the `size` bytes that were read: NULL when they are a valid page, otherwise the
 * problem. */
const char *live_problem(const hak_live_page_t *page, size_t size);

/* The process number in a text like "1234"; 0 when the text is not a number. */
pid_t live_process_of(const char *text);

/* Milliseconds since the process last refreshed the page, which is that of the last live_read. */
uint64_t live_age_ms(const hak_live_page_t *page);
