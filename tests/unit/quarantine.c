/* quarantine.c: freed blocks of the hardened path. A guard that the kernel makes of some pages and then refuses leaves
 * none behind. A wrong free of a block that a thread is just taking from a shard frees nothing. A write to a freed block is told also where its bytes are zero again when the line is made: another thread
 * writes to it even now. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "hakmem.h"
#include "hardened/quarantine.h"
#include "os/os.h"

/* Behind the block nobody can read. */
static int report(void) {
    const size_t page = hak_os_page_size();
    char *block = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(block != MAP_FAILED && mprotect(block + page, page, PROT_NONE) == 0, "no memory");
    hak_quarantine_report_write(block, page);
    block[page - 1] = 1;
    hak_quarantine_report_write(block, page);
    CHECK(block[page - 1] == 0, "the block is not zero again");
    return 0;
}

static void a_write_that_is_gone_is_told(void **state) {
    static const char *const environment[] = {"HAKMEM_ON_ERROR=report", NULL};
    struct child_end done;
    (void)state;
    unit_rerun("report", environment, 60, &done);
    REQUIRE(done.in_time && done.status == 0, "status %d: %s", done.status, done.err);
    REQUIRE(unit_line_count(done.err) == 2, "not two lines: %s", done.err);
    REQUIRE(strstr(done.err, "bytes, and it was written to"), "%s", done.err);
    REQUIRE(strstr(done.err, "of it was written to"), "%s", done.err);
}

/* The next guard of several pages ends after the first page. The linker sends the engine's calls here (--wrap). */
enum { INSTALL = 102 };
static bool refuses;
static unsigned refused;

int __real_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice);
int __wrap_madvise(void *start, size_t size, int advice) {
    if (advice != INSTALL || !refuses || size <= hak_os_page_size())
        return __real_madvise(start, size, advice);
    refused += __real_madvise(start, hak_os_page_size(), advice) == 0;
    errno = ENOMEM;
    return -1;
}

static int guard(void) {
    static const size_t sizes[] = {70000, 300000, 3000000};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = hakmem_malloc(sizes[i]);
        CHECK(block, "no block");
        memset(block, 1, sizes[i]);
        refuses = true;
        hakmem_free(block);
        refuses = false;
        CHECK(block[0] == 0 && block[sizes[i] - 1] == 0, "the block is not zero");
    }
    fprintf(stderr, "%u guards were refused\n", refused);
    return 0;
}

static void a_guard_that_is_refused_half_way_leaves_none(void **state) {
    static const char *const environment[] = {"HAKMEM_PROFILE=HARDENED", NULL};
    struct child_end done;
    (void)state;
    unit_rerun("guard", environment, 60, &done);
    REQUIRE(done.in_time && done.status == 0, "status %d: %s", done.status, done.err);
}

/* The next block of the class is freed by mistake before it has left its shard for good. */
enum { WRONG_SIZE = 100, WRONG_BLOCKS = 500 };
static bool frees_wrongly;

unsigned __real_hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                               bool *zeroed);
unsigned __wrap_hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                               bool *zeroed);
unsigned __wrap_hak_shard_take(unsigned home, unsigned class_index, unsigned want, void **top,
                               bool *zeroed) {
    const unsigned taken = __real_hak_shard_take(home, class_index, want, top, zeroed);
    if (taken && frees_wrongly) {
        frees_wrongly = false;
        hakmem_free(top[1]);
    }
    return taken;
}

static int wrong(void) {
    static char *blocks[WRONG_BLOCKS];
    frees_wrongly = true;
    for (unsigned i = 0; i < WRONG_BLOCKS; i++) {
        blocks[i] = hakmem_malloc(WRONG_SIZE);
        CHECK(blocks[i], "no block");
        memset(blocks[i], (int)(i % 251), WRONG_SIZE);
        for (unsigned j = 0; j < i; j++) CHECK(blocks[i] != blocks[j], "a block is there twice");
    }
    CHECK(!frees_wrongly, "no block was taken");
    for (unsigned i = 0; i < WRONG_BLOCKS; i++) hakmem_free(blocks[i]);
    return 0;
}

static void a_wrong_free_of_a_block_that_is_being_taken(void **state) {
    static const char *const environment[] = {"HAKMEM_PROFILE=HARDENED", "HAKMEM_ON_ERROR=report",
                                              NULL};
    struct child_end done;
    (void)state;
    unit_rerun("wrong", environment, 60, &done);
    REQUIRE(done.in_time && done.status == 0, "status %d: %s", done.status, done.err);
    REQUIRE(unit_line_count(done.err) == 1, "not one line: %s", done.err);
    REQUIRE(strstr(done.err, "free(): double free"), "%s", done.err);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "wrong") == 0) return wrong();
    if (argc > 1) return strcmp(argv[1], "guard") == 0 ? guard() : report();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_that_is_gone_is_told),
        cmocka_unit_test(a_guard_that_is_refused_half_way_leaves_none),
        cmocka_unit_test(a_wrong_free_of_a_block_that_is_being_taken),
    };
    return cmocka_run_group_tests_name("quarantine", tests, NULL, NULL);
}
