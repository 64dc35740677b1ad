/* cpu.c: how many CPUs the process may use: those of its affinity, but no more than the quotas of
 * its control groups allow.
 *
 * The affinity is read by the first call of hak_os_cpu_count, and again by each look. The quotas
 * are read by a look only (hak_os_cpu_look), since a short program does not need them. A quota is
 * the CPU time that the kernel grants per period: `cpu.max` of version 2, cpu.cfs_quota_us and
 * cpu.cfs_period_us of version 1. The smallest quota of all groups from the process's own up to the
 * root decides. In a container the name of the group may not exist inside; then the walk up reaches
 * the root of the container and finds its quota. A missing or invalid quota is no limit. */
#include "os/cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/file.h"
#include "os/os.h"

enum { MASK_WORDS = 128, KEPT_WORDS = 16 }; /* 8192 CPUs; the numbers of the first 1024 are kept */
enum { PATH_SIZE = 400, NUMBERS_SIZE = 64, CONTROLLERS_SIZE = 64 };

static _Atomic uint64_t allowed[KEPT_WORDS]; /* CPUs that were allowed at the last look */
static _Atomic unsigned others;              /* how many more were allowed, beyond `allowed` */
static _Atomic unsigned known_count;         /* 0 until the first call of hak_os_cpu_count */

/* ---- Affinity -------------------------------------------------------------------------------- */

typedef struct {
    uint64_t words[KEPT_WORDS];
    unsigned others; /* CPUs beyond `words` */
} cpus_t;

/* Adds the CPUs that a thread may run on. A raw syscall, since libc's CPU_ALLOC would allocate on
 * machines with many CPUs. */
static HAK_COMMON void add_affinity(cpus_t *cpus, unsigned thread) {
    HAK_KEEP_ERRNO();
    unsigned long mask[MASK_WORDS];
    long bytes = syscall(SYS_sched_getaffinity, thread, sizeof mask, mask);
    unsigned beyond = 0;
    for (long i = 0; i < bytes / (long)sizeof *mask; i++) {
        if (i >= KEPT_WORDS)
            beyond += hak_bit_count(mask[i]);
        else
            cpus->words[i] |= mask[i];
    }
    cpus->others = hak_max(cpus->others, beyond);
}

static HAK_COMMON unsigned note_allowed(const cpus_t *cpus) {
    unsigned count = cpus->others;
    hak_store_relaxed(&others, cpus->others);
    for (unsigned i = 0; i < KEPT_WORDS; i++) {
        count += hak_bit_count(cpus->words[i]);
        if (cpus->words[i] != hak_load_relaxed(&allowed[i]))
            hak_store_relaxed(&allowed[i], cpus->words[i]);
    }
    return hak_max(count, 1u);
}

HAK_COMMON unsigned hak_os_cpu_count(void) {
    unsigned known = hak_load_relaxed(&known_count);
    if (HAK_LIKELY(known != 0)) return known;
    cpus_t cpus = {.others = 0};
    add_affinity(&cpus, 0);
    known = note_allowed(&cpus);
    hak_store_release(&known_count, known);
    return known;
}

unsigned hak_os_this_cpu(void) {
    HAK_KEEP_ERRNO();
    int got = sched_getcpu();
    unsigned cpu = got < 0 ? 0 : (unsigned)got, word = cpu / 64, before = 0;
    uint64_t below = ((uint64_t)1 << cpu % 64) - 1;
    if (HAK_LIKELY(word == 0 && !(below & ~hak_load_relaxed(&allowed[0]))))
        return cpu; /* all lower CPUs are allowed */
    hak_os_cpu_count();
    if (word >= KEPT_WORDS) return cpu;
    uint64_t seen = hak_load_relaxed(&allowed[word]);
    if (!(seen >> cpu % 64 & 1)) return cpu; /* allowed since the last look */
    for (unsigned w = 0; w < word; w++) before += hak_bit_count(hak_load_relaxed(&allowed[w]));
    return before + hak_bit_count(seen & below);
}

/* ---- Quotas ---------------------------------------------------------------------------------- */

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
static uint64_t number(const char **at) {
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
static unsigned cpus_of(uint64_t quota, uint64_t period) {
    if (quota == 0 || period == 0) return 0;
    return (unsigned)hak_min((quota + period - 1) / period, (uint64_t)MASK_WORDS * 64);
}

static unsigned quota_of_folder(const path_t *folder) {
    numbers_t first, second;
    const char *at = first.text, *at_second = second.text;
    if (read_below(folder, "/cpu.max", &first)) {
        uint64_t quota = number(&at);
        return cpus_of(quota, number(&at));
    }
    if (!read_below(folder, "/cpu.cfs_quota_us", &first)) return 0;
    if (!read_below(folder, "/cpu.cfs_period_us", &second)) return 0;
    return cpus_of(number(&at), number(&at_second)); /* -1 is no number: no limit */
}

static unsigned smaller(unsigned a, unsigned b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* The smallest quota from a group up to the root; the path consists of the root and the group. */
static unsigned quota_on_path(path_t *path, size_t root_length) {
    unsigned least = 0;
    for (;;) {
        least = smaller(least, quota_of_folder(path));
        if (path->length <= root_length) return least;
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

static bool has_cpu(const line_t *line) {
    const char *at = line->controllers;
    for (; *at; at++)
        if ((at == line->controllers || at[-1] == ',') && strncmp(at, "cpu", 3) == 0 &&
            (at[3] == 0 || at[3] == ','))
            return true;
    return false;
}

/* The quota of a group and of its ancestors, in the directory of a hierarchy. The path of a group
 * outside the visible part begins with "/..": then only the directory itself counts. */
static unsigned quota_below(const char *root, const char *folder, const path_t *group) {
    path_t path = {.length = 0};
    append(&path, root, strlen(root));
    append(&path, folder, strlen(folder));
    const size_t root_length = path.length;
    if (!group->is_cut && strncmp(group->text, "/..", 3) != 0)
        append(&path, group->text, group->length);
    if (path.length > root_length && path.text[path.length - 1] == '/')
        path.text[--path.length] = 0;
    return quota_on_path(&path, root_length);
}

/* In version 1 a directory is named after its controllers, and each controller has a link to it. */
static unsigned quota_of_line(const line_t *line, const char *root) {
    char folder[CONTROLLERS_SIZE + 1] = "/";
    if (line->controllers_size == 0) return quota_below(root, "", &line->path);
    if (!has_cpu(line)) return 0;
    memcpy(folder + 1, line->controllers, line->controllers_size + 1);
    return smaller(quota_below(root, folder, &line->path), quota_below(root, "/cpu", &line->path));
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
    unsigned least;
    line_t line;
} groups_t;

static bool take_group(char c, void *context) {
    groups_t *groups = context;
    if (c == '\n') {
        groups->least = smaller(groups->least, quota_of_line(&groups->line, groups->root));
        groups->line = (line_t){.column = 0};
    } else {
        take(&groups->line, c);
    }
    return true;
}

unsigned hak_os_cpu_quota(const char *groups, const char *root) {
    HAK_KEEP_ERRNO();
    groups_t lines = {.root = root};
    hak_os_each_char(groups, take_group, &lines);
    return lines.least;
}

/* ---- Looks ----------------------------------------------------------------------------------- */

/* An entry of getdents64(2). */
typedef struct {
    uint64_t inode, offset;
    uint16_t size;
    uint8_t type;
    char name[];
} entry_t;

/* Adds the CPUs of the first threads of the process, about sixty; false without /proc. */
static bool add_first_threads(cpus_t *cpus) {
    HAK_KEEP_ERRNO();
    HAK_ALIGNED(8) char entries[2048];
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_CLOEXEC);
    long bytes = file < 0 ? -1 : syscall(SYS_getdents64, file, entries, sizeof entries);
    if (file >= 0) syscall(SYS_close, file);
    for (long i = 0; i < bytes;) {
        const entry_t *entry = (const entry_t *)(const void *)&entries[i];
        const char *name = entry->name;
        unsigned thread = (unsigned)number(&name);
        if (thread) add_affinity(cpus, thread);
        i += entry->size;
    }
    return bytes > 0;
}

/* True when a CPU of the last look is no longer allowed. */
static bool has_lost_some(const cpus_t *cpus) {
    bool lost = cpus->others < hak_load_relaxed(&others);
    for (unsigned i = 0; i < KEPT_WORDS; i++)
        lost |= (hak_load_relaxed(&allowed[i]) & ~cpus->words[i]) != 0;
    return lost;
}

/* Looks at the affinity of the caller and of the first thread. If these have lost CPUs, the program
 * may have pinned each thread to a CPU of its own, so more threads are asked. */
static unsigned look_at_affinity(void) {
    cpus_t cpus = {.others = 0};
    add_affinity(&cpus, 0);
    add_affinity(&cpus, hak_os_process_id());
    if (has_lost_some(&cpus) && !add_first_threads(&cpus)) return hak_os_cpu_count();
    return note_allowed(&cpus);
}

bool hak_os_cpu_look(void) {
    unsigned before = hak_os_cpu_count();
    unsigned now =
        smaller(look_at_affinity(), hak_os_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
    hak_store_relaxed(&known_count, now);
    return now != before;
}
