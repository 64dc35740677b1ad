/* core.c: `hakmem explain CORE`: hands over to the debugger's reader of the heap (tools/gdb), which needs
 * python3 and nothing else. */
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool is_elf_file(const char *name) {
    char head[4];
    FILE *file = fopen(name, "re");
    bool is = file && fread(head, 1, sizeof head, file) == sizeof head &&
              memcmp(head, "\177ELF", sizeof head) == 0;
    if (file) fclose(file);
    return is;
}

int explain_core(const char *core) {
    static const char *const places[] = {HAKMEM_READER, HAKMEM_PARTS_FROM_COMMAND "/hakmem_gdb.py"};
    char folder[PATH_MAX], path[2 * PATH_MAX];
    command_folder("explain", STATUS_USAGE, folder);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, places[i]);
        if (access(path, R_OK) != 0) continue;
        execlp(python_name(), python_name(), "-B", path, core, (char *)NULL);
        fail(1, "explain: a core file needs %s: %s", python_name(), strerror(errno));
    }
    fail(STATUS_USAGE, "explain: %s is not there, which reads core files", path);
}
