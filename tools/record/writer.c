/* writer.c: see writer.h. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum {
    PLAIN_SIZE = 64 << 10,   /* of a thread's buffer */
    PACKED_SIZE = 72 << 10,  /* zlib's bound for it is less */
    ARENA_SIZE = 512 << 10,  /* what zlib's deflate takes */
    ROUNDS = 3,              /* a key's destructor runs so often: after those of the program */
    TRIALS = 4000,           /* events recorded to learn what one costs */
    KERNEL_SIGNALS = 64 / 8, /* bytes of a set */
};
#define DEFAULT_LIMIT (1ull << 30)

typedef struct thread {
    struct thread *next_all, *next_idle; /* lock `list` */
    atomic_flag lock;                    /* the rest: its holder */
    uint32_t number, events;
    uint64_t stamp, address; /* of the last event */
    size_t length;
    unsigned char plain[PLAIN_SIZE];
} thread_t;

static atomic_flag list_lock = ATOMIC_FLAG_INIT, file_lock = ATOMIC_FLAG_INIT;
static thread_t *all, *idle;             /* lock `list` */
static uint32_t threads;                 /* lock `list` */
static atomic_uint_fast64_t stamps;      /* the next stamp; no order but its own */
static atomic_bool is_stopped;           /* no more events are taken */
static pthread_key_t key;                /* constant after begin */
static char base[PATH_MAX];              /* constant after begin */
static char path[PATH_MAX + 24];         /* changes in a child of fork; empty: nothing to do */
static pid_t process;                    /* whose file it is; a child of vfork is another */
static bool with_children;               /* constant after begin */
static uint64_t limit;                   /* constant after begin */
static double event_ns;                  /* constant after begin */
static uint64_t written, taken, flushes; /* lock `file`: bytes of the file, events in it */
static double flush_ns;                  /* lock `file` */
static bool is_full;                     /* lock `file` */
static int failure;                      /* lock `file`: errno of what could not be written, or 0 */
static z_stream packer;                  /* lock `file` */
static _Alignas(16) unsigned char arena[ARENA_SIZE], packed[PACKED_SIZE];
static size_t arena_used;

static __thread thread_t *mine __attribute__((tls_model("initial-exec")));
static __thread bool is_inside __attribute__((tls_model("initial-exec")));
static __thread int rounds_left __attribute__((tls_model("initial-exec"))); /* -1: it has ended */
static __thread uint32_t own_number __attribute__((tls_model("initial-exec"))); /* in the trace */

bool writer_is_inside(void) { return is_inside; }

static void lock(atomic_flag *flag) {
    while (atomic_flag_test_and_set_explicit(flag, memory_order_acquire)) sched_yield();
}

static void unlock(atomic_flag *flag) { atomic_flag_clear_explicit(flag, memory_order_release); }

static double now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *from_arena(void *unused, unsigned count, unsigned size) {
    (void)unused;
    void *block = arena + arena_used;
    arena_used += ((size_t)count * size + 15) & ~(size_t)15;
    return arena_used <= ARENA_SIZE ? block : NULL;
}

static void to_arena(void *unused, void *block) {
    (void)unused;
    (void)block;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* System calls themselves: libc's functions are cancellation points, and a thread that is cancelled in the midst of malloc
 * would keep the locks that it has here, and be inside for ever. */

static int open_file(const char *name, int flags) {
    return (int)syscall(SYS_openat, AT_FDCWD, name, flags | O_CLOEXEC, 0666);
}

static void close_file(int file) { syscall(SYS_close, file); }

/* One line on stderr. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
    char text[PATH_MAX + 512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 2) length = (int)sizeof text - 2;
    text[length] = '\n';
    if (syscall(SYS_write, STDERR_FILENO, text, (size_t)length + 1) < 0) return;
}

/* A full disk takes a part of it, and refuses the rest by an error. */
static int write_part(int file, const unsigned char *from, size_t size) {
    while (size) {
        const long done = syscall(SYS_write, file, from, size);
        if (done < 0 && errno != EINTR) return errno;
        if (done > 0) from += done, size -= (size_t)done;
    }
    return 0;
}

/* The same. At the limit of files' sizes the signal that would end the program is taken away, unless it was there. */
static bool write_whole(int file, const unsigned char *from, size_t size) {
    sigset_t limit_signal, others, pending;
    const struct timespec at_once = {0, 0};
    sigemptyset(&limit_signal);
    sigaddset(&limit_signal, SIGXFSZ);
    sigemptyset(&pending);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &limit_signal, &others);
    const int error = write_part(file, from, size);
    if (error == EFBIG && !sigismember(&pending, SIGXFSZ))
        syscall(SYS_rt_sigtimedwait, &limit_signal, NULL, &at_once, KERNEL_SIGNALS);
    pthread_sigmask(SIG_SETMASK, &others, NULL);
    errno = error;
    return error == 0;
}

/* Appends to the file; `file` is held. */
static void append(const void *first, size_t first_size, const void *second, size_t second_size) {
    int file = open_file(path, O_WRONLY | O_APPEND);
    if (file < 0 || !write_whole(file, first, first_size) ||
        !write_whole(file, second, second_size))
        failure = errno;
    if (file >= 0) close_file(file);
    written += first_size + second_size;
}

/* Compresses and writes a chunk; `file` is held. */
static void write_chunk(uint32_t number, uint32_t events, const void *plain, size_t length) {
    deflateReset(&packer);
    packer.next_in = (unsigned char *)(uintptr_t)plain;
    packer.avail_in = (unsigned)length;
    packer.next_out = packed;
    packer.avail_out = PACKED_SIZE;
    if (deflate(&packer, Z_FINISH) != Z_STREAM_END) {
        failure = EIO;
        return;
    }
    trace_chunk_t chunk = {number, events, (uint32_t)length, PACKED_SIZE - packer.avail_out};
    append(&chunk, sizeof chunk, packed, chunk.packed);
}

/* Empties the buffer; its lock is held. */
static void flush(thread_t *thread) {
    double began = now_ns(CLOCK_THREAD_CPUTIME_ID);
    lock(&file_lock);
    if (thread->events && !is_full && !failure) {
        write_chunk(thread->number, thread->events, thread->plain, thread->length);
        taken += thread->events;
        flushes++;
    }
    if (written >= limit || failure) {
        is_full = written >= limit;
        atomic_store_explicit(&is_stopped, true, memory_order_relaxed);
    }
    flush_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    unlock(&file_lock);
    thread->events = 0;
    thread->length = 0;
    thread->stamp = thread->address = 0;
}

static unsigned char *put(unsigned char *at, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    return at;
}

/* Writes one event into the buffer; its lock is held. */
static void encode(thread_t *thread, trace_kind_t kind, uint64_t address, size_t size,
                   unsigned align_log2) {
    uint64_t stamp = atomic_fetch_add_explicit(&stamps, 1, memory_order_relaxed);
    uint64_t step = address - thread->address;
    unsigned char *at = thread->plain + thread->length;
    *at++ = (unsigned char)kind;
    at = put(at, stamp - thread->stamp);
    at = put(at, step << 1 ^ (uint64_t)((int64_t)step >> 63));
    if (kind == TRACE_MALLOC || kind == TRACE_CALLOC || kind == TRACE_ALIGNED || kind == TRACE_GIVE)
        at = put(at, size);
    if (kind == TRACE_ALIGNED) at = put(at, align_log2);
    thread->stamp = stamp;
    thread->address = address;
    thread->length = (size_t)(at - thread->plain);
    thread->events++;
}

/* The thread's buffer: an idle one, else a new one. NULL when there is no memory. */
static thread_t *attach(void) {
    const bool has_ended = rounds_left < 0;
    lock(&list_lock);
    thread_t *thread = idle;
    if (thread) {
        idle = thread->next_idle;
    } else {
        void *memory =
            mmap(NULL, sizeof *thread, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory != MAP_FAILED) {
            thread = memory;
            thread->next_all = all;
            all = thread;
        }
    }
    if (thread) thread->number = has_ended ? own_number : threads++;
    unlock(&list_lock);
    mine = thread;
    if (!thread || has_ended) return thread;
    own_number = thread->number;
    rounds_left = ROUNDS;
    pthread_setspecific(key, thread);
    return thread;
}

/* What the thread has is written, its buffer serves the next one. */
static void leave(thread_t *thread) {
    lock(&thread->lock);
    flush(thread);
    unlock(&thread->lock);
    mine = NULL;
    lock(&list_lock);
    thread->next_idle = idle;
    idle = thread;
    unlock(&list_lock);
}

/* A thread ends. libc frees some of its blocks behind this, and nothing tells the end of that: each such event takes a
 * buffer and leaves it. */
static void detach(void *value) {
    thread_t *thread = value;
    is_inside = true;
    if (rounds_left-- > 0)
        pthread_setspecific(key, thread);
    else
        leave(thread);
    is_inside = false;
}

void writer_event(trace_kind_t kind, const void *address, size_t size, unsigned align_log2) {
    if (atomic_load_explicit(&is_stopped, memory_order_relaxed)) return;
    is_inside = true;
    thread_t *thread = mine ? mine : attach();
    if (thread) {
        lock(&thread->lock);
        encode(thread, kind, (uintptr_t)address, size, align_log2);
        if (thread->length > PLAIN_SIZE - TRACE_EVENT_MOST) flush(thread);
        unlock(&thread->lock);
        if (rounds_left < 0) leave(thread);
    }
    is_inside = false;
}

/* What one event costs: some are recorded and thrown away. */
static void calibrate(void) {
    double began = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < TRIALS; i++) {
        writer_event(TRACE_MALLOC, (void *)(uintptr_t)(i * 64), i, 0);
        if (mine && mine->length > PLAIN_SIZE / 2) mine->length = 0;
    }
    event_ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - began) / TRIALS;
    if (mine) mine->length = mine->events = 0, mine->stamp = mine->address = 0;
    atomic_store(&stamps, 0);
}

/* Creates the file that `path` names. */
static void create(void) {
    int file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
    bool is_good = file >= 0 && write_whole(file, (const void *)TRACE_MAGIC, TRACE_MAGIC_SIZE);
    failure = is_good ? 0 : errno;
    if (file >= 0) close_file(file);
    written = TRACE_MAGIC_SIZE;
    taken = flushes = 0;
    flush_ns = 0;
    is_full = false;
    if (failure) say("hakmem record: cannot write %s", path);
    atomic_store(&is_stopped, failure != 0);
}

static void before_fork(void) {
    is_inside = true;
    lock(&list_lock);
    lock(&file_lock);
}

static void in_parent(void) {
    unlock(&file_lock);
    unlock(&list_lock);
    is_inside = false;
}

/* The child has this thread only, and a file of its own. Buffers of the others become idle. */
static void in_child(void) {
    idle = NULL;
    for (thread_t *thread = all; thread; thread = thread->next_all) {
        atomic_flag_clear(&thread->lock);
        thread->events = 0;
        thread->length = 0;
        thread->stamp = thread->address = 0;
        if (thread == mine) continue;
        thread->next_idle = idle;
        idle = thread;
    }
    threads = mine ? 1 : 0;
    own_number = 0;
    if (mine) mine->number = 0;
    atomic_store(&stamps, 0);
    process = getpid();
    if (*path && with_children) {
        snprintf(path, sizeof path, "%s.%ld", base, (long)process);
        create();
    } else {
        *path = 0;
        atomic_store(&is_stopped, true);
    }
    in_parent();
}

/* Decides the file of this process; false when it is not recorded. */
static bool choose_file(void) {
    const char *name = getenv(TRACE_FILE), *owner = getenv(TRACE_OWNER);
    with_children = getenv(TRACE_CHILDREN) != NULL;
    process = getpid();
    if (!name || !*name) return false;
    bool is_owner = !owner || strtol(owner, NULL, 10) == (long)process;
    if (!is_owner && !with_children) return false;
    size_t length = strlen(name) + 1;
    if (length > sizeof base) {
        say("hakmem record: the path of the trace is too long");
        return false;
    }
    memcpy(base, name, length);
    if (is_owner)
        memcpy(path, name, length);
    else
        snprintf(path, sizeof path, "%s.%ld", base, (long)process);
    return true;
}

void writer_begin(void) {
    const char *most = getenv(TRACE_LIMIT);
    atomic_store(&is_stopped, true);
    if (!choose_file()) return;
    limit = most && *most ? strtoull(most, NULL, 10) : DEFAULT_LIMIT;
    packer.zalloc = from_arena;
    packer.zfree = to_arena;
    if (deflateInit(&packer, Z_BEST_SPEED) != Z_OK) return;
    if (pthread_key_create(&key, detach) != 0) return;
    pthread_atfork(before_fork, in_parent, in_child);
    atomic_store(&is_stopped, false);
    calibrate();
    create();
}

/* The last chunk. `file` is held. */
static void write_end(void) {
    static char text[4096];
    int length =
        snprintf(text, sizeof text, "events=%llu\nthreads=%u\nfull=%d\ncost_ns=%.0f\n",
                 (unsigned long long)taken, threads, is_full, (double)taken * event_ns + flush_ns);
    int file = open_file("/proc/self/status", O_RDONLY);
    if (file >= 0) { /* its lines "VmHWM:\t  1234 kB" are names and values as well */
        const long more = syscall(SYS_read, file, text + length, sizeof text - (size_t)length);
        if (more > 0) length += (int)more;
        close_file(file);
    }
    write_chunk(TRACE_END, 0, text, (size_t)length);
}

void writer_end(void) {
    if (is_inside || !*path || getpid() != process) return;
    is_inside = true;
    bool was_stopped = atomic_exchange(&is_stopped, true);
    lock(&list_lock);
    for (thread_t *thread = all; thread && !was_stopped; thread = thread->next_all) {
        lock(&thread->lock);
        flush(thread);
        unlock(&thread->lock);
    }
    lock(&file_lock);
    if (!failure) write_end();
    double cost = (double)taken * event_ns + flush_ns, whole = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    bool is_small = written < 1 << 20;
    say("hakmem record: %llu events of %u thread%s in %s, %.1f %s%s%s%s; recording took about "
        "%.2f s, %.0f %% of the CPU time",
        (unsigned long long)taken, threads, threads == 1 ? "" : "s", path,
        (double)written / (is_small ? 1 << 10 : 1 << 20), is_small ? "KiB" : "MiB",
        failure   ? " (the rest is missing: "
        : is_full ? " (the limit: the rest is missing)"
                  : "",
        failure ? strerror(failure) : "", failure ? ")" : "", cost / 1e9,
        whole > 0 ? 100 * cost / whole : 0.0);
    *path = 0;
    unlock(&file_lock);
    unlock(&list_lock);
    is_inside = false;
}
