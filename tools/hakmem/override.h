/* override.h: whether a preloaded library will serve a program's malloc. */
#ifndef TOOLS_OVERRIDE_H
#define TOOLS_OVERRIDE_H

#include <stdbool.h>
#include <stddef.h>

/* Finds a program as execvp(3) does and writes its path. False with errno ENOENT or EACCES. */
bool program_find(const char *name, char *path, size_t size);

/* Why the library will not serve the program at `path`, as a text for people; NULL when it will.
 * LD_PRELOAD of this process names the library first, then what else is to be preloaded. Nothing of
 * the program runs. The text is valid until the next call. */
const char *override_problem(const char *path, const char *library);

/* Asks a program's own loader what it would load, with LD_PRELOAD as it is: one line for each
 * object, or for what is wrong. False when it would not start the program. */
bool loader_list(const char *loader, const char *program, char *text, size_t size);

#endif
