/* option_api.c: hakmem_option_get, _set and _info over every row of the table. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hakmem.h"
#include "options/options.h"

static const char *bare(int option) { return hak_option_row((hak_option_t)option).name + 7; }

static void expect_now(int option, const char *value, const char *source) {
    char text[200];
    struct hakmem_option info;
    assert_int_equal(hakmem_option_get(bare(option), text, sizeof text), 0);
    assert_string_equal(text, value);
    assert_int_equal(hakmem_option_info((size_t)option, &info, sizeof info), 0);
    assert_string_equal(info.source, source);
}

/* Each value of a row that is taken, then one that is not. */
static void the_program_sets_what_may_change(void **state) {
    (void)state;
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        hak_option_row_t row = hak_option_row((hak_option_t)i);
        char values[400], before[100];
        if (hak_option_is_number(row.kind))
            snprintf(values, sizeof values, "%lld|%lld", (long long)row.least, (long long)row.most);
        else
            snprintf(values, sizeof values, "%s", row.accepted);
        char *range = row.kind == HAK_OPTION_IS_EITHER ? strrchr(values, '|') : NULL;
        if (range)
            snprintf(range, sizeof values - (size_t)(range - values), "|%lld|%lld",
                     (long long)row.least, (long long)row.most);
        hakmem_option_get(row.name, before, sizeof before);
        if (!row.any_time) {
            char *first = strtok(values, "|");
            assert_int_equal(hakmem_option_set(row.name, first), EPERM);
            expect_now(i, before, i == HAK_OPTION_SHARDS ? "environment" : "default");
        } else {
            for (char *rest = values, *value; (value = strtok_r(rest, "|", &rest)) != NULL;) {
                if (!hak_option_is_served(&row, strtoll(value, NULL, 10))) {
                    assert_int_equal(hakmem_option_set(bare(i), value), ENOTSUP);
                    continue;
                }
                assert_int_equal(hakmem_option_set(bare(i), value), 0);
                expect_now(i, value, "program");
                assert_int_equal(hakmem_option_set(bare(i), "rubbish"), EINVAL);
                expect_now(i, value, "program");
            }
            assert_int_equal(hakmem_option_set(row.name, before), 0);
        }
        bool takes_all = row.kind == HAK_OPTION_IS_TEXT || row.kind == HAK_OPTION_IS_OBSOLETE;
        if (!takes_all) assert_int_equal(hakmem_option_set(row.name, "rubbish"), EINVAL);
    }
}

static void the_api_tells_its_errors(void **state) {
    (void)state;
    char text[8] = "before";
    errno = 77;
    assert_int_equal(hakmem_option_get("NO_SUCH", text, sizeof text), ENOENT);
    assert_int_equal(hakmem_option_get("hakmem_SHARDS", text, sizeof text), ENOENT);
    assert_int_equal(hakmem_option_set("NO_SUCH", "1"), ENOENT);
    assert_int_equal(hakmem_option_set("", ""), ENOENT);
    assert_int_equal(hakmem_option_get("ON_ERROR", text, 5), ERANGE);
    assert_int_equal(hakmem_option_get("ON_ERROR", NULL, 0), ERANGE);
    assert_string_equal(text, "before");
    assert_int_equal(hakmem_option_get("ON_ERROR", text, 6), 0);
    assert_string_equal(text, "abort");
    assert_int_equal(errno, 77);
}

/* The live page of another process may hold any number; one that the option cannot have has no word. */
static void a_value_that_none_can_be_has_no_text(void **state) {
    (void)state;
    static const int64_t values[] = {INT64_MIN, INT64_MIN + 1, -1000000, 1000000, INT64_MAX};
    for (int i = 0; i < HAK_OPTION_COUNT; i++) {
        const hak_option_row_t row = hak_option_row((hak_option_t)i);
        for (unsigned k = 0; k < sizeof values / sizeof *values; k++) {
            char text[40] = "?";
            const bool is_number = hak_option_is_number(row.kind) ||
                                   (row.kind == HAK_OPTION_IS_EITHER && values[k] > 0);
            hak_option_format((hak_option_t)i, values[k], text, sizeof text);
            if (is_number)
                assert_int_equal(strtoll(text, NULL, 10), values[k]);
            else
                assert_string_equal(text, "");
        }
    }
}

static void *set_in_turn(void *ends) {
    while (!atomic_load((atomic_bool *)ends)) {
        hakmem_option_set("PURGE_DELAY_MS", "999");
        hakmem_option_set("PURGE_DELAY_MS", "3600000");
    }
    return NULL;
}

/* Room for the shorter of two values that another thread sets in turn: it comes whole, or there is an error. */
static void a_value_that_changes_is_not_cut(void **state) {
    (void)state;
    enum { CALLS = 100000 };
    atomic_bool ends = false;
    unsigned read = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, set_in_turn, &ends), 0);
    for (unsigned i = 0; i < CALLS || (read == 0 && i < 100 * CALLS); i++) {
        char text[4] = "";
        const int error = hakmem_option_get("PURGE_DELAY_MS", text, sizeof text);
        if (error == 0 && strcmp(text, "500") == 0) continue; /* the thread has not begun */
        REQUIRE(error == ERANGE || strcmp(text, "999") == 0, "the value is cut: %s", text);
        read += error == 0;
    }
    atomic_store(&ends, true);
    pthread_join(thread, NULL);
    hakmem_option_set("PURGE_DELAY_MS", "500");
    assert_true(read > 0);
}

static void the_options_can_be_listed(void **state) {
    (void)state;
    struct hakmem_option info;
    size_t count = 0;
    for (; hakmem_option_info(count, &info, sizeof info) == 0; count++) {
        hak_option_row_t row = hak_option_row((hak_option_t)count);
        assert_string_equal(info.name, row.name);
        assert_string_equal(info.help, row.help);
        assert_string_equal(info.accepted, row.accepted);
        assert_string_equal(info.unit, row.unit);
        assert_string_equal(info.type, hak_option_kinds[row.kind]);
        assert_string_equal(info.tier, hak_option_tiers[row.tier]);
        assert_int_equal(info.is_changeable, row.any_time);
    }
    assert_int_equal(count, HAK_OPTION_COUNT);
    assert_int_equal(hakmem_option_info((size_t)-1, &info, sizeof info), ENOENT);
}

/* A program built against an older or a newer header. */
static void other_versions_of_the_struct_work(void **state) {
    (void)state;
    struct {
        struct hakmem_option info;
        char more[16];
    } newer;
    memset(&newer, 0xAA, sizeof newer);
    assert_int_equal(hakmem_option_info(0, &newer.info, sizeof newer), 0);
    for (size_t i = 0; i < sizeof newer.more; i++) assert_int_equal(newer.more[i], 0);
    memset(&newer, 0xAA, sizeof newer);
    assert_int_equal(hakmem_option_info(0, &newer.info, offsetof(struct hakmem_option, unit)), 0);
    assert_string_equal(newer.info.type, "word");
    assert_int_equal(((unsigned char *)&newer.info.unit)[0], 0xAA);
}

/* Sizes of the mid tier of which the thread has free blocks in its magazine. */
static void a_cached_block_obeys_the_option(void **state) {
    (void)state;
    enum { BLOCKS = 8, SIZE = 5000 };
    void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = hakmem_malloc(SIZE);
    const size_t of_class = hakmem_malloc_usable_size(blocks[0]);
    for (unsigned i = 0; i < BLOCKS; i++) hakmem_free(blocks[i]);
    assert_int_equal(hakmem_option_set("WRAP_L2", "0"), 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = hakmem_malloc(SIZE);
        assert_true(hakmem_malloc_usable_size(blocks[i]) > of_class); /* whole grains */
    }
    for (unsigned i = 0; i < BLOCKS; i++) hakmem_free(blocks[i]);
    assert_int_equal(hakmem_option_set("WRAP_L2", "1"), 0);
}

int main(int argc, char **argv) {
    (void)argc;
    const char *environment[] = {"HAKMEM_SHARDS=2", NULL};
    unit_need_environment(argv, environment);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_sets_what_may_change),
        cmocka_unit_test(a_cached_block_obeys_the_option),
        cmocka_unit_test(the_api_tells_its_errors),
        cmocka_unit_test(a_value_that_none_can_be_has_no_text),
        cmocka_unit_test(a_value_that_changes_is_not_cut),
        cmocka_unit_test(the_options_can_be_listed),
        cmocka_unit_test(other_versions_of_the_struct_work),
    };
    return cmocka_run_group_tests_name("option_api", tests, NULL, NULL);
}
