/* sampled.c: sampled blocks between guard pages: a realloc to the same size looks at the bytes beside the block, too, and
 * the report of a damaged block is made before another block gets its page, and its history. The linker sends the
 * line of a report here (--wrap). */
#include "unit.h"

#include "error/error.h"
#include "hakmem.h"
#include "hardened/guard_sample.h"
#include "os/os.h"

enum { SIZE = 30, AFTER = 2 * HAK_GUARD_SAMPLE_PAGES };

static const char *damaged;
static unsigned reports;

/* Blocks of other threads come and go meanwhile. */
void __wrap_hak_error_line(const char *function, const char *format, ...);
void __wrap_hak_error_line(const char *function, const char *format, ...) {
    (void)function, (void)format;
    reports++;
    for (unsigned i = 0; i < AFTER; i++) {
        const char *other = hakmem_malloc(SIZE);
        REQUIRE((uintptr_t)other / hak_os_page_size() != (uintptr_t)damaged / hak_os_page_size(),
                "a block has the page, and the history, that is reported");
        hakmem_free((void *)(uintptr_t)other);
    }
}
void __wrap_hak_error_end(const void *block);
void __wrap_hak_error_end(const void *block) { (void)block; }

/* One whose byte behind the requested ones was written to. */
static char *damage(void) {
    char *block = NULL;
    for (unsigned i = 0; i < AFTER && !hak_guard_sample_has(block); i++)
        block = hakmem_malloc(SIZE);
    REQUIRE(hak_guard_sample_has(block), "no block is sampled");
    damaged = block;
    reports = 0;
    *(volatile char *)(block + SIZE) = 1;
    return block;
}

static void a_report_comes_before_the_page_is_used_again(void **state) {
    (void)state;
    hakmem_free(damage());
    REQUIRE(reports == 1, "%u reports", reports);
}

static void a_realloc_to_the_same_size_looks(void **state) {
    (void)state;
    char *block = hakmem_realloc(damage(), SIZE);
    REQUIRE(block && reports == 1, "%u reports", reports);
    hakmem_free(block);
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, (const char *const[]){"HAKMEM_GUARD_SAMPLE=1", NULL});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_comes_before_the_page_is_used_again),
        cmocka_unit_test(a_realloc_to_the_same_size_looks),
    };
    return cmocka_run_group_tests_name("sampled", tests, NULL, NULL);
}
