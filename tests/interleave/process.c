/* process.c: stands in for what the engine calls in libc. The names are libc's: the linker takes
 * these for the program's own sources, libc itself does not. */
#include "process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "explore.h"
#include "memory.h"

enum {
    FUTEX_OPERATIONS = 127,
    FUTEX_RAISE = 1,
    FUTEX_REQUEUE_NONE = 4,
    HANDLERS_MAX = 4,
    THREAD_IDS = 1000
};

process_t process;

/* ---- Threads --------------------------------------------------------------------------------- */

/* glibc's word for "no second thread", which it sets at its start: here there are some. */
extern char __libc_single_threaded;
char __libc_single_threaded;

static void (*key_destructor)(void *);
static void *key_values[EXPLORE_THREADS_MAX];

static void *(*helper_body)(void *);
static void *helper_argument;

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    *key = 0;
    key_destructor = destructor;
    return 0;
}

int pthread_setspecific(pthread_key_t key, const void *value) {
    (void)key;
    key_values[explore_thread()] = (void *)(uintptr_t)value;
    return 0;
}

void process_end_thread(void) {
    void *value = key_values[explore_thread()];
    key_values[explore_thread()] = NULL;
    if (value) key_destructor(value);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                   void *argument) {
    (void)attributes;
    if (process.helper == 0) return EAGAIN;
    *thread = process.helper;
    helper_body = body;
    helper_argument = argument;
    explore_start(process.helper);
    return 0;
}

void process_helper(void) { helper_body(helper_argument); }

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before) {
    (void)how, (void)set, (void)before; /* there are no signals */
    return 0;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    (void)number, (void)action, (void)before;
    return 0;
}

/* The program's thread-local variables, all in one piece. */
static int find_tls(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            explore_keep_apart(info->dlpi_tls_data, info->dlpi_phdr[i].p_memsz);
    return 1; /* the first one is the program */
}

void process_make(void) {
    __libc_single_threaded = 0;
    dl_iterate_phdr(find_tls, NULL);
    memory_track_all();
    memory_leave_out(&errno, sizeof errno); /* all threads' to libc, and kept by whom it matters */
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static struct {
    void (*prepare)(void), (*parent)(void), (*child)(void);
} handlers[HANDLERS_MAX];
static unsigned handler_count;

static unsigned process_number = 1;

int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *handle);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
                      void *handle) {
    EXPLORE_CHECK(!handle, "exit would remove a fork handler");
    for (unsigned i = 0; i < handler_count; i++)
        EXPLORE_CHECK(handlers[i].child != child, "a fork handler is registered twice");
    if (handler_count == HANDLERS_MAX) abort();
    handlers[handler_count].prepare = prepare;
    handlers[handler_count].parent = parent;
    handlers[handler_count++].child = child;
    return 0;
}

static bool asleep[EXPLORE_THREADS_MAX];

bool process_fork(void) {
    for (unsigned i = handler_count; i-- > 0;)
        if (handlers[i].prepare) handlers[i].prepare();
    bool is_child = explore_choose(2) != 0;
    if (is_child) {
        explore_stop_others();
        memory_join();
        process_number++;
        process.is_child = true;
    }
    for (unsigned i = 0; i < handler_count; i++) {
        void (*handler)(void) = is_child ? handlers[i].child : handlers[i].parent;
        if (handler) handler();
    }
    return is_child;
}

pid_t getpid(void) { return (pid_t)process_number; }

/* ---- The kernel ------------------------------------------------------------------------------ */

int clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    process.now_ms += process.tick_ms;
    *now =
        (struct timespec){(time_t)(process.now_ms / 1000), (long)(process.now_ms % 1000) * 1000000};
    return 0;
}

int sched_getcpu(void) {
    const unsigned thread = explore_thread();
    return process.moved >> thread & 1 ? PROCESS_OTHER_CPU : (int)(thread % process.cpus);
}

void process_move_thread(void) { process.moved |= (uint32_t)1 << explore_thread(); }

static bool is_awake(const void *thread) { return !asleep[*(const unsigned *)thread]; }

/* The look at the word and falling asleep are one step, and order no memory. */
static long futex_wait(uint32_t *word, uint32_t value, const struct timespec *time) {
    unsigned thread = explore_thread();
    bool is_shared = memory_is_tracked(word); /* one on a stack is for a sleep */
    if (is_shared) memory_atomic_begin(word, sizeof *word);
    uint32_t found = *(volatile uint32_t *)word;
    if (is_shared)
        memory_atomic_end(word, "futex wait", true, false, __ATOMIC_RELAXED, found, found);
    if (found != value) {
        errno = EAGAIN;
        return -1;
    }
    asleep[thread] = true;
    if (time && time->tv_sec == 0) { /* a longer sleep of the helper ends by a wake-up only */
        process.now_ms += (uint64_t)time->tv_sec * 1000 + (uint64_t)time->tv_nsec / 1000000;
        explore_sleep();
        asleep[thread] = false;
        errno = ETIMEDOUT;
        return -1;
    }
    explore_await(is_awake, &thread);
    return 0;
}

/* All of a word's sleepers wake: one too many looks again, and sleeps. */
static long futex_wake(uint32_t *word) {
    memory_atomic_begin(word, sizeof *word);
    memory_atomic_end(word, "futex wake", true, false, __ATOMIC_RELAXED, 0, 0);
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) asleep[i] = false;
    return 0;
}

static long affinity(unsigned long *mask) {
    memset(mask, 0, sizeof *mask);
    *mask = (1ul << process.cpus) - 1;
    return sizeof *mask;
}

static long refuse(int error) {
    errno = error;
    return -1;
}

/* The same numbers in every run. */
static long give_random(uint64_t *number) {
    *number = ++process.randoms * UINT64_C(0x9E3779B97F4A7C15);
    return sizeof *number;
}

static long write_text(int file, const char *text, size_t size) {
    (void)file;
    process.reports++;
    explore_note("writes: %.*s", (int)size, text);
    return (long)size;
}

/* The real function of libc by that name. */
static void find_real(void *function, const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    memcpy(function, &found, sizeof found);
}

void *mmap(void *addr, size_t size, int prot, int flags, int file, off_t offset) {
    static void *(*real)(void *, size_t, int, int, int, off_t);
    if (!real) find_real(&real, "mmap");
    if (!addr && process.left) {
        addr = process.left;
        process.left = NULL;
    }
    void *mapped = real(addr, size, prot, flags, file, offset);
    if ((flags & MAP_SHARED) && file >= 0) process.page = mapped;
    return mapped;
}

void *mremap(void *addr, size_t old_size, size_t size, int flags, ...) {
    static void *(*real)(void *, size_t, size_t, int, ...);
    va_list list;
    va_start(list, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    if (!real) find_real(&real, "mremap");
    if (process.lengthens_nothing && flags == MREMAP_MAYMOVE && size > old_size) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (!process.moves_all || flags != MREMAP_MAYMOVE || size <= old_size)
        return real(addr, old_size, size, flags, to);
    to = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *moved = real(addr, old_size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    process.left = addr;
    process.has_moved = true;
    explore_step();
    return moved;
}

/* Others may run before the kernel acts. */
int madvise(void *addr, size_t size, int advice) {
    enum { GUARD_INSTALL = 102 };
    static int (*real)(void *, size_t, int);
    if (!real) find_real(&real, "madvise");
    explore_step();
    if (!process.guards_nothing || advice != GUARD_INSTALL) return real(addr, size, advice);
    errno = EINVAL;
    return -1;
}

static long pass_on(long number, const long words[6]) {
    static long (*real)(long, ...);
    if (!real) find_real(&real, "syscall");
    return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

long syscall(long number, ...) {
    long words[6];
    va_list list;
    va_start(list, number);
    for (unsigned i = 0; i < 6; i++) words[i] = va_arg(list, long);
    va_end(list);
    switch (number) {
    case SYS_futex: /* the last one changes nothing, and says whether memory is there */
        if ((words[1] & FUTEX_OPERATIONS) == FUTEX_REQUEUE_NONE) return pass_on(number, words);
        if ((words[1] & FUTEX_OPERATIONS) == FUTEX_RAISE) return futex_wake((uint32_t *)words[0]);
        return futex_wait((uint32_t *)words[0], (uint32_t)words[2], (struct timespec *)words[3]);
    case SYS_gettid:
        return THREAD_IDS + (long)explore_thread();
    case SYS_getpid:
        return getpid();
    case SYS_process_vm_readv: /* of the process itself, whose number is another one outside the model */
        words[0] = pass_on(SYS_getpid, words);
        return pass_on(number, words);
    case SYS_sched_getaffinity:
        return affinity((unsigned long *)words[2]);
    case SYS_prctl:
        return process.names_no_mapping ? refuse(EINVAL) : 0;
    case SYS_openat:
        return refuse(ENOENT); /* no control groups */
    case SYS_getrandom:
        return give_random((uint64_t *)words[0]);
    case SYS_write:
        return write_text((int)words[0], (const char *)words[1], (size_t)words[2]);
    default:
        return pass_on(number, words);
    }
}

/* ---- The engine's start ---------------------------------------------------------------------- */

void process_option(const char *name, const char *value) { setenv(name, value, 1); }

extern void hak_start(void); /* the constructor by another name: an edit of mutants.py */

void process_start(void) { hak_start(); }
