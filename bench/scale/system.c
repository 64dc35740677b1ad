/* system.c: in front of libc, for instrumented code: what the system says of the machine, its clock,
 * sleep, futexes and files. All answers are the simulated machine's, and the same in each run. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "calls.h"
#include "memory.h"
#include "sched.h"
#include "sites.h"

#define PC __builtin_return_address(0)

enum { NS = 1000000000, EPOCH_S = 1000, FIRST_THREAD = 1000, CALL_NS = 100 };

/* ---- CPUs -------------------------------------------------------------------------------------- */

static unsigned this_cpu(void) { return sched_self ? sched_cpu() : 0; }

int scale_sched_getcpu(void) { return (int)this_cpu(); }

int scale_getcpu(unsigned *cpu, unsigned *node) {
    if (cpu) *cpu = this_cpu();
    if (node) *node = machine_node(this_cpu());
    return 0;
}

static size_t fill_affinity(size_t size, void *set) {
    size_t bytes = CPUS_MOST / 8 < size ? CPUS_MOST / 8 : size;
    memset(set, 0, bytes);
    for (unsigned cpu = 0; cpu < machine_options.cpus && cpu / 8 < bytes; cpu++)
        ((unsigned char *)set)[cpu / 8] |= (unsigned char)(1u << cpu % 8);
    return bytes;
}

int scale_sched_getaffinity(pid_t thread, size_t size, cpu_set_t *set) {
    (void)thread;
    memset(set, 0, size);
    fill_affinity(size, set);
    return 0;
}
int scale_pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t *set) {
    (void)thread;
    return scale_sched_getaffinity(0, size, set);
}

int scale_get_nprocs(void) { return (int)machine_options.cpus; }
int scale_get_nprocs_conf(void) { return (int)machine_options.cpus; }

long scale_sysconf(int name) {
    bool asks_cpus = name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF;
    return asks_cpus ? (long)machine_options.cpus : sysconf(name);
}

/* ---- Time -------------------------------------------------------------------------------------- */

static uint64_t now(void) { return sched_self ? sched_now() : 0; }

int scale_clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    time->tv_sec = (time_t)(EPOCH_S + now() / NS);
    time->tv_nsec = (long)(now() % NS);
    return 0;
}

int scale_gettimeofday(struct timeval *time, void *zone) {
    (void)zone;
    time->tv_sec = (time_t)(EPOCH_S + now() / NS);
    time->tv_usec = (suseconds_t)(now() % NS / 1000);
    return 0;
}

time_t scale_time(time_t *time) {
    time_t seconds = (time_t)(EPOCH_S + now() / NS);
    if (time) *time = seconds;
    return seconds;
}

clock_t scale_clock(void) { return (clock_t)(now() * CLOCKS_PER_SEC / NS); }

static void rest(uint64_t ns) {
    static char nobody_wakes;
    if (sched_self) sched_block(&nobody_wakes, ns ? ns : 1, NULL);
}

static uint64_t ns_of(const struct timespec *time) {
    return (uint64_t)time->tv_sec * NS + (uint64_t)time->tv_nsec;
}

int scale_nanosleep(const struct timespec *time, struct timespec *left) {
    (void)left;
    rest(ns_of(time));
    return 0;
}

int scale_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                          struct timespec *left) {
    (void)clock, (void)left;
    uint64_t ns = ns_of(time), at = (uint64_t)EPOCH_S * NS + now();
    if (flags & TIMER_ABSTIME) ns = ns > at ? ns - at : 1;
    rest(ns);
    return 0;
}

int scale_usleep(useconds_t us) {
    rest((uint64_t)us * 1000);
    return 0;
}

int scale_sched_yield(void) {
    if (sched_self) sched_yield_cpu();
    return 0;
}

/* ---- Chance ------------------------------------------------------------------------------------ */

ssize_t scale_getrandom(void *buffer, size_t size, unsigned flags) {
    static uint64_t state = 0x853C49E6748FEA9Bu;
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ((unsigned char *)buffer)[i] = (unsigned char)(state >> 56);
    }
    return (ssize_t)size;
}

int scale_getentropy(void *buffer, size_t size) {
    scale_getrandom(buffer, size, 0);
    return 0;
}

/* The process's random bytes are the same ones each time. */
unsigned long scale_getauxval(unsigned long type) {
    static const unsigned char bytes[16] = {0x5A, 0x17, 0xC3, 0x88, 0x2E, 0x91, 0x4D, 0x60,
                                            0xF2, 0x0B, 0x76, 0xDA, 0x39, 0xE5, 0xA4, 0x1F};
    return type == AT_RANDOM ? (unsigned long)(uintptr_t)bytes : getauxval(type);
}

/* ---- Files: the machine's description is a made-up one --------------------------------------- */

/* The path of the made-up file that stands for `path`, else `path` itself. */
static const char *redirected(const char *path, char *place, size_t size) {
    static const char *const real[] = {"/sys/devices/system", "/sys/fs/cgroup", "/proc/self/cgroup",
                                       "/proc/cpuinfo"};
    const char *folder = getenv("SCALE_SYSTEM");
    for (size_t i = 0; folder && i < sizeof real / sizeof *real; i++) {
        if (strncmp(path, real[i], strlen(real[i])) != 0) continue;
        snprintf(place, size, "%s%s", folder, path);
        return place;
    }
    return path;
}

enum { PATH_SIZE = 512 };

int scale_open(const char *path, int flags, ...) {
    char place[PATH_SIZE];
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open(redirected(path, place, sizeof place), flags, mode);
}

int scale_open64(const char *path, int flags, ...) __attribute__((alias("scale_open")));

int scale_openat(int folder, const char *path, int flags, ...) {
    char place[PATH_SIZE];
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return openat(folder, redirected(path, place, sizeof place), flags, mode);
}

int scale_openat64(int folder, const char *path, int flags, ...)
    __attribute__((alias("scale_openat")));

int scale_access_file(const char *path, int mode) {
    char place[PATH_SIZE];
    return access(redirected(path, place, sizeof place), mode);
}

/* ---- System calls ------------------------------------------------------------------------------ */

static long answer(long error) {
    if (error == 0) return 0;
    errno = (int)error;
    return -1;
}

static long wait_on(const uint32_t *word, uint32_t value, const struct timespec *time, bool until,
                    const void *pc) {
    scale_access(word, sizeof *word, ACCESS_READ, pc);
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) return answer(EAGAIN);
    uint64_t ns = time ? ns_of(time) : 0, at = (uint64_t)EPOCH_S * NS + now();
    if (time && until) ns = ns > at ? ns - at : 1;
    if (time && ns == 0) ns = 1;
    return sched_block(word, ns, time ? NULL : pc) ? 0 : answer(ETIMEDOUT);
}

static long futex(const long *words, const void *pc) {
    const uint32_t *word = (const uint32_t *)words[0];
    const struct timespec *time = (const struct timespec *)words[3];
    sched_pass(CALL_NS);
    switch (words[1] & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
        return wait_on(word, (uint32_t)words[2], time, false, pc);
    case FUTEX_WAIT_BITSET:
        return wait_on(word, (uint32_t)words[2], time, true, pc);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
        return sched_wake(word, (unsigned)words[2], false);
    default:
        return answer(ENOSYS);
    }
}

/* True when the call is answered here. */
static bool of_machine(long number, const long *words, long *result) {
    switch (number) {
    case SYS_getcpu:
        *result = scale_getcpu((unsigned *)words[0], (unsigned *)words[1]);
        return true;
    case SYS_sched_getaffinity:
        *result = (long)fill_affinity((size_t)words[1], (void *)words[2]);
        return true;
    case SYS_clock_gettime:
        *result = scale_clock_gettime((clockid_t)words[0], (struct timespec *)words[1]);
        return true;
    case SYS_nanosleep:
        *result = scale_nanosleep((const struct timespec *)words[0], NULL);
        return true;
    case SYS_sched_yield:
        *result = scale_sched_yield();
        return true;
    case SYS_getrandom:
        *result = scale_getrandom((void *)words[0], (size_t)words[1], 0);
        return true;
    case SYS_gettid:
        *result = FIRST_THREAD + (sched_self ? (long)sched_id() : 0);
        return true;
    case SYS_membarrier:
        *result = 0;
        return true;
    default:
        return false;
    }
}

static bool of_memory(long number, const long *words, long *result) {
    void *addr = (void *)words[0];
    switch (number) {
    case SYS_mmap:
        *result = (long)scale_mmap(addr, (size_t)words[1], (int)words[2], (int)words[3],
                                   (int)words[4], words[5]);
        return true;
    case SYS_munmap:
        *result = scale_munmap(addr, (size_t)words[1]);
        return true;
    case SYS_madvise:
        *result = scale_madvise(addr, (size_t)words[1], (int)words[2]);
        return true;
    case SYS_mprotect:
        *result = scale_mprotect(addr, (size_t)words[1], (int)words[2]);
        return true;
    default:
        return false;
    }
}

static bool of_files(long number, const long *words, long *result) {
    switch (number) {
#ifdef SYS_open
    case SYS_open:
        *result = scale_open((const char *)words[0], (int)words[1], words[2]);
        return true;
    case SYS_access:
        *result = scale_access_file((const char *)words[0], (int)words[1]);
        return true;
#endif
    case SYS_openat:
        *result = scale_openat((int)words[0], (const char *)words[1], (int)words[2], words[3]);
        return true;
    default:
        return false;
    }
}

long scale_syscall(long number, ...) {
    long words[6], result;
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) words[i] = va_arg(rest, long);
    va_end(rest);
    if (of_machine(number, words, &result) || of_memory(number, words, &result) ||
        of_files(number, words, &result))
        return result;
    if (sched_self && number == SYS_futex) return futex(words, PC);
    if (sched_self && number != SYS_prctl) machine_totals.kernel_calls++;
    return syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
