/* error.c: the one line on stderr, and the abort or return after it. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "error/error.h"
#include "options/environment.h"
#include "options/options.h"

enum { SECONDS = 10, ERRNO_BEFORE = 77 };

static const char *const aborting[] = {"HAKMEM_ON_ERROR=abort", NULL};
static const char *const reporting[] = {"HAKMEM_ON_ERROR=report", NULL};
static const char *const by_default[] = {NULL};

/* What the child does, by the name of the case; then it says that it came back. */
static void report(const char *name) {
    char text[600];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    errno = ERRNO_BEFORE;
    if (strcmp(name, "formatted") == 0)
        hak_error_report("realloc", "%s pointer: %d and %zu", "wild", -5, (size_t)12);
    else if (strcmp(name, "long") == 0)
        hak_error_report("free", "%s", text);
    else
        hak_error_double_free("free", (void *)(uintptr_t)0x1230, 48);
    CHECK(errno == ERRNO_BEFORE, "errno was changed");
    fputs("came back\n", stderr);
}

static struct child_end run(const char *name, const char *const *environment) {
    struct child_end end;
    unit_rerun(name, environment, SECONDS, &end);
    REQUIRE(end.in_time, "%s: no end after %d s", name, SECONDS);
    return end;
}

/* The line alone and an abort, or the line and "came back". */
static void expect(const char *name, const char *const *environment, bool aborts,
                   const char *line) {
    char expected[1000];
    struct child_end end = run(name, environment);
    snprintf(expected, sizeof expected, "%s\n%s", line, aborts ? "" : "came back\n");
    assert_string_equal(end.err, expected);
    if (aborts)
        REQUIRE(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT, "%s: status %#x", name,
                (unsigned)end.status);
    else
        REQUIRE(end.status == 0, "%s: status %#x", name, (unsigned)end.status);
}

static void a_report_is_one_line_and_an_abort(void **state) {
    (void)state;
    const char *line = "hakmem: realloc(): wild pointer: -5 and 12";
    expect("formatted", aborting, true, line);
    expect("formatted", by_default, true, line);
}

static void in_report_mode_it_returns(void **state) {
    (void)state;
    expect("formatted", reporting, false, "hakmem: realloc(): wild pointer: -5 and 12");
}

static void a_double_free_names_pointer_and_size(void **state) {
    (void)state;
    expect("double", reporting, false,
           "hakmem: free(): double free: 0x1230 is a block of 48 bytes that is already free");
}

static void a_long_line_is_cut(void **state) {
    (void)state;
    struct child_end end = run("long", aborting);
    assert_int_equal(unit_line_count(end.err), 1);
    size_t length = strlen(end.err);
    REQUIRE(length >= 200 && length <= 256, "the line has %zu bytes", length);
    assert_true(strncmp(end.err, "hakmem: free(): xxxx", 20) == 0);
    assert_true(strcmp(end.err + length - 5, "xxxx\n") == 0);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        hak_options_load();
        report(argv[1]);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_is_one_line_and_an_abort),
        cmocka_unit_test(in_report_mode_it_returns),
        cmocka_unit_test(a_double_free_names_pointer_and_size),
        cmocka_unit_test(a_long_line_is_cut),
    };
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
