/* cpu.c: how many CPUs the process may use: those of its affinity, and no more than the quotas
 * of its control groups allow.
 *
 * The affinity is read with the first question, and anew by each look. The quotas are read only
 * when somebody looks (hak_os_cpu_look), since a short program needs none. A quota is what the
 * kernel gives in a period: `cpu.max` of version 2, cpu.cfs_quota_us and cpu.cfs_period_us of
 * version 1. That of every group from the process's own up to the root counts, the smallest
 * decides. In a container the group may have a name that is not to be seen from inside: then what
 * its root says is found on the way up. What is missing or makes no sense is no limit. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

enum { MASK_WORDS = 128, KEPT_WORDS = 16 }; /* 8192 CPUs; of 1024 the numbers are kept */
enum { PATH_SIZE = 400, CHUNK = 256, NUMBERS_SIZE = 64, CONTROLLERS_SIZE = 64 };

static _Atomic uint64_t allowed[KEPT_WORDS]; /* CPUs that were allowed at the last look */
static _Atomic unsigned others;              /* of those that have no number */
static _Atomic unsigned known_count;         /* 0 until the first question */

/* ---- Affinity -------------------------------------------------------------------------------- */

typedef struct {
    uint64_t words[KEPT_WORDS];
    unsigned others; /* that have no number here */
} cpus_t;

/* Adds what a thread may run on. The raw call: libc's CPU_ALLOC path would allocate on wide
 * machines. */
static HAK_COMMON void add_affinity(cpus_t *cpus, unsigned thread) {
    unsigned long mask[MASK_WORDS];
    int saved = errno;
    long bytes = syscall(SYS_sched_getaffinity, thread, sizeof mask, mask);
    errno = saved;
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
    int saved = errno, got = sched_getcpu();
    errno = saved;
    unsigned cpu = got < 0 ? 0 : (unsigned)got, word = cpu / 64, before = 0;
    hak_os_cpu_count();
    if (word >= KEPT_WORDS) return cpu;
    uint64_t seen = hak_load_relaxed(&allowed[word]);
    uint64_t below = ((uint64_t)1 << cpu % 64) - 1;
    if (HAK_LIKELY(word == 0 && !(below & ~seen))) return cpu; /* none is left out */
    if (!(seen >> cpu % 64 & 1)) return cpu;                   /* allowed later */
    for (unsigned w = 0; w < word; w++) before += hak_bit_count(hak_load_relaxed(&allowed[w]));
    return before + hak_bit_count(seen & below);
}

/* ---- Quotas ---------------------------------------------------------------------------------- */

/* Raw calls, since libc's are points where a thread may be cancelled. */
static int open_to_read(const char *path) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

static long fill(int file, char *chunk, size_t size) {
    long got;
    do got = syscall(SYS_read, file, chunk, size);
    while (got < 0 && errno == EINTR);
    return got;
}

/* A path that is put together; one that is too long is none. */
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

/* The begin of a small file of the folder `path`, as a text; false without. */
static bool read_below(const path_t *path, const char *name, char text[NUMBERS_SIZE]) {
    path_t whole = *path;
    append(&whole, name, strlen(name));
    int file = whole.is_cut ? -1 : open_to_read(whole.text);
    if (file < 0) return false;
    long got = fill(file, text, NUMBERS_SIZE - 1);
    syscall(SYS_close, file);
    text[hak_max(got, 0)] = 0;
    return got > 0;
}

/* The number at *at, and what follows its blanks; 0 when there is none, or it is too long. */
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

/* What a group may use; 0 for no limit. */
static unsigned cpus_of(uint64_t quota, uint64_t period) {
    if (quota == 0 || period == 0) return 0;
    return (unsigned)hak_min((quota + period - 1) / period, (uint64_t)MASK_WORDS * 64);
}

static unsigned quota_of_folder(const path_t *folder) {
    char text[NUMBERS_SIZE], period[NUMBERS_SIZE];
    const char *at = text, *at_period = period;
    if (read_below(folder, "/cpu.max", text)) {
        uint64_t quota = number(&at);
        return cpus_of(quota, number(&at));
    }
    if (!read_below(folder, "/cpu.cfs_quota_us", text)) return 0;
    if (!read_below(folder, "/cpu.cfs_period_us", period)) return 0;
    return cpus_of(number(&at), number(&at_period)); /* -1 is no number: no limit */
}

static unsigned smaller(unsigned a, unsigned b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* The smallest quota from a group up to the root; the path has both, the latter first. */
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

/* That of a group, and of those it lies in, in the folder of a hierarchy. A group outside of what
 * can be seen begins with "/..": the folder itself is looked at. */
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

/* The folder of version 1 has the names of its controllers; there is a link by each of them. */
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

unsigned hak_os_cpu_quota(const char *groups, const char *root) {
    int saved = errno, file = open_to_read(groups);
    unsigned least = 0;
    char chunk[CHUNK];
    line_t line = {.column = 0};
    for (long got; file >= 0 && (got = fill(file, chunk, sizeof chunk)) > 0;) {
        for (long i = 0; i < got; i++) {
            if (chunk[i] != '\n') {
                take(&line, chunk[i]);
                continue;
            }
            least = smaller(least, quota_of_line(&line, root));
            line = (line_t){.column = 0};
        }
    }
    if (file >= 0) syscall(SYS_close, file);
    errno = saved;
    return least;
}

/* ---- Looks ----------------------------------------------------------------------------------- */

/* As getdents64(2) gives it. */
typedef struct {
    uint64_t inode, offset;
    uint16_t size;
    uint8_t type;
    char name[];
} entry_t;

/* The first threads of the process, some sixty; false without /proc. */
static bool add_first_threads(cpus_t *cpus) {
    HAK_ALIGNED(8) char entries[2048];
    int saved = errno, file = open_to_read("/proc/self/task");
    long bytes = file < 0 ? -1 : syscall(SYS_getdents64, file, entries, sizeof entries);
    if (file >= 0) syscall(SYS_close, file);
    errno = saved;
    for (long i = 0; i < bytes;) {
        const entry_t *entry = (const entry_t *)(const void *)&entries[i];
        const char *name = entry->name;
        unsigned thread = (unsigned)number(&name);
        if (thread) add_affinity(cpus, thread);
        i += entry->size;
    }
    return bytes > 0;
}

/* True when there are fewer than at the last look. */
static bool has_lost_some(const cpus_t *cpus) {
    bool lost = cpus->others < hak_load_relaxed(&others);
    for (unsigned i = 0; i < KEPT_WORDS; i++)
        lost |= (hak_load_relaxed(&allowed[i]) & ~cpus->words[i]) != 0;
    return lost;
}

/* The CPUs of the caller and of the first thread. Where those are fewer than before, programs may
 * keep each of their threads on a CPU of its own: more threads are asked. */
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
