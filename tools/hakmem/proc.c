/* proc.c: reads lines of files in /proc. */
#include "proc.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* True when a thread of a process has ended, or is not there. */
static bool has_ended(pid_t pid, pid_t thread) {
    char path[PROC_PATH_SIZE], line[256];
    bool ended = true;
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)thread);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "State:\t", 7) != 0) continue;
        ended = line[7] == 'Z' || line[7] == 'X';
        break;
    }
    if (status) fclose(status);
    return ended;
}

pid_t proc_thread(pid_t pid) {
    char path[PROC_PATH_SIZE];
    if (!has_ended(pid, pid)) return pid;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    pid_t found = 0;
    while (threads && !found) {
        const struct dirent *entry = readdir(threads);
        if (!entry) break;
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0 && !has_ended(pid, thread)) found = thread;
    }
    if (threads) closedir(threads);
    return found;
}

const char *proc_path(char path[PROC_PATH_SIZE], pid_t pid, const char *file) {
    pid_t thread = proc_thread(pid);
    if (thread == 0 || thread == pid)
        snprintf(path, PROC_PATH_SIZE, "/proc/%d/%s", (int)pid, file);
    else
        snprintf(path, PROC_PATH_SIZE, "/proc/%d/task/%d/%s", (int)pid, (int)thread, file);
    return path;
}

FILE *proc_open_main(pid_t pid, const char *file) {
    char path[PROC_PATH_SIZE];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return fopen(path, "re");
}

FILE *proc_open(pid_t pid, const char *file) {
    char path[PROC_PATH_SIZE];
    return fopen(proc_path(path, pid, file), "re");
}

const char *proc_name(pid_t pid, char name[PROC_NAME_SIZE]) {
    FILE *comm = proc_open_main(pid, "comm");
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
