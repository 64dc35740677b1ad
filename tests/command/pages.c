/* pages.c - the reader of live pages against pages that are damaged, stale or made up.
 *
 *     pages COUNT [SEED]
 *
 * This process pretends to have a live page, in a file that the reader finds like any other, and changes
 * some bytes of it for each trial. The reader must refuse the page with one line or print JSON of the
 * right schema; in the sanitizer builds it must make no other error. HAKMEM is not in this process. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "command.h"
#include "live.h"
#include "resident.h"
#include "rng.h"
#include "source.h"

static jmp_buf after_failure;
static char words[512];

/* What the command ends with. */
void fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    CHECK(status == 1 && !strchr(words, '\n'), "status %d, words '%s'", status, words);
    longjmp(after_failure, 1);
}

static hak_live_page_t *page; /* what the reader finds */
static int file;
static unsigned char *block;

enum {
    SUPERSLABS = 3,
    PAGE_SIZE = 4096,
    SUPERSLAB_UNITS = 16,
    SUPERSLAB_SIZE = SUPERSLAB_UNITS * HAK_UNIT_SIZE,
    BLOCK_SIZE = (SUPERSLABS + 1) * SUPERSLAB_SIZE,
    NAME_SIZE = 20
};

/* A page as it should be, of a heap that is one block of this process. */
static void make_page(void) {
    uint64_t start = ((uintptr_t)block + SUPERSLAB_SIZE - 1) & -(uint64_t)SUPERSLAB_SIZE;
    memset(page, 0, sizeof *page);
    page->head = (hak_live_head_t){.magic = HAK_LIVE_MAGIC,
                                   .version = HAK_LIVE_VERSION,
                                   .page_size = PAGE_SIZE,
                                   .layout = hak_live_layout(),
                                   .size = sizeof *page,
                                   .pid = (uint32_t)getpid()};
    page->range_count = page->ranges_total = 1;
    page->ranges[0] = (hak_live_range_t){.start = start, .size = SUPERSLABS * SUPERSLAB_SIZE};
    page->superslab_count = SUPERSLABS;
    page->superslab_stride = 1;
    page->superslab_units = SUPERSLAB_UNITS;
    page->cache_count = 2;
    for (unsigned i = 0; i < SUPERSLABS; i++) {
        page->superslabs[i].start = start + i * (uint64_t)SUPERSLAB_SIZE;
        for (unsigned k = 0; k < SUPERSLAB_UNITS; k++) {
            hak_live_unit_t *unit = &page->superslabs[i].units[k];
            unit->class_index = (uint16_t)((i * SUPERSLAB_UNITS + k) % (HAK_CLASS_LARGE + 1));
            for (unsigned g = 0; g < HAK_UNIT_GRAINS; g++) unit->used[g] = (uint16_t)(g * 273);
        }
    }
}

/* Most changes fall where lengths and indices are. */
static void damage(struct rng *rng) {
    unsigned char *bytes = (unsigned char *)page;
    size_t counts = offsetof(hak_live_page_t, cache_count);
    for (unsigned left = 1 + rng_below(rng, 12); left; left--) {
        size_t at = rng_below(rng, sizeof *page);
        switch (rng_below(rng, 5)) {
        case 0:
            at = rng_below(rng, sizeof page->head);
            break;
        case 1:
            at = counts + rng_below(rng, 24);
            break;
        case 2:
            at = offsetof(hak_live_page_t, ranges) + rng_below(rng, 3 * sizeof *page->ranges);
            break;
        case 3:
            at = offsetof(hak_live_page_t, options) + rng_below(rng, sizeof page->options);
            break;
        default:
            break;
        }
        bytes[at] = (unsigned char)rng_below(rng, 256);
    }
}

/* All that `stat` and `explain` do with a page. True when it was believed. */
static bool read_as_command(const char *name) {
    if (setjmp(after_failure)) return false;
    source_t source = source_read("test", name);
    CHECK(strcmp(json_text(source.root, "schema"), "hakmem-stats/1") == 0, "another schema");
    return true;
}

/* What `top` does, and explain's measuring by itself. */
static bool read_page(void) {
    static hak_live_page_t copy;
    const char *problem;
    resident_t resident;
    live_result_t result = live_read(getpid(), &copy, &problem);
    if (result != LIVE_READ) {
        CHECK(*problem && !strchr(problem, '\n'), "the problem is '%s'", problem);
        return false;
    }
    CHECK(copy.range_count <= HAK_LIVE_RANGES && copy.superslab_count <= HAK_LIVE_SUPERSLABS &&
              copy.cache_count <= HAK_LIVE_CACHES,
          "a count is beyond its bound");
    CHECK(resident_measure(getpid(), &copy, &resident) == NULL, "not measured");
    return true;
}

static void expect_problem(const char *what, const char *part) {
    static hak_live_page_t copy;
    const char *problem;
    CHECK(live_read(getpid(), &copy, &problem) == LIVE_NO_PAGE && strstr(problem, part), "%s: '%s'",
          what, problem);
}

/* Each kind of wrong page has its own line. */
static void check_lines(void) {
    make_page();
    CHECK(read_page(), "a page as it should be is refused");
    page->head.layout++;
    expect_problem("another layout", "another version");
    make_page();
    page->head.magic[0] = 'X';
    expect_problem("another magic", "none of HAKMEM");
    make_page();
    page->head.sequence = 1;
    expect_problem("a page that is never finished", "all the time");
    make_page();
    page->range_count = HAK_LIVE_RANGES + 1;
    expect_problem("too many ranges", "damaged");
    make_page();
    page->head.pid++;
    expect_problem("another process's page", "does not run on HAKMEM");
    make_page();
    CHECK(ftruncate(file, 100) == 0, "not cut off");
    expect_problem("a file that is cut off", "damaged");
    CHECK(ftruncate(file, 0) == 0, "not cut off");
    expect_problem("an empty file", "none of HAKMEM");
    CHECK(ftruncate(file, sizeof *page) == 0, "not lengthened");
}

/* A page names a part of a mapping that is far longer than any memory: nobody waits for a look at its pages. */
static void check_length(void) {
    static hak_live_page_t copy;
    const char *problem;
    resident_t resident;
    const size_t length = (size_t)64 << 40;
    char *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return; /* fewer addresses, or a limit on them */
    make_page();
    mapping[0] = mapping[length - 1] = 1;
    page->ranges[0] =
        (hak_live_range_t){.start = (uintptr_t)mapping + PAGE_SIZE, .size = length / 2};
    CHECK(live_read(getpid(), &copy, &problem) == LIVE_READ, "a long range: %s", problem);
    CHECK(resident_measure(getpid(), &copy, &resident) == NULL, "not measured");
    munmap(mapping, length);
}

/* `name` becomes the number of this process. */
static void prepare(char name[NAME_SIZE]) {
    file = memfd_create(HAK_LIVE_NAME, 0);
    CHECK(file >= 0 && ftruncate(file, sizeof *page) == 0, "no memory file");
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    block = malloc(BLOCK_SIZE);
    CHECK(page != MAP_FAILED && block, "no memory");
    memset(block, 1, BLOCK_SIZE);
    snprintf(name, NAME_SIZE, "%d", (int)getpid());
}

int main(int argc, char **argv) {
    size_t count = (size_t)argument(argc, argv, 1, 300), believed = 0;
    struct rng rng = rng_make((uint64_t)argument(argc, argv, 2, 1));
    char name[NAME_SIZE];
    watchdog(15, "a page with a long range");
    prepare(name);
    check_length();
    watchdog(100 + (unsigned)(count / 100), "damaged pages");
    check_lines();
    for (size_t i = 0; i < count; i++) {
        make_page();
        damage(&rng);
        page->head.sequence &= ~1u; /* else the reader waits for its end */
        believed += i % 8 ? read_page() : read_as_command(name);
    }
    printf("%zu of %zu damaged pages were believed\n", believed, count);
    CHECK(believed > count / 100, "hardly one was believed, so little was tried");
    return 0;
}
