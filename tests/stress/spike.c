/* spike.c - the memory of a spike goes back while the program goes on with little work.
 *
 *     spike [MiB [seconds]]
 *
 * For each block size the test allocates so many MiB, frees them all, and then does little work until
 * resident memory is below the base + 15 % of the spike. That may take so many seconds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "child.h"
#include "load.h"
#include "proc.h"

static const size_t sizes[] = {64, 1000, 16000, 200000, 4 << 20};

static size_t limit_seconds;
static size_t spike_bytes;

/* Allocates and touches blocks of the size, bytes in all, and frees every one. */
static size_t make_spike(size_t bytes, size_t size) {
    size_t count = bytes / size;
    size_t table_size = count * sizeof(void *);
    unsigned char **blocks =
        mmap(NULL, table_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(blocks != MAP_FAILED, "no table");
    for (size_t i = 0; i < count; i++) {
        blocks[i] = API(malloc)(size);
        CHECK(blocks[i] != NULL, "malloc(%zu) gave NULL", size);
        for (size_t k = 0; k < size; k += 4096) blocks[i][k] = 1;
    }
    size_t peak = proc_rss_kib() - table_size / 1024;
    for (size_t i = 0; i < count; i++) API(free)(blocks[i]);
    munmap(blocks, table_size);
    return peak;
}

/* In a process of its own, so that no spike meets what an earlier one left. */
static void check_spike(const void *context) {
    size_t size = *(const size_t *)context;
    size_t bytes = spike_bytes;
    struct load small = {.rng = rng_make(size), .most = 2000};
    load_run(&small, 10000);
    size_t base = proc_rss_kib();
    size_t peak = make_spike(bytes, size);
    CHECK(peak - base > bytes / 1024 / 10 * 9, "the spike of %zu MiB shows only %zu KiB",
          bytes >> 20, peak - base);
    size_t limit = base + (peak - base) * 15 / 100;
    size_t now = 0;
    for (size_t step = 0; step < limit_seconds * 50; step++) {
        load_run(&small, 1000);
        proc_sleep_ms(20);
        now = proc_rss_kib();
        if (now <= limit) break;
    }
    load_end(&small);
    CHECK(now <= limit, "after %zu s %zu KiB remain of a spike of %zu KiB in %zu-byte blocks",
          limit_seconds, now - base, peak - base, size);
}

int main(int argc, char **argv) {
    spike_bytes = argument(argc, argv, 1, 512) << 20;
    limit_seconds = argument(argc, argv, 2, 10);
    watchdog(60 + 10 * (unsigned)limit_seconds, "a spike");
    require_hakmem();
    bool all = true;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct child_end end;
        child_run(check_spike, &sizes[i], 30 + (unsigned)limit_seconds, &end);
        fputs(end.err, stderr);
        all &= end.in_time && end.status == 0;
    }
    CHECK(all, "memory of a spike is not given back");
    return 0;
}
