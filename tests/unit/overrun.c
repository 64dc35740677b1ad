/* overrun.c: writes past the end and before the start of a block, of every tier, until they fault: on the way
 * there are blocks and free memory, and none of the engine's records. */
#include "unit.h"

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "hakmem.h"
#include "region/region.h"
#include "thread/thread.h"
#include "thread/verify.h"

enum { SECONDS = 60, BESIDE = 40 };

static const size_t sizes[] = {16, 200, 3000, 40000, 300000, 5000000};

static sigjmp_buf faulted;
static char stack[64 * 1024];

static void on_fault(int signal_number) { siglongjmp(faulted, signal_number); }

/* What can be written to without a fault, around an address. */
static void writable_around(const char *at, uintptr_t *from, uintptr_t *end) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    uintptr_t low, high;
    char access[5];
    *from = *end = 0;
    CHECK(maps != NULL, "no maps");
    while (fgets(line, sizeof line, maps)) {
        CHECK(sscanf(line, "%lx-%lx %4s", &low, &high, access) == 3, "an odd line: %s", line);
        if (access[1] != 'w') continue;
        if (low != *end && *end > (uintptr_t)at) break;
        if (low != *end) *from = low;
        *end = high;
    }
    fclose(maps);
    CHECK(*from <= (uintptr_t)at && *end > (uintptr_t)at, "the block is not mapped");
}

static void is_apart(const char *block, const void *record, const char *what) {
    uintptr_t from, end;
    writable_around(block, &from, &end);
    CHECK((uintptr_t)record < from || (uintptr_t)record >= end,
          "%s at %p can be reached from a block at %p, in %lx-%lx", what, record, block, from, end);
}

static void records_are_apart(const char *block) {
    const hak_cache_t *cache = hak_thread_cache();
    is_apart(block, (const void *)(uintptr_t)hak_map.entries, "the map");
    is_apart(block, cache, "a cache");
    if (cache->magazines[1].base) is_apart(block, cache->magazines[1].base, "a magazine's stack");
    if (!hak_region_unit_of(block)) return;
    size_t unit = ((uintptr_t)block - (uintptr_t)hak_map.entries) >> HAK_UNIT_SHIFT;
    is_apart(block, (const void *)(uintptr_t)&hak_map.entries[unit], "its unit's class");
    is_apart(block, hak_region_unit_of(block), "its unit's record");
    is_apart(block, hak_superslab_of(block), "its superslab's record");
}

static __attribute__((noinline, noreturn)) void write_on(char *block, int step) {
    for (volatile char *at = block;; at += step)
        *(volatile uint64_t *)(volatile void *)at = 0xA5A5A5A5A5A5A5A5u;
}

/* Below and above a mapping of its own may be a library's memory, so only blocks of the heap are overrun. */
static void run_over(const void *size_at) {
    const size_t size = *(const size_t *)size_at;
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK | SA_NODEFER};
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    char *block = NULL;
    for (unsigned i = 0; i < BESIDE; i++) CHECK((block = hakmem_malloc(size)) != NULL, "no block");
    records_are_apart(block);
    if (!hak_region_unit_of(block)) return;
    CHECK(sigaltstack(&own, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0 &&
              sigaction(SIGBUS, &action, NULL) == 0,
          "no handler");
    for (volatile int step = -8; step <= 8; step += 16)
        if (sigsetjmp(faulted, 1) == 0) write_on(block, step);
    CHECK(hak_verify() == 0, "records have changed");
}

static void nothing_but_blocks_is_reached(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        unit_child(run_over, &sizes[i], SECONDS, "writes beyond a block");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_but_blocks_is_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
