/* quarantine.c: a write to a freed block is told also where its bytes are zero again when the line is made: another thread
 * writes to it even now. */
#include "unit.h"

#include <string.h>
#include <sys/mman.h>

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

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return report();
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_write_that_is_gone_is_told)};
    return cmocka_run_group_tests_name("quarantine", tests, NULL, NULL);
}
