/* move.c: moves pages from one address to another, mapping by mapping. */
#include "os/move.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

/* Of futex(2); a libc without the kernel's headers has no name for it. */
enum { WAIT_PRIVATE = 128 };

/* Of mremap(2), from Linux 5.7 on. */
enum { DONT_UNMAP = 4 };

/* The kernel orders a thread that leaves an address by mremap before the thread that maps it next.
 * The thread sanitizer knows this order for mmap and munmap only, so each mremap reports it. */
#ifdef __SANITIZE_THREAD__
extern void __tsan_acquire(void *), __tsan_release(void *);
static char moves; /* its address stands for the process's mappings */
#define LEAVE_ADDRESSES() __tsan_release(&moves)
#define ENTER_ADDRESSES() __tsan_acquire(&moves)
#else
#define LEAVE_ADDRESSES() ((void)0)
#define ENTER_ADDRESSES() ((void)0)
#endif

HAK_NEXT void *hak_os_remap(void *addr, size_t old_size, size_t new_size) {
    HAK_KEEP_ERRNO();
    hak_add_relaxed(&hak_os_stats.mremap, 1);
    LEAVE_ADDRESSES();
    void *moved = mremap(addr, old_size, new_size, MREMAP_MAYMOVE);
    ENTER_ADDRESSES();
    return moved == MAP_FAILED ? NULL : moved;
}

/* True when a range is one mapping to the kernel. Asks mremap to lengthen the range by a page: for
 * several mappings the kernel answers EFAULT before any other check. For one mapping it refuses,
 * because something lies behind it, or it adds a page, which is unmapped again. */
static HAK_NEXT bool is_one_mapping(char *addr, size_t size) {
    size_t page = hak_os_page_size();
    hak_add_relaxed(&hak_os_stats.mremap, 1);
    if (mremap(addr, size, size + page, 0) == MAP_FAILED) return errno != EFAULT;
    hak_os_unmap(addr + size, page);
    return true;
}

/* Number of bytes from `addr` on, at most `size`, that are one mapping to the kernel. */
static size_t one_mapping(char *addr, size_t size) {
    size_t page = hak_os_page_size(), one = page, several = size;
    if (is_one_mapping(addr, size)) return size;
    while (several - one > page) {
        size_t middle = one + (several - one) / 2 / page * page;
        if (is_one_mapping(addr, middle))
            one = middle;
        else
            several = middle;
    }
    return one;
}

/* Moves the pages of one mapping; the kernel moves all of them, or none. */
static bool move_one(char *addr, size_t size, char *to) {
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED | DONT_UNMAP;
    hak_add_relaxed(&hak_os_stats.mremap, 1);
    LEAVE_ADDRESSES();
    bool moved = mremap(addr, size, size, flags, to) != MAP_FAILED;
    ENTER_ADDRESSES();
    return moved;
}

/* A word that no other mapping has at that address. It depends on the thread, since another thread
 * may mark the same address meanwhile. */
static uintptr_t mark_of(const char *at) {
    return (~(uintptr_t)at * (uintptr_t)0x9E3779B97F4A7C15u) ^ hak_os_thread();
}

/* Writes to a fresh mapping. The kernel orders this write after those of the addresses' last owner;
 * the thread sanitizer does not know that. */
static HAK_NEXT __attribute__((no_sanitize_thread)) void set_mark(char *at) {
    *(uintptr_t *)(void *)at = mark_of(at);
}

/* True when the word at an address is `value`. The kernel compares it, since another mapping at the address may be
 * unreadable: futex waits only if the word is `value`. Even strict filters of system calls allow futex. */
static bool has_word(char *at, uint32_t value) {
    const struct timespec none = {0, 0};
    errno = 0;
    syscall(SYS_futex, at, WAIT_PRIVATE, value, &none, NULL, 0);
    return errno == 0 || errno == ETIMEDOUT || errno == EINTR;
}

/* True while the page that the caller has marked is still there. */
static bool has_mark(char *at) {
    uint32_t words[sizeof(uintptr_t) / sizeof(uint32_t)];
    const uintptr_t mark = mark_of(at);
    bool has = true;
    memcpy(words, &mark, sizeof mark);
    for (unsigned i = 0; has && i < sizeof words / sizeof *words; i++)
        has = has_word(at + i * sizeof *words, words[i]);
    return has;
}

/* A kernel that moves several mappings in one call (6.17) may fail half-way, without telling where.
 * So they are moved one by one, and the old range stays mapped and empty: if one move fails, the
 * parts already moved are copied back. A kernel that refuses to move a mapping may have unmapped
 * its target before, and that part may belong to another mapping by now: only its mark tells. */
HAK_NEXT bool hak_os_move(void *addr, size_t size, void *to) {
    HAK_KEEP_ERRNO();
    char *from = addr, *target = to;
    size_t done = 0, part = 0;
    hak_os_wish_huge(to, size, false); /* a mark costs a small page */
    for (bool moved = true; moved && done < size;) {
        part = one_mapping(from + done, size - done);
        set_mark(target + done);
        moved = move_one(from + done, part, target + done);
        if (moved)
            done += part;
        else if (has_mark(target + done))
            part = 0;
    }
    if (done == size) {
        hak_os_unmap(from, size);
    } else {
        if (done) memcpy(from, target, done);
        if (done) hak_os_unmap(target, done);
        if (done + part < size) hak_os_unmap(target + done + part, size - done - part);
    }
    return done == size;
}

/* Not hak_os_protect: its page of code is not in memory in a process that only moves blocks. */
static bool make_read_only(char *addr, size_t size) {
    HAK_KEEP_ERRNO();
    hak_add_relaxed(&hak_os_stats.mprotect, 1);
    return mprotect(addr, size, PROT_READ) == 0;
}

/* Tries it with two pages that have different protections, and so are two mappings. */
static bool try_to_move_two(void) {
    size_t page = hak_os_page_size();
    char *from = hak_os_map(2 * page, page), *to = hak_os_map(2 * page, page);
    if (!from || !to || !make_read_only(from + page, page)) {
        if (from) hak_os_unmap(from, 2 * page);
        if (to) hak_os_unmap(to, 2 * page);
        return false;
    }
    bool moved = hak_os_move(from, 2 * page, to);
    hak_os_unmap(moved ? to : from, 2 * page);
    return moved;
}

HAK_NEXT bool hak_os_moves_several(void) {
    enum { UNKNOWN, NO, YES };
    static _Atomic int known;
    if (hak_load_relaxed(&known) == UNKNOWN)
        hak_store_relaxed(&known, try_to_move_two() ? YES : NO);
    return hak_load_relaxed(&known) == YES;
}
