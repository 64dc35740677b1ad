/* source.h: where `hakmem stat` and `explain` have their figures from: a running process, or a file with
 * the JSON of one. Both come as JSON, so all that shows figures knows one form. */
#ifndef TOOLS_SOURCE_H
#define TOOLS_SOURCE_H

#include <sys/types.h>

#include "json.h"

typedef struct {
    const json_t *root;
    const char *text; /* the JSON as it was; not ended by a 0 */
    size_t size;
    pid_t pid; /* 0: a file */
} source_t;

/* Reads `what`: a process if it is a number, else a file. Where that fails the command ends with one line,
 * which begins with `command`. A process comes with two objects that the library does not write:
 * "live_page" with age_ms and refreshes, and "resident" with the parts of resident.h. */
source_t source_read(const char *command, const char *what);

#endif
