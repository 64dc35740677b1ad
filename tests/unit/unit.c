#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/environment.h"
#include "options/options.h"
#include "shard/shard.h"

static const char self[] = "/proc/self/exe";

typedef struct {
    const char *argument;
    const char *const *environment;
} again_t;

static void run_again(const void *context) {
    const again_t *again = context;
    const char *arguments[] = {self, again->argument, NULL};
    execve(self, (char **)(uintptr_t)arguments, (char **)(uintptr_t)again->environment);
    CHECK(false, "the test cannot start itself");
}

void unit_rerun(const char *argument, const char *const *environment, unsigned seconds,
                struct child_end *end) {
    again_t again = {argument, environment};
    child_run(run_again, &again, seconds, end);
}

void unit_child(void (*body)(const void *context), const void *context, unsigned seconds,
                const char *what) {
    struct child_end end;
    child_run(body, context, seconds, &end);
    REQUIRE(end.in_time, "%s: no end after %u s; stderr: %s", what, seconds, end.err);
    REQUIRE(end.status == 0, "%s: status %#x; stderr: %s", what, (unsigned)end.status, end.err);
}

static bool is_set(const char *variable) {
    for (char **at = environ; *at; at++)
        if (strcmp(*at, variable) == 0) return true;
    return false;
}

void unit_need_environment(char **argv, const char *const *variables) {
    const char *environment[256];
    size_t count = 0;
    bool all = true;
    for (; variables[count]; count++) {
        environment[count] = variables[count];
        all = all && is_set(variables[count]);
    }
    hak_options_load();
    if (all) return;
    /* The first of two variables of one name counts. The size of superslabs is not a test's
     * business: it is run with each. */
    for (char **at = environ; *at && count < 255; at++)
        if (strncmp(*at, "HAKMEM_", 7) != 0 || strncmp(*at, "HAKMEM_SS_SIZE=", 15) == 0)
            environment[count++] = *at;
    environment[count] = NULL;
    execve(self, argv, (char **)(uintptr_t)environment);
    CHECK(false, "the test cannot start itself");
}

void unit_open_shards(unsigned count) {
    for (unsigned i = 0; i < count; i++) CHECK(hak_shard_open(i) == i, "no memory for shard %u", i);
}

unsigned unit_line_count(const char *text) {
    unsigned count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

unsigned unit_random(unsigned limit) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 20) % limit);
}
