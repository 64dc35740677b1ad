/* os.h: the contract with the operating system. No other file makes a syscall.
 *
 * Sizes are bytes and multiples of os_page_size(); addresses are page aligned.
 * Nothing here allocates, takes one of our locks, or changes errno. */
#ifndef HAK_OS_H
#define HAK_OS_H

#include "base/base.h"

/* What was asked of the system so far. */
typedef struct {
    _Atomic uint64_t mmap, munmap, madvise, mprotect, mremap; /* calls, refused ones too */
} hak_os_stats_t;                                             /* written and read by anyone */

extern hak_os_stats_t hak_os_stats;

/* Bytes of a page, read from the kernel once. */
size_t hak_os_page_size(void);

/* CPUs this process may use, at least 1, as they were found last: at the first question those it
 * may run on. */
unsigned hak_os_cpu_count(void);

/* Looks again, also for the quotas of its control groups: some syscalls, so now and then only.
 * True when the number has changed. */
bool hak_os_cpu_look(void);

/* CPUs that the quotas of control groups allow: of those that the file `groups` names, as
 * /proc/self/cgroup does, with folders below `root`. 0 for no limit. */
unsigned hak_os_cpu_quota(const char *groups, const char *root);

/* Which of these CPUs the caller runs on, counted from 0; another number where it may run on
 * others by now. A syscall where libc has neither rseq nor a vDSO for it: musl on AArch64. */
unsigned hak_os_this_cpu(void);

/* Milliseconds of a monotonic clock; coarse, and no syscall where the vDSO has it. */
uint64_t hak_os_now_ms(void);

#if HAKMEM_DEBUG
/* Nanoseconds of a monotonic clock, as fine as it is; never 0. No syscall where the vDSO has it. */
uint64_t hak_os_now_ns(void);
#endif
/* Milliseconds of CPU time that the process has used. */
uint64_t hak_os_cpu_ms(void);

/* Sleeps for about `ms`; false when the system refuses to. */
bool hak_os_sleep_ms(unsigned ms);

/* Reserves address space, wherever the system likes, without access and without commit charge. NULL
 * when refused. */
void *hak_os_reserve(size_t size);

/* What became of a mapping at a place of our choice. */
typedef enum {
    HAK_OS_MAPPED,
    HAK_OS_TAKEN,   /* somebody else's mapping lies there, or nothing may */
    HAK_OS_REFUSED, /* the system has no more for this process now */
} hak_os_answer_t;

/* Maps fresh zeroed memory there, or reserves the range, as above, and leaves others' mappings
 * alone. */
hak_os_answer_t hak_os_map_at(void *addr, size_t size);
hak_os_answer_t hak_os_reserve_at(void *addr, size_t size);

/* Makes a reserved range readable, as zeros, still without commit charge. */
bool hak_os_make_readable(void *addr, size_t size);

/* Makes a reserved range readable and writable; it reads as zero. */
bool hak_os_commit(void *addr, size_t size);

/* Gives the pages of a committed range back. True: it reads as zero from now on.
 * False: nothing is known of the contents (locked pages, or a system that only says that it
 * did). The caller alone has the range, and needs nothing that is in it. */
bool hak_os_purge(void *addr, size_t size);

/* Asks for huge pages in a range as it is touched from now on, or no longer. A wish: where
 * the system has none, or not for this process, nothing changes. */
void hak_os_wish_huge(void *addr, size_t size, bool wish);

/* Makes the pages of a committed range now, where the kernel can (Linux 5.14). */
bool hak_os_populate(void *addr, size_t size);

/* Maps fresh zeroed memory, aligned to `align`. NULL when refused. */
void *hak_os_map(size_t size, size_t align);

/* False when the kernel refuses (too many mappings): then all is as it was. */
bool hak_os_unmap(void *addr, size_t size);

/* Gives a mapping a name in /proc/PID/maps, where the kernel has names. */
void hak_os_name(void *addr, size_t size, const char *name);

/* Resizes a mapping of hak_os_map, moving its pages but copying none when
 * `may_move`. NULL when refused; then the old mapping stands as it was. */
void *hak_os_remap(void *addr, size_t old_size, size_t new_size, bool may_move);

/* Moves the contents of `size` bytes, of one mapping or several, over those at `to`, a mapping
 * of the caller's that nobody has touched; the old range is unmapped. False: the old range and its
 * contents are as they were, and `to` is the caller's no longer. */
bool hak_os_move(void *addr, size_t size, void *to);

/* True when the kernel moves what hak_os_move needs (Linux 5.7); tried once. */
bool hak_os_moves_several(void);

/* Descriptors of our own begin here where they can: out of the way of the program's. */
enum { HAK_OS_OWN_FILES = 100 };

/* What tells a file from every other one, also from a later one with the same number. */
typedef struct {
    uint64_t device, inode; /* inode 0: no file */
    uint64_t born_ns;       /* 0 where the file system does not say */
} hak_os_file_id_t;

/* What a descriptor stands for; no file when it is not open. */
hak_os_file_id_t hak_os_file_id(int file);

/* True when a descriptor is open and stands for that file. */
bool hak_os_is_file(int file, const hak_os_file_id_t *id);

/* True when a descriptor is that of a pipe or a terminal, and not close-on-exec. */
bool hak_os_is_listener(int file);

/* Writes all of `text` to stderr, as far as stderr takes it. Nothing is written when descriptor 2
 * is close-on-exec: that is a file which got the number because stderr was closed. */
void hak_os_write_stderr(const char *text, size_t size);

/* Writes all of `text` to a file; false, with the error's number in *error, when it takes no
 * more. A file that cannot take it now is waited for, a second at most for each part, if it is
 * nonblocking. A pipe that nobody reads is the error EPIPE; no signal comes of it. */
bool hak_os_write(int file, const char *text, size_t size, int *error);

/* Makes or empties a file that only its owner may read and write; or opens a terminal, another
 * character device, or a FIFO that somebody reads. -1 with *error: ELOOP is a link in a folder
 * that every user may write to, ENXIO a FIFO without a reader. Never waits; `path` is as before. */
int hak_os_create(char *path, int *error);
void hak_os_close(int file);

/* A second descriptor of stderr, out of the way of the program's own; -1 without. */
int hak_os_copy_stderr(void);

/* The file that an address is mapped from: the last part of its name, cut to `size`
 * bytes with its 0, and in *offset where the address lies in it as addr2line(1) counts.
 * False when it lies in no file, or the system does not say. */
bool hak_os_module_of(const void *addr, char *name, size_t size, uintptr_t *offset);

unsigned hak_os_process_id(void);
unsigned hak_os_thread_id(void); /* of the caller; never 0 */

/* A memory file of fixed size that only its owner may open, mapped, zero, and with all of
 * its memory: writing to it cannot fail. */
typedef struct {
    void *addr; /* NULL: none */
    size_t size;
    int file;
    hak_os_file_id_t id; /* of that file: the program may have closed it */
} hak_os_shared_t;

/* Makes one, and forgets what `shared` was; it shows in /proc/PID/fd as "/memfd:" and the name.
 * False when refused. */
bool hak_os_share(const char *name, size_t size, hak_os_shared_t *shared);

/* Unmaps it, and closes the file unless the program has done so. */
void hak_os_unshare(hak_os_shared_t *shared);

/* True when libc says that the process has no second thread; false when it may have one. */
bool hak_os_is_single_threaded(void);

/* True when libc tells whether the process has a second thread. */
bool hak_os_knows_threads(void);

/* True when the process has other libraries than libc, the loader and this one, as far as the
 * system says. */
bool hak_os_has_libraries(void);

/* What tells the calling thread from all others; not 0, and the same in a fork's child. */
uintptr_t hak_os_thread(void);

/* Environment as the kernel and libc left it; NULL before libc is ready. True
 * `secure`: the process runs with raised rights and must not listen to it. */
char **hak_os_environment(bool *secure);

/* Asks for the barrier below, once; false where the system has none. The barrier: every other
 * thread of the process that runs has executed a full fence when it returns; false when refused. */
bool hak_os_register_barrier(void);
bool hak_os_barrier(void);

/* Sleeps while *word == value, but not much longer than `ms`; false when the system refuses to. */
bool hak_os_futex_wait_for(_Atomic uint32_t *word, uint32_t value, unsigned ms);

/* Sleeps while *word == value, and wakes one or all sleepers. */
void hak_os_futex_wait(_Atomic uint32_t *word, uint32_t value);
void hak_os_futex_wake(_Atomic uint32_t *word, bool all);

#endif
