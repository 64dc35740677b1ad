#define _GNU_SOURCE
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static size_t field_kib(const char *path, const char *field) {
    char text[8192];
    size_t length = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, "cannot open %s", path);
    for (;;) {
        ssize_t got = read(file, text + length, sizeof text - 1 - length);
        if (got <= 0) break;
        length += (size_t)got;
    }
    close(file);
    text[length] = 0;
    const char *line = strstr(text, field);
    CHECK(line != NULL && line[strlen(field)] == ':', "%s has no field %s", path, field);
    return strtoul(line + strlen(field) + 1, NULL, 10);
}

size_t proc_rss_kib(void) { return field_kib("/proc/self/smaps_rollup", "Rss"); }
size_t proc_anonymous_kib(void) { return field_kib("/proc/self/smaps_rollup", "Anonymous"); }

size_t proc_private_dirty_kib(void) {
    return field_kib("/proc/self/smaps_rollup", "Private_Dirty");
}

size_t proc_huge_kib(void) { return field_kib("/proc/self/smaps_rollup", "AnonHugePages"); }

size_t proc_status_kib(const char *field) { return field_kib("/proc/self/status", field); }

void proc_reset_peak(void) {
    int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    CHECK(file >= 0 && write(file, "5", 1) == 1, "cannot reset VmHWM");
    close(file);
}

long proc_minor_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

void proc_limit_address_space(size_t bytes) {
    struct rlimit limit = {bytes, bytes};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit(RLIMIT_AS, %zu) failed", bytes);
}

void proc_no_core_files(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

void proc_sleep_ms(unsigned milliseconds) {
    struct timespec rest = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) continue;
}

unsigned proc_threads(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "no /proc");
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* True when this thread sleeps; adds how often it has gone to sleep by itself. */
static bool sleeps(const char *task, unsigned long *sum) {
    char path[300], line[128], state = 0;
    unsigned long number;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "re");
    if (!file) return true; /* it has ended */
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "State: %c", &state) == 1) continue;
        if (sscanf(line, "voluntary_ctxt_switches: %lu", &number) == 1) *sum += number;
    }
    fclose(file);
    return state == 'S';
}

static bool others_sleep(unsigned long *sum) {
    bool all = true;
    *sum = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "no /proc");
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != gettid())
            all &= sleeps(entry->d_name, sum);
    closedir(tasks);
    return all;
}

bool proc_others_rest(unsigned milliseconds, unsigned seconds) {
    unsigned long before, now;
    bool slept = others_sleep(&now);
    for (unsigned waited = 0; waited < seconds * 1000; waited += milliseconds) {
        before = now;
        bool slept_before = slept;
        proc_sleep_ms(milliseconds);
        slept = others_sleep(&now);
        if (slept && slept_before && now == before) return true;
    }
    return false;
}
