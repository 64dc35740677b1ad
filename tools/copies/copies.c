/* copies.c: memcpy, mempcpy, memmove and memset that look first whether they stay within one block of HAKMEM.
 *
 * A library of its own, which only those who want it preload: in libhakmem.so these functions would be
 * slower in every program. hakmem_check_range reports what goes beyond a block, or into a free one; the
 * call is then ignored. It takes no lock, so a copy may be made anywhere, as before.
 *
 * Not checked: the copies of HAKMEM itself, which zeroes blocks that are free; those of the C library;
 * and those that the compiler has made instructions of. */
#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)

/* Weak: without HAKMEM nothing is checked. */
__attribute__((weak)) int hakmem_check_range(const void *ptr, size_t size, const char *function);

typedef void *copy_t(void *to, const void *from, size_t size);
typedef void *fill_t(void *to, int byte, size_t size);

/* Written by the constructor, before the program has threads; NULL and 0 until then. */
static _Atomic(copy_t *) next_move;
static _Atomic(fill_t *) next_fill;
static uintptr_t ours, ours_size; /* addresses of HAKMEM's code */

/* ---- how to copy, where the loader has not told the C library's functions yet ---- */

static void *move_bytes(void *to, const void *from, size_t size) {
    char *put = to;
    const char *get = from;
    if ((uintptr_t)put - (uintptr_t)get < size) {
        while (size-- > 0) put[size] = get[size];
    } else {
        for (size_t i = 0; i < size; i++) put[i] = get[i];
    }
    return to;
}

static void *fill_bytes(void *to, int byte, size_t size) {
    unsigned char *put = to;
    for (size_t i = 0; i < size; i++) put[i] = (unsigned char)byte;
    return to;
}

static void *copy(void *to, const void *from, size_t size) {
    copy_t *next = atomic_load_explicit(&next_move, memory_order_relaxed);
    return LIKELY(next != NULL) ? next(to, from, size) : move_bytes(to, from, size);
}

static void *fill(void *to, int byte, size_t size) {
    fill_t *next = atomic_load_explicit(&next_fill, memory_order_relaxed);
    return LIKELY(next != NULL) ? next(to, byte, size) : fill_bytes(to, byte, size);
}

/* ---- who calls ---- */

static int find_hakmem(struct dl_phdr_info *object, size_t size, void *found) {
    uintptr_t target = (uintptr_t)&hakmem_check_range;
    (void)size, (void)found;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type != PT_LOAD || target - start >= part->p_memsz) continue;
        ours = start;
        ours_size = part->p_memsz;
        return 1;
    }
    return 0;
}

/* `caller` lies behind the call. */
static bool is_fine(const void *ptr, size_t size, const char *function, const void *caller) {
    if ((uintptr_t)caller - ours < ours_size || ours_size == 0) return true;
    return hakmem_check_range(ptr, size, function) != 0;
}

__attribute__((constructor)) static void prepare(void) {
    if (!hakmem_check_range) return;
    copy_t *move = (copy_t *)dlsym(RTLD_NEXT, "memmove");
    fill_t *fills = (fill_t *)dlsym(RTLD_NEXT, "memset");
    atomic_store_explicit(&next_move, move, memory_order_relaxed);
    atomic_store_explicit(&next_fill, fills, memory_order_relaxed);
    dl_iterate_phdr(find_hakmem, NULL);
}

/* ---- the functions ---- */

#define CALLER() __builtin_extract_return_addr(__builtin_return_address(0))
#define MAY_COPY(to, from, size, name) \
    (is_fine(from, size, name, CALLER()) && is_fine(to, size, name, CALLER()))

EXPORT void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    return MAY_COPY(to, from, size, "memcpy") ? copy(to, from, size) : to;
}
EXPORT void *mempcpy(void *restrict to, const void *restrict from, size_t size) {
    if (MAY_COPY(to, from, size, "mempcpy")) copy(to, from, size);
    return (char *)to + size;
}
EXPORT void *memmove(void *to, const void *from, size_t size) {
    return MAY_COPY(to, from, size, "memmove") ? copy(to, from, size) : to;
}
EXPORT void *memset(void *to, int byte, size_t size) {
    return is_fine(to, size, "memset", CALLER()) ? fill(to, byte, size) : to;
}

/* What programs call that were built with _FORTIFY_SOURCE; `room` is what the compiler knows. */
EXPORT void *__memcpy_chk(void *restrict to, const void *restrict from, size_t size, size_t room);
EXPORT void *__mempcpy_chk(void *restrict to, const void *restrict from, size_t size, size_t room);
EXPORT void *__memmove_chk(void *to, const void *from, size_t size, size_t room);
EXPORT void *__memset_chk(void *to, int byte, size_t size, size_t room);

void *__memcpy_chk(void *restrict to, const void *restrict from, size_t size, size_t room) {
    if (size > room) abort();
    return MAY_COPY(to, from, size, "memcpy") ? copy(to, from, size) : to;
}
void *__mempcpy_chk(void *restrict to, const void *restrict from, size_t size, size_t room) {
    if (size > room) abort();
    if (MAY_COPY(to, from, size, "mempcpy")) copy(to, from, size);
    return (char *)to + size;
}
void *__memmove_chk(void *to, const void *from, size_t size, size_t room) {
    if (size > room) abort();
    return MAY_COPY(to, from, size, "memmove") ? copy(to, from, size) : to;
}
void *__memset_chk(void *to, int byte, size_t size, size_t room) {
    if (size > room) abort();
    return is_fine(to, size, "memset", CALLER()) ? fill(to, byte, size) : to;
}
