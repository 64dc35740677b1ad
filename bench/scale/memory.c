/* memory.c: in front of libc, for instrumented code (see renames): memcpy and its family, which the
 * compilers do not instrument, and the calls that map memory. */
#include "memory.h"

#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "calls.h"
#include "sched.h"

#define PC __builtin_return_address(0)

static void note_copy(void *to, const void *from, size_t size, const void *pc) {
    if (!sched_self || !size) return;
    scale_access(from, size, ACCESS_READ, pc);
    scale_access(to, size, ACCESS_WRITE, pc);
}

void *scale_memcpy(void *to, const void *from, size_t size) {
    note_copy(to, from, size, PC);
    return memcpy(to, from, size);
}

void *scale_memmove(void *to, const void *from, size_t size) {
    note_copy(to, from, size, PC);
    return memmove(to, from, size);
}

void *scale_memset(void *to, int value, size_t size) {
    if (sched_self && size) scale_access(to, size, ACCESS_WRITE, PC);
    return memset(to, value, size);
}

/* ---- Mappings ---------------------------------------------------------------------------------- */

static void note_call(void) {
    if (sched_self) machine_totals.kernel_calls++;
}

static void drop(void *addr, size_t size) {
    if (sched_self) machine_drop(addr, size);
}

void *scale_mmap(void *addr, size_t size, int prot, int flags, int file, off_t offset) {
    note_call();
    void *memory = mmap(addr, size, prot, flags, file, offset);
    if (memory != MAP_FAILED) drop(memory, size);
    return memory;
}

void *scale_mmap64(void *addr, size_t size, int prot, int flags, int file, off_t offset)
    __attribute__((alias("scale_mmap")));

int scale_munmap(void *addr, size_t size) {
    note_call();
    drop(addr, size);
    return munmap(addr, size);
}

int scale_madvise(void *addr, size_t size, int advice) {
    note_call();
    if (advice == MADV_DONTNEED || advice == MADV_FREE) drop(addr, size);
    return madvise(addr, size, advice);
}

int scale_mprotect(void *addr, size_t size, int prot) {
    note_call();
    return mprotect(addr, size, prot);
}

void *scale_mremap(void *addr, size_t old_size, size_t size, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(rest, void *) : NULL;
    va_end(rest);
    note_call();
    drop(addr, old_size);
    void *memory = mremap(addr, old_size, size, flags, wanted);
    if (memory != MAP_FAILED) drop(memory, size);
    return memory;
}
