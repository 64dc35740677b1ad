/* live.c: finds the page among the links of /proc/PID/fd or a living thread's, else in the process's memory, copies it with read(2),
 * which cannot fault if the file is truncated, and checks every number in it. */
#include "live.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"

enum {
    NAPS_MOST = 400, /* of a millisecond, for all pages of a process that it writes to just now */
    PAUSE_NS = 1000000,
    PATH_SIZE = 300,
};

static char problem_text[400];

__attribute__((format(printf, 1, 2))) static const char *explain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem_text, sizeof problem_text, format, arguments);
    va_end(arguments);
    return problem_text;
}

pid_t live_process_of(const char *text) {
    char *end;
    if (!isdigit((unsigned char)*text)) return 0;
    errno = 0;
    long number = strtol(text, &end, 10);
    return errno || *end || number <= 0 || number > INT32_MAX ? 0 : (pid_t)number;
}

/* ---- Checks of a page ------------------------------------------------------------------------ */

static bool head_is_ours(const hak_live_head_t *head) {
    return memcmp(head->magic, HAK_LIVE_MAGIC, sizeof head->magic) == 0;
}

static const char *head_problem(const hak_live_head_t *head) {
    if (head->version != HAK_LIVE_VERSION || head->layout != hak_live_layout() ||
        head->size != sizeof(hak_live_page_t))
        return "its page is of another version or build of HAKMEM than this command";
    return NULL;
}

static bool ranges_are_right(const hak_live_page_t *page) {
    if (page->range_count > HAK_LIVE_RANGES) return false;
    for (uint32_t i = 0; i < page->range_count; i++) {
        const hak_live_range_t *range = &page->ranges[i];
        if (range->kind >= HAK_RANGE_KINDS || range->start > UINT64_MAX - range->size) return false;
    }
    return true;
}

static bool unit_is_right(const hak_live_unit_t *unit) {
    if (unit->class_index > HAK_CLASS_LARGE) return false;
    for (unsigned i = 0; i < HAK_UNIT_GRAINS; i++)
        if (unit->used[i] > HAK_GRAIN_SIZE) return false;
    return true;
}

static bool superslabs_are_right(const hak_live_page_t *page) {
    uint32_t units = page->superslab_units;
    if (page->superslab_count > HAK_LIVE_SUPERSLABS || page->superslab_stride == 0) return false;
    if (page->superslab_count && (units == 0 || units > HAK_SUPERSLAB_UNITS_MAX)) return false;
    for (uint32_t i = 0; i < page->superslab_count; i++) {
        const hak_live_superslab_t *super = &page->superslabs[i];
        if (super->start > UINT64_MAX - HAK_SUPERSLAB_SIZE_MAX) return false;
        for (unsigned k = 0; k < units; k++)
            if (!unit_is_right(&super->units[k])) return false;
    }
    return true;
}

static bool options_are_right(const hak_live_page_t *page) {
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        const hak_live_option_t *option = &page->options[i];
        if (option->source > HAK_SOURCE_PROGRAM || !memchr(option->text, 0, sizeof option->text))
            return false;
    }
    return true;
}

const char *live_problem(const hak_live_page_t *page, size_t size) {
    static const char damaged[] = "its page is damaged";
    if (size < sizeof page->head || !head_is_ours(&page->head)) return "its page is none of HAKMEM";
    const char *problem = head_problem(&page->head);
    if (problem) return problem;
    uint32_t bytes = page->head.page_size;
    if (size < sizeof *page || !hak_is_pow2(bytes) || bytes < HAK_GRAIN_SIZE ||
        bytes > HAK_UNIT_SIZE)
        return damaged;
    if (page->cache_count > HAK_LIVE_CACHES || !ranges_are_right(page) ||
        !superslabs_are_right(page) || !options_are_right(page))
        return damaged;
    return NULL;
}

/* What CLOCK_MONOTONIC of a process is ahead of the system's: a time namespace may have moved it. */
static int64_t monotonic_offset_ms(pid_t pid) {
    static const char name[] = "monotonic ";
    int64_t seconds = 0, ns = 0;
    char line[128], *behind;
    FILE *offsets = proc_open_main(pid, "timens_offsets");
    while (offsets && fgets(line, sizeof line, offsets)) {
        if (strncmp(line, name, sizeof name - 1) != 0) continue;
        seconds = strtoll(line + sizeof name - 1, &behind, 10);
        ns = strtoll(behind, NULL, 10);
        break;
    }
    if (offsets) fclose(offsets);
    return seconds * 1000 + ns / 1000000;
}

static int64_t ahead_ms; /* what the clock of the process that was read last is ahead of ours */

uint64_t live_age_ms(const hak_live_page_t *page) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + ahead_ms;
    return now_ms > (int64_t)page->head.refreshed_ms ? (uint64_t)now_ms - page->head.refreshed_ms
                                                     : 0;
}

/* ---- One file -------------------------------------------------------------------------------- */

static size_t read_at(int file, uint64_t offset, void *to, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(file, (char *)to + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

static int naps_left;          /* of the present call of live_read */
static int patience = INT_MAX; /* naps of all further calls */

/* False when there was no patience left for a nap. */
static bool take_nap(void) {
    if (naps_left == 0) return false;
    naps_left--;
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return true;
}

/* Makes a consistent copy, during which the process did not write, of the page at `offset` in a file. Returns
 * NULL, or the problem. */
static const char *copy_page(int file, uint64_t offset, hak_live_page_t *page) {
    do {
        hak_live_head_t after;
        size_t size = read_at(file, offset, page, sizeof *page);
        const char *problem = live_problem(page, size);
        bool is_even = hak_load_relaxed(&page->head.sequence) % 2 == 0;
        bool is_new = size == sizeof *page && !*page->head.magic; /* nothing in it yet */
        if (problem && !is_new && (is_even || size < sizeof *page)) return problem;
        if (!problem && read_at(file, offset, &after, sizeof after) == sizeof after && is_even &&
            hak_load_relaxed(&after.sequence) == hak_load_relaxed(&page->head.sequence))
            return NULL;
    } while (take_nap());
    return "its page is being written to all the time: was it stopped?";
}

/* ---- The process ----------------------------------------------------------------------------- */

/* The number of the process in its own PID namespace (a container has one of its own); 0 when the
 * process has ended. */
static uint32_t own_number(pid_t pid) {
    char line[256];
    uint32_t number = 0;
    FILE *status = proc_thread(pid) ? proc_open_main(pid, "status") : NULL;
    if (!status) return 0;
    number = (uint32_t)pid; /* unless the kernel knows more */
    while (fgets(line, sizeof line, status)) {
        if (strncmp(line, "NSpid:", 6) != 0) continue;
        const char *last = strrchr(line, '\t');
        number = last ? (uint32_t)strtoul(last + 1, NULL, 10) : 0;
    }
    fclose(status);
    return number;
}

typedef struct {
    bool has_hakmem;
    uint64_t page; /* where a live page is mapped; 0: nowhere */
} maps_t;

static maps_t look_at_maps(pid_t pid) {
    char line[4096 + 100];
    maps_t found = {.has_hakmem = false};
    FILE *maps = proc_open(pid, "maps");
    while (maps && fgets(line, sizeof line, maps)) {
        if (strstr(line, "/libhakmem.so") || strstr(line, "[anon:hakmem: "))
            found.has_hakmem = true;
        if (strstr(line, "/memfd:" HAK_LIVE_NAME)) found.page = strtoull(line, NULL, 16);
    }
    if (maps) fclose(maps);
    return found;
}

static hak_live_page_t copy;

/* Copies the page of a process that has closed its file, as daemons close all: the process still writes to the
 * mapping. Returns NULL, or the problem. */
static const char *read_mapped(pid_t pid, uint32_t number, hak_live_page_t *page) {
    maps_t maps = look_at_maps(pid);
    if (!maps.has_hakmem) return explain("process %d does not run on HAKMEM", (int)pid);
    FILE *memory = maps.page ? proc_open(pid, "mem") : NULL;
    if (maps.page && !memory)
        return explain("process %d has closed the file of its live page: only root can read it now",
                       (int)pid);
    const char *wrong = memory ? copy_page(fileno(memory), maps.page, &copy) : NULL;
    if (memory) fclose(memory);
    if (wrong) return explain("process %d: %s", (int)pid, wrong);
    if (!memory || copy.head.pid != number) /* none, or its parent's */
        return explain(
            "process %d has no live page: HAKMEM_LIVE=1 or `hakmem run` makes one, when it starts",
            (int)pid);
    memcpy(page, &copy, sizeof copy);
    return NULL;
}

/* Copies the page behind a link of /proc/PID/fd if it belongs to the process and is newer than the
 * one found before. The number of a descriptor identifies nothing. */
static void look_at(const char *path, uint32_t number, hak_live_page_t *page, bool *found,
                    const char **problem) {
    char target[PATH_SIZE];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length <= 0) return;
    target[length] = 0;
    if (strncmp(target, "/memfd:" HAK_LIVE_NAME, sizeof "/memfd:" HAK_LIVE_NAME - 1) != 0) return;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return;
    const char *wrong = copy_page(file, 0, &copy);
    close(file);
    if (wrong) {
        *problem = wrong;
        return;
    }
    if (copy.head.pid != number) return; /* its parent's */
    if (*found && page->head.refreshed_ms >= copy.head.refreshed_ms) return;
    memcpy(page, &copy, sizeof copy);
    *found = true;
}

static live_result_t read_any(pid_t pid, hak_live_page_t *page, const char **problem) {
    char path[PROC_PATH_SIZE + 24], folder[PROC_PATH_SIZE];
    bool found = false;
    uint32_t number = own_number(pid);
    *problem = explain("there is no process %d", (int)pid);
    if (number == 0) return LIVE_NO_PROCESS;
    DIR *links = opendir(proc_path(folder, pid, "fd"));
    if (!links) {
        bool other = errno == EACCES || errno == EPERM;
        if (other)
            *problem = explain("process %d belongs to another user: its page is for that one only",
                               (int)pid);
        return other ? LIVE_NO_PAGE : LIVE_NO_PROCESS;
    }
    const char *wrong = NULL;
    for (struct dirent *entry; (entry = readdir(links)) != NULL;) {
        if (!isdigit((unsigned char)*entry->d_name)) continue;
        snprintf(path, sizeof path, "%s/%.20s", folder, entry->d_name);
        look_at(path, number, page, &found, &wrong);
    }
    closedir(links);
    ahead_ms = monotonic_offset_ms(pid) - monotonic_offset_ms(getpid());
    if (found) return LIVE_READ;
    *problem = wrong ? explain("process %d: %s", (int)pid, wrong) : read_mapped(pid, number, page);
    return *problem ? LIVE_NO_PAGE : LIVE_READ;
}

live_result_t live_read(pid_t pid, hak_live_page_t *page, const char **problem) {
    const int most = patience < NAPS_MOST ? patience : NAPS_MOST;
    naps_left = most;
    const live_result_t result = read_any(pid, page, problem);
    if (patience != INT_MAX) patience -= most - naps_left;
    return result;
}

void live_limit_patience(int ms) { patience = ms; }
