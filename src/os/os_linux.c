/* os_linux.c: the contract of os.h on Linux: memory, files, time, futexes. */
#include "os/os.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "base/probe.h"
#include "os/file.h"

/* Operations of futex(2); a libc without the kernel's headers has no names for them. */
enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129 };

/* Of membarrier(2), from Linux 4.14 on: PRIVATE_EXPEDITED, and its registration. */
enum { BARRIER = 8, REGISTER_BARRIER = 16 };

/* Of madvise(2); a libc may be older than the kernel. */
enum { HUGE_PAGES = 14, NO_HUGE_PAGES = 15, POPULATE_WRITE = 23 };

/* The same, from Linux 6.13 on. */
enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };

/* Of getrandom(2). */
enum { NONBLOCK = 1 };

/* Of mmap(2), from Linux 4.17 on. */
enum { FIXED_NOREPLACE = 0x100000 };

/* Of prctl(2), from Linux 5.17 on. */
enum { SET_VMA = 0x53564d41, SET_VMA_ANON_NAME = 0 };

/* Of memfd_create(2) and fcntl(2); the first one is from Linux 6.3 on. */
enum { NOEXEC_SEAL = 8, CLOSE_ON_EXEC = 1, ALLOW_SEALING = 2 };
enum { ADD_SEALS = 1033, SEAL_SEAL = 1, SEAL_SHRINK = 2, SEAL_GROW = 4 };

hak_os_stats_t hak_os_stats HAK_OWN_LINE;

static void count_call(_Atomic uint64_t *calls) { hak_add_relaxed(calls, 1); }

HAK_COMMON size_t hak_os_page_size(void) {
    static _Atomic size_t cached HAK_READ_OFTEN;
    size_t size = hak_load_relaxed(&cached);
    if (HAK_UNLIKELY(size == 0)) {
        size = getauxval(AT_PAGESZ);
        if (!hak_is_pow2(size)) size = 4096;
        hak_store_relaxed(&cached, size);
    }
    return size;
}

bool hak_os_futex_wait_for(_Atomic uint32_t *word, uint32_t value, unsigned ms) {
    HAK_KEEP_ERRNO();
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    errno = 0;
    syscall(SYS_futex, word, WAIT_PRIVATE, value, &time, NULL, 0);
    return errno == 0 || errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR;
}

bool hak_os_sleep_ms(unsigned ms) {
    _Atomic uint32_t nobody = 0;
    return hak_os_futex_wait_for(&nobody, 0, ms);
}

static void *map_near(void *addr, size_t size, int prot, int flags) {
    count_call(&hak_os_stats.mmap);
    return mmap(addr, size, prot, flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *map(size_t size, int prot, int flags) { return map_near(NULL, size, prot, flags); }

static HAK_COMMON bool unmap(void *addr, size_t size) {
    count_call(&hak_os_stats.munmap);
    return munmap(addr, size) == 0;
}

/* Maps more than `size` bytes, and unmaps both ends. If the process has as many mappings as it may have, the kernel
 * refuses to cut an end off where it has merged the new mapping with its neighbour. Even then the new mapping may go
 * back as a whole, and the wanted part is mapped again at its address. If the kernel refuses that, too, because there
 * are neighbours on both sides, the ends stay mapped: they are addresses without pages. */
static HAK_BEHIND void *map_wide(size_t size, size_t align, int prot, int flags) {
    const size_t wide = size + align - hak_os_page_size();
    char *addr = wide < size ? MAP_FAILED : map(wide, prot, flags);
    if (addr == MAP_FAILED) return MAP_FAILED;
    char *const start = (char *)hak_align_up((uintptr_t)addr, align), *end = addr + wide;
    if (start + size < end && unmap(start + size, (size_t)(end - start - size))) end = start + size;
    if (start > addr && unmap(addr, (size_t)(start - addr))) addr = start;
    if (HAK_LIKELY((size_t)(end - addr) == size) || !unmap(addr, (size_t)(end - addr)))
        return start;
    addr = map_near(start, size, prot, flags | FIXED_NOREPLACE);
    if (addr == start || addr == MAP_FAILED) return addr;
    unmap(addr, size);
    return MAP_FAILED;
}

/* Maps `size` bytes aligned to `align`: once more if the first mapping happens to be misaligned. */
static HAK_COMMON void *map_aligned(size_t size, size_t align, int prot, int flags) {
    HAK_KEEP_ERRNO();
    char *addr = map(size, prot, flags);
    if (addr != MAP_FAILED && ((uintptr_t)addr & (align - 1)) != 0) {
        unmap(addr, size);
        addr = map_wide(size, align, prot, flags);
    }
    return addr == MAP_FAILED ? NULL : addr;
}

void *hak_os_reserve(size_t size) {
    return map_aligned(size, hak_os_page_size(), PROT_NONE, MAP_NORESERVE);
}

/* Kernels before Linux 4.17, and emulators, treat the address as a hint; a mapping elsewhere is
 * useless and unmapped again. */
static HAK_COMMON hak_os_answer_t map_at(void *addr, size_t size, int prot) {
    HAK_KEEP_ERRNO();
    void *got = map_near(addr, size, prot, MAP_NORESERVE | FIXED_NOREPLACE);
    if (got == addr) return HAK_OS_MAPPED;
    if (got == MAP_FAILED) return errno == EEXIST ? HAK_OS_TAKEN : HAK_OS_REFUSED;
    unmap(got, size);
    return HAK_OS_TAKEN;
}

HAK_COMMON hak_os_answer_t hak_os_map_at(void *addr, size_t size) {
    return map_at(addr, size, PROT_READ | PROT_WRITE);
}

HAK_COMMON hak_os_answer_t hak_os_reserve_at(void *addr, size_t size) {
    return map_at(addr, size, PROT_NONE);
}

static HAK_COMMON bool protect(void *addr, size_t size, int prot) {
    HAK_KEEP_ERRNO();
    count_call(&hak_os_stats.mprotect);
    return mprotect(addr, size, prot) == 0;
}

HAK_COMMON bool hak_os_commit(void *addr, size_t size) {
    return protect(addr, size, PROT_READ | PROT_WRITE);
}

static bool advise(void *addr, size_t size, int advice) {
    HAK_KEEP_ERRNO();
    count_call(&hak_os_stats.madvise);
    return madvise(addr, size, advice) == 0;
}

/* Whether the kernel purges. */
enum { UNKNOWN, NO, YES };

/* Tests a purge with a page of HAKMEM's own, to which no other code can write; UNKNOWN without memory for one. */
static HAK_BEHIND int purge_own_page(void) {
    HAK_KEEP_ERRNO();
    volatile uint64_t *word = map(hak_os_page_size(), PROT_READ | PROT_WRITE, 0);
    if (word == MAP_FAILED) return UNKNOWN;
    *word = UINT64_MAX;
    bool is_gone = advise((void *)(uintptr_t)word, hak_os_page_size(), MADV_DONTNEED) && *word == 0;
    unmap((void *)(uintptr_t)word, hak_os_page_size());
    return is_gone ? YES : NO;
}

/* Old versions of qemu-user report success and do nothing. So the first purge tests the kernel: a
 * word of the range, whose contents are no longer needed, must become zero. If it does not, the
 * program may have written to the block after it freed it; then a test with a page of HAKMEM's own
 * decides. If the word was not purged, its old value is restored, since the hardened path relies on
 * free blocks being zero. */
HAK_NEXT bool hak_os_purge(void *addr, size_t size) {
    static _Atomic int works;
    volatile uint64_t *word = addr;
    const int known = hak_load_relaxed(&works);
    if (HAK_UNLIKELY(known == NO)) return false;
    const uint64_t old = HAK_UNLIKELY(known == UNKNOWN) ? *word : 0;
    if (HAK_UNLIKELY(known == UNKNOWN)) *word = UINT64_MAX;
    if (!advise(addr, size, MADV_DONTNEED)) {
        if (HAK_UNLIKELY(known == UNKNOWN)) *word = old;
        return false;
    }
    HAK_PROBE(purge, addr, size);
    if (HAK_UNLIKELY(known == UNKNOWN)) {
        hak_store_relaxed(&works, *word == 0 ? YES : purge_own_page());
        if (*word == UINT64_MAX) *word = old;
        advise(addr, size, MADV_DONTNEED); /* again, since the test has brought a page back */
    }
    return hak_load_relaxed(&works) == YES;
}

HAK_NEXT bool hak_os_in_memory(void *addr, size_t size, unsigned char *pages) {
    HAK_KEEP_ERRNO();
    return mincore(addr, size, pages) == 0;
}

enum { SPARSE_PAGES = 1024 }; /* that one look takes in */

HAK_NEXT bool hak_os_is_sparse(void *addr, size_t size) {
    unsigned char in_memory[SPARSE_PAGES];
    size_t pages = hak_min(size / hak_os_page_size(), SPARSE_PAGES), present = 0;
    if (!hak_os_in_memory(addr, pages * hak_os_page_size(), in_memory)) return false;
    for (size_t i = 0; i < pages; i++) present += in_memory[i] & 1u;
    return present < pages / 2;
}

HAK_NEXT void hak_os_zero(void *addr, size_t size) {
    size_t page = hak_os_page_size(), piece;
    for (char *at = addr, *end = at + size; at < end; at += piece) {
        piece = hak_min((size_t)(end - at), SPARSE_PAGES * page);
        if (!hak_os_is_sparse(at, piece) || !hak_os_purge(at, piece)) memset(at, 0, piece);
    }
}

HAK_OPTIONAL bool hak_os_guard(void *addr, size_t size) {
    static _Atomic bool unknown; /* an older kernel does not know the call and is not asked again */
    if (hak_load_relaxed(&unknown)) return false;
    HAK_KEEP_ERRNO();
    errno = 0;
    count_call(&hak_os_stats.madvise);
    bool done = madvise(addr, size, GUARD_INSTALL) == 0;
    /* Locked pages give the same error; then a range of no bytes succeeds, and later ranges are tried. */
    if (!done && errno == EINVAL && madvise(addr, 0, GUARD_INSTALL) != 0)
        hak_store_relaxed(&unknown, true);
    /* Of several pages the first ones may be guards by now. */
    if (!done && size > hak_os_page_size() && !hak_load_relaxed(&unknown))
        advise(addr, size, GUARD_REMOVE);
    return done;
}

HAK_BEHIND bool hak_os_unguard(void *addr, size_t size) { return advise(addr, size, GUARD_REMOVE); }

HAK_BEHIND bool hak_os_protect(void *addr, size_t size) { return protect(addr, size, PROT_NONE); }

HAK_COMMON uint64_t hak_os_start_random(void) {
    enum { RANDOM_BYTES = 16 };
    const unsigned char *bytes = (const unsigned char *)getauxval(AT_RANDOM);
    uint64_t mixed = 0x9E3779B97F4A7C15u;
    for (unsigned i = 0; bytes && i < RANDOM_BYTES; i++) {
        mixed = (mixed ^ bytes[i]) * 0xD6E8FEB86659FD93u;
        mixed ^= mixed >> 32;
    }
    return mixed;
}

HAK_OPTIONAL uint64_t hak_os_random(void) {
    HAK_KEEP_ERRNO();
    uint64_t number;
    struct timespec now = {0, 0};
    if (syscall(SYS_getrandom, &number, sizeof number, NONBLOCK) == (long)sizeof number)
        return number;
    clock_gettime(CLOCK_MONOTONIC, &now);
    number = hak_os_start_random() ^ (uint64_t)now.tv_nsec << 32 ^ (uintptr_t)&number;
    number = (number ^ number >> 32) * 0xD6E8FEB86659FD93u;
    return (number ^ number >> 32) * 0x9E3779B97F4A7C15u;
}

bool hak_os_populate(void *addr, size_t size) { return advise(addr, size, POPULATE_WRITE); }

HAK_NEXT bool hak_os_wish_huge(void *addr, size_t size, bool wish) {
    HAK_KEEP_ERRNO();
    count_call(&hak_os_stats.madvise);
    return madvise(addr, size, wish ? HUGE_PAGES : NO_HUGE_PAGES) == 0 || errno == EINVAL;
}

HAK_COMMON void *hak_os_map(size_t size, size_t align) {
    return map_aligned(size, align, PROT_READ | PROT_WRITE, 0);
}

HAK_COMMON bool hak_os_unmap(void *addr, size_t size) {
    HAK_KEEP_ERRNO();
    return unmap(addr, size);
}

HAK_COMMON void hak_os_name(void *addr, size_t size, const char *name) {
    static _Atomic bool refused; /* by an older kernel, which is not asked again */
    if (hak_load_relaxed(&refused)) return;
    HAK_KEEP_ERRNO();
    /* Not by libc's prctl(), which lies far from its other syscalls: if they do not share 64 KiB,
     * its page would bring 15 more pages of libc into memory. */
    if (syscall(SYS_prctl, SET_VMA, SET_VMA_ANON_NAME, addr, size, name) != 0)
        hak_store_relaxed(&refused, true);
}

/* A filter of system calls may refuse even getpid, gettid and prlimit: errno stays. */
unsigned hak_os_process_id(void) {
    HAK_KEEP_ERRNO();
    return (unsigned)syscall(SYS_getpid);
}
unsigned hak_os_thread_id(void) {
    HAK_KEEP_ERRNO();
    return (unsigned)syscall(SYS_gettid);
}

static HAK_NEXT bool read_limit(int which, struct rlimit *limit) {
    return syscall(SYS_prlimit64, 0, which, NULL, limit) == 0;
}

HAK_NEXT size_t hak_os_address_limit(void) {
    HAK_KEEP_ERRNO();
    struct rlimit limit;
    return read_limit(RLIMIT_AS, &limit) ? (size_t)limit.rlim_cur : SIZE_MAX;
}

/* False above the limit on file sizes, where a signal would end the program. */
static bool may_make_file(size_t size) {
    struct rlimit limit;
    return read_limit(RLIMIT_FSIZE, &limit) && limit.rlim_cur >= size;
}

static int memory_file(const char *name, size_t size) {
    if (!may_make_file(size)) return -1;
    int flags = CLOSE_ON_EXEC | ALLOW_SEALING;
    int file = (int)syscall(SYS_memfd_create, name, flags | NOEXEC_SEAL);
    if (file < 0) file = (int)syscall(SYS_memfd_create, name, flags);
    if (file < 0) return -1;
    int moved = fcntl(file, F_DUPFD_CLOEXEC, HAK_OS_OWN_FILES);
    if (moved >= 0) {
        syscall(SYS_close, file);
        file = moved;
    }
    if (syscall(SYS_fchmod, file, 0600) == 0 &&
        syscall(SYS_fallocate, file, 0, (off_t)0, (off_t)size) == 0) {
        fcntl(file, ADD_SEALS, SEAL_SHRINK | SEAL_GROW | SEAL_SEAL);
        return file;
    }
    syscall(SYS_close, file);
    return -1;
}

HAK_BEHIND bool hak_os_share(const char *name, size_t size, hak_os_shared_t *shared) {
    HAK_KEEP_ERRNO();
    int file = memory_file(name, size);
    *shared = (hak_os_shared_t){.addr = NULL};
    if (file < 0) return false;
    count_call(&hak_os_stats.mmap);
    void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (addr != MAP_FAILED)
        *shared = (hak_os_shared_t){addr, size, file, hak_os_file_id(file)};
    else
        syscall(SYS_close, file);
    return shared->addr;
}

void hak_os_unshare(hak_os_shared_t *shared) {
    HAK_KEEP_ERRNO();
    if (!shared->addr) return;
    unmap(shared->addr, shared->size);
    if (hak_os_is_file(shared->file, &shared->id)) syscall(SYS_close, shared->file);
    shared->addr = NULL;
}

uintptr_t hak_os_thread(void) { return (uintptr_t)&errno; }

/* This library is initialised before libc, when `environ` is not set up yet. glibc's loader passes
 * the environment to every constructor. musl's loader does not, but it also does not initialise
 * this library before libc. */
#ifdef __GLIBC__
static char **given_environment; /* constant from before the other constructors */

__attribute__((constructor(101))) static void take_environment(int count, char **arguments,
                                                               char **environment) {
    (void)count, (void)arguments;
    given_environment = environment;
}
#else
static char **const given_environment = NULL;
#endif

HAK_COMMON char **hak_os_environment(bool *secure) {
    *secure = getauxval(AT_SECURE) != 0;
    return environ ? environ : given_environment;
}

/* glibc's flag for "no second thread"; other libcs do not have it. */
extern char __libc_single_threaded __attribute__((weak));

bool hak_os_knows_threads(void) { return &__libc_single_threaded != NULL; }

bool hak_os_is_single_threaded(void) { return hak_os_knows_threads() && __libc_single_threaded; }

void hak_os_futex_wait(_Atomic uint32_t *word, uint32_t value) {
    HAK_KEEP_ERRNO();
    syscall(SYS_futex, word, WAIT_PRIVATE, value, NULL, NULL, 0);
}

void hak_os_futex_wake(_Atomic uint32_t *word, bool all) {
    HAK_KEEP_ERRNO();
    syscall(SYS_futex, word, WAKE_PRIVATE, all ? INT_MAX : 1, NULL, NULL, 0);
}

static bool membarrier(int command) {
    HAK_KEEP_ERRNO();
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

bool hak_os_register_barrier(void) { return membarrier(REGISTER_BARRIER); }
bool hak_os_barrier(void) { return membarrier(BARRIER); }

HAK_BEHIND hak_os_signal_t hak_os_on_signal(int number, void (*handler)(int)) {
    struct sigaction before, action = {.sa_flags = SA_RESTART};
    HAK_KEEP_ERRNO();
    action.sa_handler = handler;
    if (sigaction(number, NULL, &before) != 0) return HAK_OS_SIGNAL_REFUSED;
    if (before.sa_handler == SIG_IGN) return HAK_OS_SIGNAL_IGNORED;
    if (before.sa_handler != SIG_DFL) return HAK_OS_SIGNAL_OTHERS;
    return sigaction(number, &action, NULL) == 0 ? HAK_OS_SIGNAL_TAKEN : HAK_OS_SIGNAL_REFUSED;
}

HAK_BEHIND void hak_os_leave_signal(int number) {
    const struct sigaction action = {.sa_handler = SIG_DFL};
    HAK_KEEP_ERRNO();
    sigaction(number, &action, NULL);
}

HAK_BEHIND bool hak_os_handles(int number, void (*handler)(int)) {
    struct sigaction now;
    HAK_KEEP_ERRNO();
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == handler;
}
