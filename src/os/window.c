/* window.c: chooses a window of addresses: first without a system call, then in holes that the
 * system finds. */
#include "os/window.h"

#include "os/os.h"

enum { ALIGN_SHIFT = 22 };

#define LARGEST ((size_t)1 << HAK_WINDOW_SHIFT_MAX)

/* Sizes of windows to try, largest first: first all of them below the stack, then all of them in
 * holes that the system finds. The first size is an eighth of the address space, so the window
 * stays apart from the top of the address space (libraries and stacks) and from its middle (the
 * program and its break). The smaller ones are for systems on which programs can use less of the
 * address space: emulators, sanitizers. */
static const size_t sizes[] HAK_NEAR = {LARGEST, 64 * GIB, 4 * GIB, 1 * GIB, 256 * MIB, 64 * MIB};

enum { SIZES = sizeof sizes / sizeof *sizes };

/* An address near the top of the address space: that of the first caller's stack. */
static uintptr_t top_of_space(void) {
    static _Atomic uintptr_t top;
    uintptr_t known = hak_load_relaxed(&top), here = (uintptr_t)__builtin_frame_address(0);
    if (known == 0 && hak_cas_acquire(&top, &known, here)) known = here;
    return known;
}

/* A random multiple of the alignment in start .. start + size - 1. */
static char *somewhere_in(uintptr_t start, size_t size) {
    uintptr_t steps = (uintptr_t)(hak_os_start_random() & ((size - 1) >> ALIGN_SHIFT));
    return (char *)(hak_align_up(start, (size_t)1 << ALIGN_SHIFT) + (steps << ALIGN_SHIFT));
}

static char *below_stack(size_t *size) {
    uintptr_t top = top_of_space();
    size_t most = (size_t)1 << hak_highest_bit(top / 8);
    *size = hak_min(*size, most);
    return somewhere_in(top - 2 * *size, *size / 2);
}

/* An aligned address in a hole of that size, where the system would map now. */
static char *in_a_hole(size_t size) {
    char *hole = hak_os_reserve(2 * size);
    if (!hole) return NULL;
    hak_os_unmap(hole, 2 * size);
    return somewhere_in((uintptr_t)hole, size / 2);
}

HAK_COMMON char *hak_os_window(unsigned attempt, size_t *size) {
    if (attempt < SIZES) {
        *size = sizes[attempt];
        return below_stack(size);
    }
    for (; attempt < 2 * SIZES; attempt++) {
        *size = sizes[attempt - SIZES];
        char *start = in_a_hole(*size);
        if (start) return start;
    }
    return NULL;
}

HAK_BEHIND bool hak_os_maps_anywhere(void) {
    char *some = hak_os_reserve(hak_os_page_size());
    return some && hak_os_unmap(some, hak_os_page_size());
}
