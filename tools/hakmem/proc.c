/* proc.c: reads lines of files in /proc. */
#include "proc.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

FILE *proc_open(pid_t pid, const char *file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return fopen(path, "re");
}

const char *proc_name(pid_t pid, char name[PROC_NAME_SIZE]) {
    FILE *comm = proc_open(pid, "comm");
    if (!comm || !fgets(name, PROC_NAME_SIZE, comm)) name[0] = 0;
    if (comm) fclose(comm);
    name[strcspn(name, "\n")] = 0;
    for (char *c = name; *c; c++) *c = hak_printable(*c);
    return name;
}

bool proc_size_field(const char *line, const char *field, uint64_t *bytes) {
    size_t length = strlen(field);
    char *end;
    if (strncmp(line, field, length) != 0 || line[length] != ':') return false;
    uint64_t kib = strtoull(line + length + 1, &end, 10);
    if (strncmp(end, " kB", 3) != 0) return false;
    *bytes = kib * 1024;
    return true;
}

uint64_t proc_sum(pid_t pid, const char *field) {
    char line[256];
    uint64_t bytes = 0;
    FILE *rollup = proc_open(pid, "smaps_rollup");
    while (rollup && fgets(line, sizeof line, rollup))
        if (proc_size_field(line, field, &bytes)) break;
    if (rollup) fclose(rollup);
    return bytes;
}
