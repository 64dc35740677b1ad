/* lab.c: `hakmem compare` and `hakmem tune`: hand over to the lab of the source checkout that this
 * command was built in. The lab is Python with packages for statistics and plots; an installed
 * command has none. */
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int in_lab(int argc, char **argv) {
    char name[32], folder[PATH_MAX], path[PATH_MAX + 32], *words[argc + 2];
    command_folder(argv[0], STATUS_USAGE, folder);
    snprintf(path, sizeof path, "%s/../../scripts/lab", folder);
    if (access(path, X_OK) != 0)
        fail(STATUS_USAGE, "%s: it needs the lab of the sources: `scripts/lab %s` in a checkout",
             argv[0], argv[0]);
    words[0] = path;
    memcpy(words + 1, argv, ((size_t)argc + 1) * sizeof *argv);
    snprintf(name, sizeof name, "hakmem %s", argv[0]);
    setenv("HAKMEM_BENCH_NAME", name, 1);
    execv(path, words);
    fail(1, "%s: %s: %s", argv[0], path, strerror(errno));
}

int command_compare(int argc, char **argv) { return in_lab(argc, argv); }

int command_tune(int argc, char **argv) { return in_lab(argc, argv); }
