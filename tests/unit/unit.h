/* unit.h: shared by the white-box tests: cmocka, and running this program again as a child.
 *
 * A test program links the engine's plain objects, so hidden functions can be called. In a build
 * that owns malloc the program runs on the engine it tests; so a test measures differences, and
 * uses size classes and shards that the rest of the program does not use. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "child.h"

/* Fails the test with a message of printf's kind, unless the condition holds. */
#define REQUIRE(condition, ...)                  \
    do {                                         \
        if (!(condition)) fail_msg(__VA_ARGS__); \
    } while (0)

/* Runs this program again with one argument, in exactly this environment (ended by NULL), and
 * tells how it ended. */
void unit_rerun(const char *argument, const char *const *environment, unsigned seconds,
                struct child_end *end);

/* Runs body(context) in a child; fails the test with the child's words unless it ends with 0. A
 * body checks by CHECK. */
void unit_child(void (*body)(const void *context), const void *context, unsigned seconds,
                const char *what);

/* Makes sure that these variables (ended by NULL) stand in the environment as given, if need be by
 * starting the program anew, without others but HAKMEM_SS_SIZE; the first thing in main. Then the
 * engine's options are loaded. */
void unit_need_environment(char **argv, const char *const *variables);

/* Makes the first shards, for tests that work on others than the threads' own. */
void unit_open_shards(unsigned count);

/* Number of lines in a text. */
unsigned unit_line_count(const char *text);

/* A pseudo-random number below `limit`; the same sequence in every run. */
unsigned unit_random(unsigned limit);
