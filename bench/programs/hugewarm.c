/*
 * hugewarm - touches huge pages and exits, so that the host has them ready again.
 *
 *   hugewarm [mebibytes]
 *
 * On a virtual machine, 2 MiB blocks that are free go back to the host after a while,
 * and the next touch of them is many times slower. Run before each sample, this gives
 * every allocator the same start. Prints nothing.
 */
#include "bench.h"

#define HUGE_PAGE (2u << 20)

int main(int argc, char **argv) {
    struct bench_arg args[] = {{"mebibytes", 2, 1u << 20, 1024, 0}};
    size_t bytes;
    char *memory;

    bench_arguments(args, 1, argc, argv);
    bytes = args[0].value << 20;
    memory = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) bench_fail(1, "cannot map %zu bytes: %s", bytes, strerror(errno));
    memory = (char *)(((uintptr_t)memory + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    madvise(memory, bytes, MADV_HUGEPAGE); /* without huge pages the touch is merely small */
    for (size_t at = 0; at < bytes; at += HUGE_PAGE) ((volatile char *)memory)[at] = 1;
    return 0;
}
