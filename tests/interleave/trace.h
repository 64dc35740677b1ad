/* trace.h: which atomic words the threads of a scenario share, for the table of coverage.py.
 *
 * Where the environment names a file by INTERLEAVE_TRACE, one line goes there for each word and
 * scenario. Else nothing is noted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Before the first scenario. */
void trace_begin(void);

/* Memory without a type that the program's debug information would tell: what lies there is of this
 * type of the checked sources, or the field of theirs that it stands for, or, ended by [], what such a
 * field points to: "hak_warm_t", "record_t.room", "hak_map_t.entries[]". */
void trace_holds(const volatile void *start, size_t size, const char *what);

/* Two threads have touched a word in one execution, and one of them wrote. */
void trace_shared(const volatile void *word);

/* Writes what was shared since the last scenario's end. */
void trace_end(const char *scenario);
