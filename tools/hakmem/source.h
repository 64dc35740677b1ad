/* source.h: the source of the figures for `hakmem stat` and `explain`: a running process, or a file
 * with the JSON of one. Both become JSON, so the code that shows figures knows one form only. */
#pragma once

#include <sys/types.h>

#include "json.h"

typedef struct {
    const json_t *root;
    char *text; /* the original JSON; no 0 at its end */
    size_t size;
    pid_t pid; /* 0: a file */
} source_t;

/* From now on the JSON of a process has "map", too: which grains of each superslab are resident, and how much
 * of each is in use. */
void source_show_map(void);

/* Reads `what`: a process if it is a number, otherwise a file. On failure the command ends with one
 * line, which begins with `command`. For a process the JSON has two more objects than that of the
 * library: "live_page" with age_ms, refreshes and profile_signal, and "resident" with the parts of resident.h. */
source_t source_read(const char *command, const char *what);

/* The same of a process, without `root`: the text is valid until the next call. False, and the
 * problem as one line, when it cannot be read. */
bool source_of_process(pid_t pid, source_t *source, const char **problem);
