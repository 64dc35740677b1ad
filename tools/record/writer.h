/* writer.h: takes events of threads into buffers, compresses them, and writes the trace file.
 *
 * Nothing here allocates by malloc, so that an event may come from anywhere. Each thread has a
 * buffer with a lock, which only the end of the process takes besides the thread. A full buffer is
 * compressed and appended under the file's lock; the file is open only for that moment, so that a
 * program that closes or counts its descriptors does not notice. A thread that is to be cancelled goes on here.
 * Order of locks: list, a thread's, file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

/* Reads the environment and creates the file. Called once, before another thread exists. */
void writer_begin(void);

/* Records one event of this thread. It takes the stamp itself. */
void writer_event(trace_kind_t kind, const void *address, size_t size, unsigned align_log2);

/* Whether this thread is inside the writer: what it allocates then is not the program's. */
bool writer_is_inside(void);

/* Writes what is in the buffers, and the last chunk. Later events are not recorded. */
void writer_end(void);
