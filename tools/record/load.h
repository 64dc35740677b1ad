/* load.h: a trace in memory, ready to be replayed: one array of steps in the order of the stamps,
 * in which blocks have numbers instead of addresses.
 *
 * The memory is that of a memfd, so that it does not count as anonymous memory of the process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "format.h"

typedef struct {
    uint64_t size;  /* requested; 0 of a step that frees */
    uint64_t block; /* its number, below trace_t.blocks; before load_number: its address */
    uint32_t thread;
    uint8_t kind; /* trace_kind_t: MALLOC, CALLOC, ALIGNED, FREE, GIVE (realloc), or NONE */
    uint8_t align_log2;
} step_t;

typedef struct {
    step_t *steps;
    size_t count;
    size_t stamps_most; /* `count` of a right trace with its events, at most */
    uint32_t threads;
    size_t blocks;       /* numbers in use at one time, at most */
    size_t lost;         /* stamps without an event: buffers that were never written */
    size_t foreign;      /* frees of blocks that the trace does not know */
    size_t peak_step;    /* after this step the most bytes were live */
    uint64_t peak_bytes; /* requested */
    char *end;           /* text of the last chunk; "" when the recorded process was killed */
} trace_t;

/* Reads a trace. A file that is none ends the program with one line and status 1. */
trace_t load(const char *path);

/* Memory that is not anonymous, zeroed. It is never given back. */
void *load_memory(size_t size);

/* "hakmem-replay: " and the text as one line, then exit(1). */
_Noreturn void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
