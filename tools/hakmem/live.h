/* live.h: the live page of a running process, as a checked copy. */
#ifndef TOOLS_LIVE_H
#define TOOLS_LIVE_H

#include <sys/types.h>

#include "live/page.h"

typedef enum {
    LIVE_READ,
    LIVE_NO_PROCESS, /* there is none of that number, or it has ended */
    LIVE_NO_PAGE,    /* it has no page, or none that can be used: `problem` */
} live_result_t;

/* Reads the page of a process. Unless it is LIVE_READ, *problem is one line for people; it lives until
 * the next call. No number in the copy is beyond its bound. */
live_result_t live_read(pid_t pid, hak_live_page_t *page, const char **problem);

/* Whether what was read, `size` bytes, is a page that can be believed; else what is wrong with it. */
const char *live_problem(const hak_live_page_t *page, size_t size);

/* The number in "1234", 0 when it is none. */
pid_t live_process_of(const char *text);

/* Milliseconds since the process has refreshed the page. */
uint64_t live_age_ms(const hak_live_page_t *page);

#endif
