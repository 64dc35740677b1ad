/* cpu.c: what the process may use: the CPUs of its affinity, but no more than the quotas of its
 * control groups allow, and the memory that these allow.
 *
 * The first call of hak_os_cpu_count reads the affinity, and each look (hak_os_look_at_limits)
 * reads it again. Only a look reads the control groups (cgroup.c), since a short program does not
 * need them. */
#include "os/cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/cgroup.h"
#include "os/gate.h"
#include "os/numa_topology.h"
#include "os/os.h"

enum { MASK_WORDS = 128, KEPT_WORDS = 16 }; /* 8192 CPUs; the numbers of the first 1024 are kept */

static _Atomic uint64_t allowed[KEPT_WORDS]; /* CPUs that were allowed at the last look */
static _Atomic uint64_t in_order
    HAK_READ_OFTEN;             /* the first word of `allowed`; 0 if places go node by node */
static _Atomic unsigned others; /* how many more were allowed, beyond `allowed` */
static _Atomic unsigned known_count HAK_READ_OFTEN; /* 0 until the first call of hak_os_cpu_count */
static _Atomic uint64_t known_bytes
    HAK_READ_OFTEN; /* 0 until the first look; UINT64_MAX: no limit */

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
    hak_store_relaxed(&in_order, hak_has_nodes() ? 0 : cpus->words[0]);
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

HAK_BEHIND bool hak_os_cpu_is_allowed(unsigned cpu) {
    hak_os_cpu_count();
    return cpu < 64 * KEPT_WORDS && (hak_load_relaxed(&allowed[cpu / 64]) >> cpu % 64 & 1);
}

/* The index of a CPU when some lower ones may not be allowed, or there are nodes. */
static HAK_OUT_OF_LINE unsigned index_of(unsigned cpu) {
    if (hak_has_nodes()) return hak_node_place(cpu);
    unsigned word = cpu / 64, before = 0;
    uint64_t below = ((uint64_t)1 << cpu % 64) - 1;
    hak_os_cpu_count();
    if (word >= KEPT_WORDS) return cpu;
    uint64_t seen = hak_load_relaxed(&allowed[word]);
    if (!(seen >> cpu % 64 & 1)) return cpu; /* allowed since the last look */
    for (unsigned w = 0; w < word; w++) before += hak_bit_count(hak_load_relaxed(&allowed[w]));
    return before + hak_bit_count(seen & below);
}

/* If all CPUs up to the caller's are allowed, as on most machines, the number of a CPU is its index. */
HAK_COMMON unsigned hak_os_this_cpu(void) {
    HAK_KEEP_ERRNO();
    int got = sched_getcpu();
    unsigned cpu = got < 0 ? 0 : (unsigned)got;
    uint64_t up_to = ((uint64_t)2 << cpu % 64) - 1;
    return HAK_LIKELY(cpu < 64 && !(up_to & ~hak_load_relaxed(&in_order))) ? cpu : index_of(cpu);
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
    hak_gate_enter(); /* see os/open_files.h */
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_CLOEXEC);
    long bytes = file < 0 ? -1 : syscall(SYS_getdents64, file, entries, sizeof entries);
    if (file >= 0) syscall(SYS_close, file);
    hak_gate_leave();
    for (long i = 0; i < bytes;) {
        const entry_t *entry = (const entry_t *)(const void *)&entries[i];
        const char *name = entry->name;
        unsigned thread = (unsigned)hak_cgroup_number(&name);
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

HAK_COMMON uint64_t hak_os_memory_limit(void) { return hak_load_relaxed(&known_bytes); }

bool hak_os_look_at_limits(void) {
    unsigned before = hak_os_cpu_count(), now = look_at_affinity();
    uint64_t bytes_before = hak_os_memory_limit();
    hak_cgroup_limits_t limits =
        hak_cgroup_limits(HAK_NEAR_TEXT("/proc/self/cgroup"), HAK_NEAR_TEXT("/sys/fs/cgroup"));
    if (limits.cpus && limits.cpus < now) now = (unsigned)limits.cpus;
    hak_store_relaxed(&known_count, now);
    uint64_t bytes = limits.bytes ? limits.bytes : UINT64_MAX;
    hak_store_relaxed(&known_bytes, bytes);
    return now != before || bytes != bytes_before;
}

/* ---- The helper thread ------------------------------------------------------------------------ */

/* Of sched_getscheduler(2) and sched_setscheduler(2); musl's functions of these names only fail. */
enum { ORDINARY, FIFO, ROUND_ROBIN, DEADLINE = 6, RESET_ON_FORK = 0x40000000 };

static bool is_real_time(long policy) {
    return policy == FIFO || policy == ROUND_ROBIN || policy == DEADLINE;
}

static HAK_BEHIND long policy_of(unsigned thread) {
    const long policy = syscall(SYS_sched_getscheduler, thread);
    return policy < 0 ? policy : policy & ~(long)RESET_ON_FORK;
}

static HAK_BEHIND void take_policy(void) {
    const int priority = 0;
    const long own = policy_of(0), first = policy_of(hak_os_process_id());
    const long wanted = first < 0 || is_real_time(first) ? ORDINARY : first;
    if (own >= 0 && own != wanted) syscall(SYS_sched_setscheduler, 0, wanted, &priority);
}

static HAK_BEHIND void take_cpus(void) {
    cpus_t own = {.others = 0};
    uint64_t wanted[KEPT_WORDS];
    bool differs = false;
    if (hak_load_relaxed(&others)) return; /* their numbers are not kept */
    add_affinity(&own, 0);
    for (unsigned i = 0; i < KEPT_WORDS; i++) {
        wanted[i] = hak_load_relaxed(&allowed[i]);
        differs |= (wanted[i] & ~own.words[i]) != 0;
    }
    if (differs) syscall(SYS_sched_setaffinity, 0, sizeof wanted, wanted);
}

HAK_BEHIND void hak_os_become_helper(void) {
    HAK_KEEP_ERRNO();
    take_policy();
    take_cpus();
}
