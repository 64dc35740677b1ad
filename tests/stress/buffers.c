/* buffers.c - buffers of which a program uses one page do not get huge pages; those that it fills do.
 *
 *     buffers [MiB]
 *
 * So many MiB in buffers, never freed. Each in its own process:
 *   sparse   one page of each buffer is written: little more than these pages is resident
 *   filled   all of each is written: most of the heap gets huge pages
 *   turns    all of each; then twice as many of which a page is written: what is resident besides is at most
 *            half of the first; then four times as many, all of each: huge pages again
 *   beside   as sparse, behind as many MiB in blocks of 128 KiB of which one page is written, and again behind
 *            others: these have all superslabs that are newer than the first buffers'
 * The sizes are 9, 16 and 32 KiB: two pages and more. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "figures.h"
#include "load.h"
#include "proc.h"

enum {
    KIB = 1024,
    LARGE = 128 * KIB,
    PAGE = 4096,
    MIB_SUPERSLAB = 1,
    SLACK_KIB = 4096,
    SECONDS = 30
};

static size_t bytes;

typedef struct {
    size_t resident_kib, huge_mib;
} change_t;

static change_t take(size_t size, size_t count, bool whole) {
    size_t rss = proc_rss_kib(), huge = figure("pool.huge_superslabs");
    for (size_t i = 0; i < count; i++) {
        char *block = API(malloc)(size);
        CHECK(block != NULL, "no memory");
        memset(block, 1, whole ? size : 1);
    }
    change_t change = {proc_rss_kib() - rss,
                       (figure("pool.huge_superslabs") - huge) * MIB_SUPERSLAB};
    printf("%zu of %zu bytes, %s: %zu KiB resident, huge pages wanted for %zu MiB\n", count, size,
           whole ? "filled" : "a page each", change.resident_kib, change.huge_mib);
    return change;
}

static size_t mib_of(size_t size, size_t count) { return size * count / KIB / KIB; }

static void sparse(const void *context) {
    const size_t size = *(const size_t *)context, count = bytes / size;
    change_t change = take(size, count, false);
    CHECK(change.resident_kib < count * (PAGE / KIB) * 5 / 4 + SLACK_KIB, "%zu KiB are resident",
          change.resident_kib);
    CHECK(change.huge_mib == 0, "huge pages are wanted for %zu MiB", change.huge_mib);
}

static void beside(const void *context) {
    const size_t size = *(const size_t *)context, count = bytes / size;
    for (unsigned round = 0; round < 2; round++) {
        take(LARGE, bytes / LARGE, false);
        change_t change = take(size, count, false);
        CHECK(change.resident_kib < count * (PAGE / KIB) * 5 / 4 + SLACK_KIB,
              "%zu KiB are resident", change.resident_kib);
    }
}

static void filled(const void *context) {
    const size_t size = *(const size_t *)context, count = bytes / size;
    change_t change = take(size, count, true);
    CHECK(change.huge_mib > mib_of(size, count) / 2, "huge pages are wanted for %zu MiB",
          change.huge_mib);
}

static void turns(const void *context) {
    const size_t size = *(const size_t *)context, count = bytes / size;
    take(size, count, true);
    change_t change = take(size, 2 * count, false);
    size_t touched = 2 * count * (PAGE / KIB), most = touched + size * count / KIB / 2 + SLACK_KIB;
    CHECK(change.resident_kib < most, "%zu KiB are resident, of %zu", change.resident_kib, most);
    change = take(size, 4 * count, true);
    CHECK(change.huge_mib > mib_of(size, 2 * count), "huge pages are wanted for %zu MiB",
          change.huge_mib);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {9 * KIB, 16 * KIB, 32 * KIB};
    bytes = argument(argc, argv, 1, 192) << 20;
    watchdog(3 * 4 * SECONDS, "buffers");
    require_hakmem();
    if (sysconf(_SC_PAGESIZE) != PAGE) {
        printf("pages are not 4 KiB long: nothing is tested\n");
        return 0;
    }
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        child_must_succeed(sparse, &sizes[i], SECONDS, "sparse buffers");
        child_must_succeed(beside, &sizes[i], SECONDS, "sparse buffers beside large blocks");
        child_must_succeed(filled, &sizes[i], SECONDS, "filled buffers");
        child_must_succeed(turns, &sizes[i], SECONDS, "buffers in turns");
    }
    return 0;
}
