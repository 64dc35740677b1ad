#define _GNU_SOURCE
#include "os_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernel_call.h"

static atomic_ulong own_calls, *calls = &own_calls;
static struct os_plan plan;
static atomic_bool planned; /* `plan` is set, or there is none in the environment */

static long kernel(long number, long a, long b, long c, long d, long e, long f);

/* The children of this process count on in the same word: else their calls have no numbers of their own. */
static void share_count(void) {
    if (calls != &own_calls) return;
    long page = kernel(SYS_mmap, 0, sizeof *calls, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == -1) abort();
    atomic_store((atomic_ulong *)page, atomic_load(&own_calls));
    calls = (atomic_ulong *)page;
}

static void read_plan(void) {
    const char *text = environ ? getenv(OS_PLAN) : NULL;
    if (!environ || atomic_load(&planned)) return;
    share_count();
    if (text) {
        char *end;
        plan.at = strtoul(text, &end, 10);
        plan.how = (enum os_how)strtoul(end, &end, 10);
        plan.error = (int)strtoul(end, NULL, 10);
    }
    atomic_store(&planned, true);
}

void os_calls_plan(struct os_plan next) {
    share_count();
    plan = next;
    atomic_store(calls, 0);
    atomic_store(&planned, true);
}

unsigned long os_calls_count(void) { return atomic_load(calls); }

/* ---- Whose call it is ------------------------------------------------------------------------ */

#ifdef OS_CALLS_PRELOADED

static atomic_uintptr_t first, last; /* the code of libhakmem.so */

static int find_library(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    if (!strstr(info->dlpi_name, "libhakmem")) return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        atomic_store(&last, info->dlpi_addr + part->p_vaddr + part->p_memsz);
        atomic_store(&first, info->dlpi_addr + part->p_vaddr);
    }
    return 1;
}

static bool is_engine(const void *caller) {
    if (atomic_load(&first) == 0) dl_iterate_phdr(find_library, NULL);
    return (uintptr_t)caller - atomic_load(&first) < atomic_load(&last) - atomic_load(&first);
}

/* Only the process that was started with the name is counted, not what it starts. */
__attribute__((constructor)) static void before_main(void) {
    read_plan();
    unsetenv(OS_PLAN);
}

__attribute__((destructor)) static void write_count(void) {
    const char *path = getenv(OS_COUNT_FILE);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%lu\n", os_calls_count());
    fclose(file);
}

#else

static bool is_engine(const void *caller) { return caller != NULL; }

#endif

/* ---- Which calls fail ------------------------------------------------------------------------ */

static bool is_unlucky(unsigned long call) {
    static const unsigned one_in[] = {2, 4, 16};
    uint64_t mixed = (call * 0x9E3779B97F4A7C15u) ^ (plan.at * 0xD6E8FEB86659FD93u);
    mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93u;
    return (mixed >> 33) % one_in[plan.at % 3] == 0;
}

static bool fails_for(const void *caller) {
    if (!atomic_load(&planned)) read_plan();
    if (!is_engine(caller)) return false;
    unsigned long call = atomic_fetch_add(calls, 1) + 1;
    if (plan.at == 0) return false;
    if (plan.how == OS_RANDOM ? !is_unlucky(call)
                              : call < plan.at || (call > plan.at && plan.how == OS_ONCE))
        return false;
    errno = plan.error;
    return true;
}

#define FAILS() fails_for(__builtin_return_address(0))

/* ---- The calls ------------------------------------------------------------------------------- */

static long kernel(long number, long a, long b, long c, long d, long e, long f) {
    const long words[6] = {a, b, c, d, e, f};
    return kernel_call(number, words);
}

long syscall(long number, ...) {
    long words[6];
    va_list more;
    va_start(more, number);
    for (unsigned i = 0; i < 6; i++) words[i] = va_arg(more, long);
    va_end(more);
    /* A call that wakes has no way to fail; if it did, a thread that the system let sleep would sleep on. */
    bool wakes = number == SYS_futex && (words[1] & 127) == 1;
    if (!wakes && FAILS()) return -1;
    return kernel_call(number, words);
}

void *mmap(void *at, size_t size, int prot, int flags, int file, off_t offset) {
    if (FAILS()) return MAP_FAILED;
    return (void *)kernel(SYS_mmap, (long)at, (long)size, prot, flags, file, offset);
}
int munmap(void *at, size_t size) {
    return FAILS() ? -1 : (int)kernel(SYS_munmap, (long)at, (long)size, 0, 0, 0, 0);
}
int mprotect(void *at, size_t size, int prot) {
    return FAILS() ? -1 : (int)kernel(SYS_mprotect, (long)at, (long)size, prot, 0, 0, 0);
}
int madvise(void *at, size_t size, int advice) {
    return FAILS() ? -1 : (int)kernel(SYS_madvise, (long)at, (long)size, advice, 0, 0, 0);
}
void *mremap(void *at, size_t old_size, size_t size, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *to = va_arg(more, void *);
    va_end(more);
    if (FAILS()) return MAP_FAILED;
    return (void *)kernel(SYS_mremap, (long)at, (long)old_size, (long)size, flags, (long)to, 0);
}
int fcntl(int file, int command, ...) {
    va_list more;
    va_start(more, command);
    long argument = va_arg(more, long);
    va_end(more);
    return FAILS() ? -1 : (int)kernel(SYS_fcntl, file, command, argument, 0, 0, 0);
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    return FAILS() ? -1 : (int)kernel(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
}
int sched_getcpu(void) {
    unsigned cpu = 0;
    if (FAILS() || kernel(SYS_getcpu, (long)&cpu, 0, 0, 0, 0, 0) != 0) return -1;
    return (int)cpu;
}

/* These two are libc's own, which find_next() has looked up. */
typedef int create_t(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int action_t(int, const struct sigaction *, struct sigaction *);

static void *find_next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}
static create_t *next_create(void) {
    static create_t *_Atomic next;
    if (!atomic_load(&next))
        atomic_store(&next, (create_t *)(uintptr_t)find_next("pthread_create"));
    return atomic_load(&next);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
    return FAILS() ? EAGAIN : next_create()(thread, attributes, run, argument);
}
int os_calls_thread(pthread_t *thread, void *(*run)(void *), void *argument) {
    return next_create()(thread, NULL, run, argument);
}
int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    static action_t *_Atomic next;
    if (FAILS()) return -1;
    if (!atomic_load(&next)) atomic_store(&next, (action_t *)(uintptr_t)find_next("sigaction"));
    return atomic_load(&next)(number, action, before);
}
