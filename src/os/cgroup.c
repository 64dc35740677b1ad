/* cgroup.c: what the control groups of the process allow.
 *
 * CPU time per period: `cpu.max` of version 2, cpu.cfs_quota_us and cpu.cfs_period_us of version 1.
 * Memory: memory.max and memory.high of version 2, memory.limit_in_bytes of version 1. The smallest
 * limit of all groups from the process's own up to the root decides. In a container the name of the
 * group may not exist inside; then the walk up reaches the root of the container and finds its
 * limit. A missing or invalid limit is none.
 *
 * Most processes read these files, so their names lie near (HAK_NEAR in base/base.h). */
#include "os/cgroup.h"

#include <string.h>

#include "base/text.h"
#include "os/open_files.h"

enum { PATH_SIZE = 400, NUMBERS_SIZE = 64, CONTROLLERS_SIZE = 64, CPUS_MOST = 8192 };

/* A path that is built piece by piece; a path that is too long counts as none. */
typedef struct {
    char text[PATH_SIZE];
    size_t length;
    bool is_cut;
} path_t;

static void append(path_t *path, const char *text, size_t size) {
    if (size >= sizeof path->text - path->length) {
        path->is_cut = true;
        return;
    }
    memcpy(path->text + path->length, text, size);
    path->length += size;
    path->text[path->length] = 0;
}

/* The beginning of a file. */
typedef struct {
    char text[NUMBERS_SIZE];
    size_t size;
} numbers_t;

static bool take_number(char c, void *context) {
    numbers_t *numbers = context;
    numbers->text[numbers->size++] = c;
    return numbers->size < NUMBERS_SIZE - 1;
}

/* Reads a file in the directory `path`; false when there is none, or nothing in it. */
static bool read_below(const path_t *path, const char *name, numbers_t *numbers) {
    path_t whole = *path;
    append(&whole, name, strlen(name));
    *numbers = (numbers_t){.size = 0};
    if (!whole.is_cut) hak_os_each_char(whole.text, take_number, numbers);
    return numbers->size > 0;
}

/* Reads the number at *at and moves *at behind it and its blanks; 0 when there is none, or it is
 * too long. */
uint64_t hak_cgroup_number(const char **at) {
    enum { DIGITS_MOST = 15 };
    uint64_t sum = 0;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        if (*at - first == DIGITS_MOST) return 0;
        sum = sum * 10 + (uint64_t)(**at - '0');
    }
    while (**at == ' ') ++*at;
    return sum;
}

/* CPUs that a quota allows, rounded up; 0 for no limit. */
static uint64_t cpus_of(uint64_t quota, uint64_t period) {
    if (quota == 0 || period == 0) return 0;
    return hak_min((quota + period - 1) / period, (uint64_t)CPUS_MOST);
}

static uint64_t cpus_of_folder(const path_t *folder) {
    numbers_t first, second;
    const char *at = first.text, *at_second = second.text;
    if (read_below(folder, HAK_NEAR_TEXT("/cpu.max"), &first)) {
        uint64_t quota = hak_cgroup_number(&at);
        return cpus_of(quota, hak_cgroup_number(&at));
    }
    if (!read_below(folder, HAK_NEAR_TEXT("/cpu.cfs_quota_us"), &first)) return 0;
    if (!read_below(folder, HAK_NEAR_TEXT("/cpu.cfs_period_us"), &second)) return 0;
    return cpus_of(hak_cgroup_number(&at),
                   hak_cgroup_number(&at_second)); /* -1 is no number: no limit */
}

static void lower(uint64_t *least, uint64_t limit) {
    if (limit != 0 && (*least == 0 || limit < *least)) *least = limit;
}

/* "max", and the number of 19 digits that stands for no limit in version 1, read as no limit. */
static void lower_by_files(hak_cgroup_limits_t *least, const path_t *folder) {
    static const char files[][24] HAK_NEAR = {"/memory.max", "/memory.high",
                                              "/memory.limit_in_bytes"};
    numbers_t bytes;
    lower(&least->cpus, cpus_of_folder(folder));
    for (unsigned i = 0; i < sizeof files / sizeof *files; i++) {
        const char *at = bytes.text;
        if (read_below(folder, files[i], &bytes)) lower(&least->bytes, hak_cgroup_number(&at));
    }
}

/* From a group up to the root; the path consists of the root and the group. */
static void lower_on_path(hak_cgroup_limits_t *least, path_t *path, size_t root_length) {
    for (;;) {
        lower_by_files(least, path);
        if (path->length <= root_length) return;
        while (path->length > root_length && path->text[path->length - 1] != '/') path->length--;
        if (path->length > root_length) path->length--; /* the slash */
        path->text[path->length] = 0;
    }
}

/* A line of /proc/PID/cgroup: number, controllers, path; the second is empty in version 2. */
typedef struct {
    unsigned column;
    char controllers[CONTROLLERS_SIZE];
    size_t controllers_size;
    path_t path;
} line_t;

static bool has(const line_t *line, const char *controller) {
    const size_t size = strlen(controller);
    const char *at = line->controllers;
    for (; *at; at++)
        if ((at == line->controllers || at[-1] == ',') && hak_begins_with(at, controller, size) &&
            (at[size] == 0 || at[size] == ','))
            return true;
    return false;
}

/* Lowers by a group and its ancestors, in the directory of a hierarchy. The path of a group
 * outside the visible part begins with "/..": then only the directory itself counts. */
static void lower_below(hak_cgroup_limits_t *least, const char *root, const char *folder,
                        const path_t *group) {
    path_t path = {.length = 0};
    append(&path, root, strlen(root));
    append(&path, folder, strlen(folder));
    const size_t root_length = path.length;
    if (!group->is_cut && !hak_begins_with(group->text, HAK_NEAR_TEXT("/.."), 3))
        append(&path, group->text, group->length);
    if (path.length > root_length && path.text[path.length - 1] == '/')
        path.text[--path.length] = 0;
    lower_on_path(least, &path, root_length);
}

/* In version 1 a directory is named after its controllers, and each controller has a link to it. */
static void lower_by_line(hak_cgroup_limits_t *least, const line_t *line, const char *root) {
    char folder[CONTROLLERS_SIZE + 1] = "/";
    const bool has_cpu = has(line, HAK_NEAR_TEXT("cpu")),
               has_memory = has(line, HAK_NEAR_TEXT("memory"));
    if (line->controllers_size == 0) lower_below(least, root, HAK_NEAR_TEXT(""), &line->path);
    if (!has_cpu && !has_memory) return;
    memcpy(folder + 1, line->controllers, line->controllers_size + 1);
    lower_below(least, root, folder, &line->path);
    if (has_cpu) lower_below(least, root, HAK_NEAR_TEXT("/cpu"), &line->path);
    if (has_memory) lower_below(least, root, HAK_NEAR_TEXT("/memory"), &line->path);
}

static void take(line_t *line, char c) {
    enum { CONTROLLERS = 1, PATH = 2 };
    if (c == ':' && line->column < PATH) {
        line->column++;
    } else if (line->column == PATH) {
        append(&line->path, &c, 1);
    } else if (line->column == CONTROLLERS && line->controllers_size < CONTROLLERS_SIZE - 1) {
        line->controllers[line->controllers_size++] = c;
        line->controllers[line->controllers_size] = 0;
    }
}

/* The lines that were read, down to the present one. */
typedef struct {
    const char *root;
    hak_cgroup_limits_t least;
    line_t line;
} groups_t;

static bool take_group(char c, void *context) {
    groups_t *groups = context;
    if (c == '\n') {
        lower_by_line(&groups->least, &groups->line, groups->root);
        groups->line = (line_t){.column = 0};
    } else {
        take(&groups->line, c);
    }
    return true;
}

hak_cgroup_limits_t hak_cgroup_limits(const char *groups, const char *root) {
    HAK_KEEP_ERRNO();
    groups_t lines = {.root = root};
    hak_os_each_char(groups, take_group, &lines);
    return lines.least;
}
