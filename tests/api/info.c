/* info.c - malloc_usable_size, malloc_trim, mallinfo, mallinfo2, mallopt, malloc_stats and
 * malloc_info, after their manual pages. */
#define _GNU_SOURCE
#include "api.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <unistd.h>

#include "proc.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void *blocks[100000];

/* Allocates count blocks of the size and returns the sum of their usable sizes. */
static size_t allocate(size_t count, size_t size) {
    size_t usable = 0;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = API(malloc)(size);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, size);
        usable += API(malloc_usable_size)(blocks[i]);
    }
    return usable;
}

static void release(size_t count) {
    for (size_t i = 0; i < count; i++) API(free)(blocks[i]);
}

static const struct load {
    size_t count;
    size_t size;
} loads[] = {
    {100000, 16}, {50000, 100}, {20000, 1000}, {3000, 10000}, {400, 100000}, {20, 3000000},
};

#define LOAD_COUNT (sizeof loads / sizeof loads[0])

static void usable_size_of_null_is_zero(void **state) {
    (void)state;
    assert_int_equal(API(malloc_usable_size)(NULL), 0);
}

static size_t live_bytes(const api_mallinfo2 *info) { return info->uordblks + info->hblkhd; }

static void mallinfo2_grows_by_what_is_allocated(void **state) {
    (void)state;
    for (size_t i = 0; i < LOAD_COUNT; i++) {
        api_mallinfo2 before = API(mallinfo2)();
        size_t usable = allocate(loads[i].count, loads[i].size);
        api_mallinfo2 during = API(mallinfo2)();
        release(loads[i].count);
        api_mallinfo2 after = API(mallinfo2)();
        size_t grown = live_bytes(&during) - live_bytes(&before);
        size_t slack = usable / 50 + 16 * KIB;
        CHECK(grown + slack >= usable && grown <= usable + slack,
              "mallinfo2 grew by %zu for %zu blocks with %zu usable bytes", grown, loads[i].count,
              usable);
        CHECK(live_bytes(&after) <= live_bytes(&before) + slack,
              "mallinfo2 still shows %zu bytes more after all were freed",
              live_bytes(&after) - live_bytes(&before));
        assert_true(during.arena + during.hblkhd >= usable);
    }
}

#if !defined(TEST_PREFIXED)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static void mallinfo_agrees_with_mallinfo2(void **state) {
    (void)state;
    allocate(1000, 1000);
    struct mallinfo narrow = mallinfo();
    struct mallinfo2 wide = mallinfo2();
    release(1000);
    CHECK((size_t)narrow.uordblks + 64 * KIB > wide.uordblks &&
              (size_t)narrow.uordblks < wide.uordblks + 64 * KIB,
          "mallinfo says %d, mallinfo2 %zu", narrow.uordblks, wide.uordblks);
}
#pragma GCC diagnostic pop
#endif

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define RSS_IS_TRUE /* no shadow memory of a sanitizer in it */
#endif

#if defined(RSS_IS_TRUE)
static void trim_gives_memory_back(void **state) {
    (void)state;
    for (size_t i = 0; i < LOAD_COUNT; i++) {
        API(malloc_trim)(0);
        size_t base = proc_rss_kib();
        size_t usable = allocate(loads[i].count, loads[i].size);
        release(loads[i].count);
        int answer = API(malloc_trim)(0);
        size_t rest = proc_rss_kib();
        CHECK(answer == 0 || answer == 1, "malloc_trim returned %d", answer);
        CHECK(rest <= base + usable / KIB / 10 + 256,
              "%zu KiB of %zu KiB remain after free of %zu-byte blocks and malloc_trim(0)",
              rest - base, usable / KIB, loads[i].size);
    }
}
#endif

static void heap_works_after_trim(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        allocate(1000, 500);
        assert_in_range(API(malloc_trim)(1 << 20), 0, 1);
        release(1000);
        assert_in_range(API(malloc_trim)(SIZE_MAX / 2), 0, 1);
    }
}

static void mallopt_refuses_what_it_does_not_know(void **state) {
    (void)state;
    static const int params[] = {0, 2, 3, 4, -9, -50, 123456, -123456, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof params / sizeof params[0]; i++)
        assert_int_equal(API(mallopt)(params[i], 1), 0);
    assert_int_equal(API(mallopt)(M_MXFAST, -1), 0);
}

#if defined(TEST_PREFIXED)
static const char *value_of(const char *name) {
    static char value[64];
    assert_int_equal(hakmem_option_get(name, value, sizeof value), 0);
    return value;
}

/* May this process use more than one CPU, and the time of more than one? */
static bool has_cpus(void) {
    unsigned long quota = 2, period = 1;
    cpu_set_t cpus;
    FILE *file =
        fopen("/sys/fs/cgroup/cpu.max", "r"); /* of a container; else there is "max", or none */
    if (file && fscanf(file, "%lu %lu", &quota, &period) != 2) quota = 2, period = 1;
    if (file) fclose(file);
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1 && quota > period;
}

/* Parameters that are options in other words; and what the user has set stays. */
static void mallopt_sets_options(void **state) {
    (void)state;
    assert_string_equal(value_of("PURGE_DELAY_MS"), "500");
    hakmem_mallopt(M_TRIM_THRESHOLD, -1);
    assert_string_equal(value_of("PURGE_DELAY_MS"), "-1");
    hakmem_mallopt(M_TRIM_THRESHOLD, 0);
    assert_string_equal(value_of("PURGE_DELAY_MS"), "0");
    hakmem_mallopt(M_TRIM_THRESHOLD, 128 * 1024);
    assert_string_equal(value_of("PURGE_DELAY_MS"), "500");
    assert_string_equal(value_of("CACHE_BUDGET"), "12345678"); /* by the test's environment */
    assert_int_equal(hakmem_mallopt(M_ARENA_MAX, 1), 1);
    assert_string_equal(value_of("CACHE_BUDGET"), "12345678");
    assert_int_equal(hakmem_option_set("CACHE_BUDGET", "0"), 0); /* from here on the program's */
    hakmem_mallopt(M_ARENA_MAX, INT_MAX);
    assert_string_equal(value_of("CACHE_BUDGET"), "0");
    hakmem_mallopt(M_ARENA_MAX, 1);
    assert_string_equal(value_of("CACHE_BUDGET"), has_cpus() ? "31457280" : "0");
    hakmem_mallopt(M_ARENA_MAX, 0);
    assert_string_equal(value_of("CACHE_BUDGET"), "0");
}
#endif

/* Sends the descriptor into a new temporary file; restore() below undoes that and reads it. */
static int redirect(int descriptor, int *saved) {
    char name[] = "/tmp/test_api_XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    unlink(name);
    fflush(NULL);
    *saved = dup(descriptor);
    dup2(file, descriptor);
    return file;
}

static size_t restore(int descriptor, int saved, int file, char *text, size_t room) {
    fflush(NULL);
    dup2(saved, descriptor);
    close(saved);
    ssize_t length = pread(file, text, room - 1, 0);
    close(file);
    assert_true(length >= 0);
    text[length] = 0;
    return (size_t)length;
}

static void malloc_stats_writes_to_stderr_only(void **state) {
    (void)state;
    static char text[65536];
    int saved_out;
    int saved_err;
    int out = redirect(STDOUT_FILENO, &saved_out);
    int err = redirect(STDERR_FILENO, &saved_err);
    API(malloc_stats)();
    size_t err_length = restore(STDERR_FILENO, saved_err, err, text, sizeof text);
    size_t out_length = restore(STDOUT_FILENO, saved_out, out, text, sizeof text);
    CHECK(err_length > 0, "malloc_stats wrote nothing to stderr");
    CHECK(out_length == 0, "malloc_stats wrote %zu bytes to stdout", out_length);
}

static void malloc_info_writes_xml(void **state) {
    (void)state;
    static char text[1 << 20];
    FILE *stream = fmemopen(text, sizeof text, "w");
    assert_non_null(stream);
    assert_int_equal(API(malloc_info)(0, stream), 0);
    fclose(stream);
    CHECK(strstr(text, "<malloc") != NULL, "malloc_info wrote no <malloc> element");
    CHECK(strstr(text, "</malloc>") != NULL, "malloc_info did not close <malloc>");
    int depth = 0;
    for (const char *at = text; (at = strchr(at, '<')) != NULL; at++) {
        const char *end = strchr(at, '>');
        CHECK(end != NULL, "malloc_info left a tag open");
        if (at[1] == '/')
            depth--;
        else if (at[1] != '?' && at[1] != '!' && end[-1] != '/')
            depth++;
        CHECK(depth >= 0, "malloc_info closed a tag it did not open");
    }
    CHECK(depth == 0, "malloc_info left %d elements open", depth);
}

static void malloc_info_refuses_options(void **state) {
    (void)state;
    errno = 0;
    assert_int_equal(API(malloc_info)(1, stderr), -1);
    assert_int_equal(errno, EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usable_size_of_null_is_zero),
        cmocka_unit_test(mallinfo2_grows_by_what_is_allocated),
#if !defined(TEST_PREFIXED)
        cmocka_unit_test(mallinfo_agrees_with_mallinfo2),
#endif
#if defined(RSS_IS_TRUE)
        cmocka_unit_test(trim_gives_memory_back),
#endif
        cmocka_unit_test(heap_works_after_trim),
        cmocka_unit_test(mallopt_refuses_what_it_does_not_know),
#if defined(TEST_PREFIXED)
        cmocka_unit_test(mallopt_sets_options),
#endif
        cmocka_unit_test(malloc_stats_writes_to_stderr_only),
        cmocka_unit_test(malloc_info_writes_xml),
        cmocka_unit_test(malloc_info_refuses_options),
    };
    return run_group(tests);
}
