/* os.h: the contract with the operating system. Only files of os/ make syscalls.
 *
 * Sizes of mappings are bytes and multiples of hak_os_page_size(); their addresses are page
 * aligned. No function here allocates, takes a lock of HAKMEM, or changes errno. */
#pragma once

#include "base/base.h"
#include "os/file.h"

/* Syscalls so far. */
typedef struct {
    _Atomic uint64_t mmap, munmap, madvise, mprotect, mremap; /* calls, also those that failed */
} hak_os_stats_t;                                             /* any thread writes and reads */

extern hak_os_stats_t hak_os_stats;

/* Bytes of a page, read from the kernel once. */
size_t hak_os_page_size(void);

/* Limit on the bytes of addresses that the process may have; SIZE_MAX where there is none. */
size_t hak_os_address_limit(void);

/* Milliseconds of a coarse monotonic clock. No syscall if the vDSO has the clock. If the system's clock goes back by
 * more than about a second, this one does not (os/clock.c). */
uint64_t hak_os_now_ms(void);

#if HAKMEM_DEBUG
/* Nanoseconds of the monotonic clock at its full resolution; never 0. No syscall if the vDSO has
 * it. */
uint64_t hak_os_now_ns(void);
#endif
/* Milliseconds of CPU time that the process has used. */
uint64_t hak_os_cpu_ms(void);

/* Sleeps for about `ms`; false when the system refuses. */
bool hak_os_sleep_ms(unsigned ms);

/* Reserves address space at an address that the system chooses, without access and without commit
 * charge. NULL when refused. */
void *hak_os_reserve(size_t size);

/* The result of a mapping at a fixed address. */
typedef enum {
    HAK_OS_MAPPED,
    HAK_OS_TAKEN,   /* another mapping lies there */
    HAK_OS_REFUSED, /* the system makes no mapping there now, for any other reason */
} hak_os_answer_t;

/* Maps fresh zeroed memory at an address, or reserves the range as hak_os_reserve does. Never
 * replaces another mapping. */
hak_os_answer_t hak_os_map_at(void *addr, size_t size);
hak_os_answer_t hak_os_reserve_at(void *addr, size_t size);

/* Makes a reserved range readable and writable; it reads as zero. */
bool hak_os_commit(void *addr, size_t size);

/* Gives the pages of a committed range back. True: the range reads as zero from now on. False: its
 * contents are unknown (the pages are locked, or the system only claims to have done it). The
 * caller owns the range and no longer needs its contents. */
bool hak_os_purge(void *addr, size_t size);

/* Zeroes whole pages of a committed range and brings few of them into memory: a stretch that is
 * mostly absent is purged instead. Absent pages may be swapped out, so they do not count as
 * zero. */
void hak_os_zero(void *addr, size_t size);

/* True when fewer than half of the pages of a committed range are in memory, of the first 1,024 if it is longer; false
 * when the system does not tell. */
bool hak_os_is_sparse(void *addr, size_t size);

/* Tells for each page of a committed range, in the lowest bit of a byte, whether it is in memory.
 * False when the system does not tell. */
bool hak_os_in_memory(void *addr, size_t size, unsigned char *pages);

/* Advises the kernel to use huge pages when the range is touched from now on, or none (`wish`
 * false). A hint: if the system has no huge pages, or none for this process, nothing changes. False
 * when the kernel has huge pages and refuses the advice, because the process would have too many
 * mappings. */
bool hak_os_wish_huge(void *addr, size_t size, bool wish);

/* Populates the pages of a committed range now, if the kernel can (Linux 5.14). */
bool hak_os_populate(void *addr, size_t size);

/* The first makes a committed range a guard: its pages go back, each access to it ends the process,
 * and the kernel's mapping stays whole (Linux 6.13). False when the kernel cannot: then no page is
 * a guard, but the range's contents may be lost. The second makes the range usable again; it reads
 * as zero. */
bool hak_os_guard(void *addr, size_t size);
bool hak_os_unguard(void *addr, size_t size);

/* Takes away all access to a committed range, until hak_os_commit; its contents stay. */
bool hak_os_protect(void *addr, size_t size);

/* A random number from the kernel's generator; if that is refused, from hak_os_start_random, the
 * clock and the caller's stack. */
uint64_t hak_os_random(void);

/* A number that differs from process to process: a hash of the random bytes that the kernel gave
 * the process at its start. libc takes its secrets from the same bytes; a few bits of the hash
 * reveal none of them. */
uint64_t hak_os_start_random(void);

/* Maps fresh zeroed memory, aligned to `align`. NULL when refused. */
void *hak_os_map(size_t size, size_t align);

/* False when the kernel refuses (too many mappings); then nothing has changed. */
bool hak_os_unmap(void *addr, size_t size);

/* Gives a mapping a name in /proc/PID/maps, if the kernel supports names. */
void hak_os_name(void *addr, size_t size, const char *name);

unsigned hak_os_process_id(void);
unsigned hak_os_thread_id(void); /* of the caller; never 0 */

/* A mapped memory file of fixed size that only its owner may open. It reads as zero at first, and
 * all its memory is allocated, so that writing to it cannot fail. */
typedef struct {
    void *addr; /* NULL: none */
    size_t size;
    int file;
    hak_os_file_id_t id; /* of that file: the program may close it, and its number be reused */
} hak_os_shared_t;

/* Makes one; the old contents of `shared` are ignored. The file appears in /proc/PID/fd as
 * "/memfd:" and the name. False when refused. */
bool hak_os_share(const char *name, size_t size, hak_os_shared_t *shared);

/* Unmaps it, and closes the file unless the program has closed it. */
void hak_os_unshare(hak_os_shared_t *shared);

/* True when libc says that the process has no second thread; false when it may have one. */
bool hak_os_is_single_threaded(void);

/* True when libc tells whether the process has a second thread. */
bool hak_os_knows_threads(void);

/* Installs `handler` for a signal that has its default action (TAKEN). Otherwise nothing changes. IGNORED: the signal
 * is ignored, as after nohup; OTHERS: the program has a handler; REFUSED: the system, or libc, allows no handler. */
typedef enum {
    HAK_OS_SIGNAL_TAKEN,
    HAK_OS_SIGNAL_IGNORED,
    HAK_OS_SIGNAL_OTHERS,
    HAK_OS_SIGNAL_REFUSED
} hak_os_signal_t;
hak_os_signal_t hak_os_on_signal(int number, void (*handler)(int));
void hak_os_leave_signal(int number); /* gives the signal its default action again */

/* True when the process calls `handler` at a signal. */
bool hak_os_handles(int number, void (*handler)(int));

/* A number that identifies the calling thread; not 0, and the same in the child of a fork. */
uintptr_t hak_os_thread(void);

/* The environment of the process; NULL before libc has set it up. *secure: the process runs with
 * elevated privileges and must ignore it. */
char **hak_os_environment(bool *secure);

/* Registers the process for the barrier, once; false when the system has none. The barrier itself:
 * when it returns, every other running thread of the process has executed a full fence; false when
 * refused. */
bool hak_os_register_barrier(void);
bool hak_os_barrier(void);

/* Sleeps while *word == value, but not much longer than `ms`; false when the system refuses. */
bool hak_os_futex_wait_for(_Atomic uint32_t *word, uint32_t value, unsigned ms);

/* The first sleeps while *word == value; the second wakes one or all sleepers. */
void hak_os_futex_wait(_Atomic uint32_t *word, uint32_t value);
void hak_os_futex_wake(_Atomic uint32_t *word, bool all);
