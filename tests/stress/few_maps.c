/* few_maps.c - preloaded before the library: leaves this process so many mappings as TEST_FREE_MAPS says.
 *
 * vm.max_map_count holds for the whole machine, and 1,000 would stop other programs. So the process uses up
 * the rest itself: neighbouring pages with different rights are a mapping each. Then it unmaps as many as are
 * to be left. Without the name in its environment a process has all. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t most_maps(void) {
    unsigned long most = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    if (!file || fscanf(file, "%lu", &most) != 1) abort();
    fclose(file);
    return most;
}

__attribute__((constructor)) static void use_up(void) {
    const char *text = getenv("TEST_FREE_MAPS");
    if (!text) return;
    size_t left = strtoul(text, NULL, 10), pages = most_maps() + 16, i = 1;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *comb = mmap(NULL, pages * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (comb == MAP_FAILED) abort();
    /* Each second page: the last one is refused. */
    while (i < pages && mprotect(comb + i * page, page, PROT_READ) == 0) i += 2;
    if (i >= pages || left > i) abort();
    /* The untouched rest is one mapping, too. */
    if (munmap(comb + (i - left) * page, (pages - (i - left)) * page) != 0) abort();
}
