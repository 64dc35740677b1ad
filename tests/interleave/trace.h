/* trace.h: which atomic words the threads of a scenario touched, for the table of coverage.py.
 *
 * Where the environment names a file by INTERLEAVE_TRACE, one line goes there for each word and
 * scenario. Else nothing is noted. */
#ifndef TESTS_INTERLEAVE_TRACE_H
#define TESTS_INTERLEAVE_TRACE_H

#include <stdbool.h>
#include <stddef.h>

/* Before the first scenario. */
void trace_begin(void);

/* Untyped memory of a stand-in: what lies there is of this type of the checked sources, or, ended by
 * [], what such a field of theirs points to: "hak_warm_t", "hak_map_t.entries[]". */
void trace_holds(const volatile void *start, size_t size, const char *what);

/* A thread of the scenario carries out an atomic operation on a word. */
void trace_touch(const volatile void *word, unsigned thread, bool writes);

/* Writes what was touched since the last scenario's end. */
void trace_end(const char *scenario);

#endif
