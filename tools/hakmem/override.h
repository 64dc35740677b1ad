/* override.h: whether a preloaded library will serve a program's malloc. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Finds a program as execvp(3) does and writes its path. False with errno, as execvp(3)
 * sets it. */
bool program_find(const char *name, char *path, size_t size);

/* The reason why the library cannot serve the program at `path`, for people; NULL when it can.
 * LD_PRELOAD of this process must name the library first, then other objects to preload. No code of
 * the program runs. The text is valid until the next call. */
const char *override_problem(const char *path, const char *library);

/* Asks a program's own loader which objects it would load with the present LD_PRELOAD: one line for
 * each object or problem. False when the loader would not start the program. */
bool loader_list(const char *loader, const char *program, char *text, size_t size);
