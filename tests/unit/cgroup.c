/* cgroup.c: the limits of made-up control groups. */
#include "unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "os/cgroup.h"

static char root[64], groups[80];

static void write_file(const char *path, const char *text) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "cannot write %s", whole);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    return remove(path);
}

typedef struct {
    const char *what, *groups;
    const char *files[4][2];
    hak_cgroup_limits_t quota;
} groups_t;

#define LONG "0123456789012345678901234567890123456789012345678901234567890123456789"
static const groups_t cases[] = {
    {"nothing at all", NULL, {{NULL}}, {0, 0}},
    {"no limit", "0::/a\n", {{"/a/cpu.max", "max 100000\n"}}, {0, 0}},
    {"one and a half", "0::/a\n", {{"/a/cpu.max", "150000 100000\n"}}, {2, 0}},
    {"a part of one", "0::/a\n", {{"/a/cpu.max", "5000 100000\n"}}, {1, 0}},
    {"exactly three", "0::/a\n", {{"/a/cpu.max", "300000 100000\n"}}, {3, 0}},
    {"the smallest of nested ones, inside",
     "0::/a/b/c\n",
     {{"/a/cpu.max", "800000 100000\n"}, {"/a/b/c/cpu.max", "200000 100000\n"}},
     {2, 0}},
    {"the smallest of nested ones, outside",
     "0::/a/b/c\n",
     {{"/a/cpu.max", "200000 100000\n"},
      {"/a/b/cpu.max", "max 100000\n"},
      {"/a/b/c/cpu.max", "800000 100000\n"}},
     {2, 0}},
    {"in a container, its root", "0::/\n", {{"/cpu.max", "400000 100000\n"}}, {4, 0}},
    {"a group that is not to be seen", "0::/host/b\n", {{"/cpu.max", "400000 100000\n"}}, {4, 0}},
    {"a group outside", "0::/../../b\n", {{"/cpu.max", "400000 100000\n"}}, {4, 0}},
    {"garbage", "0::/a\n", {{"/a/cpu.max", "many of them\n"}}, {0, 0}},
    {"an empty file", "0::/a\n", {{"/a/cpu.max", ""}}, {0, 0}},
    {"no period", "0::/a\n", {{"/a/cpu.max", "100000"}}, {0, 0}},
    {"a period of 0", "0::/a\n", {{"/a/cpu.max", "100000 0\n"}}, {0, 0}},
    {"a number without end", "0::/a\n", {{"/a/cpu.max", "9" LONG " 1\n"}}, {0, 0}},
    {"a garbled list", "what is this\n::::\n\n0::/a", {{"/a/cpu.max", "100000 100000\n"}}, {0, 0}},
    {"version 1",
     "12:cpuset:/b\n4:cpu,cpuacct:/a\n1:name=systemd:/a\n",
     {{"/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n"},
      {"/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"},
      {"/cpuset/b/cpu.max", "100000 100000\n"}},
     {3, 0}},
    {"version 1 without a limit",
     "4:cpu:/a\n",
     {{"/cpu/a/cpu.cfs_quota_us", "-1\n"}, {"/cpu/a/cpu.cfs_period_us", "100000\n"}},
     {0, 0}},
    {"version 1 in a container",
     "4:cpuacct,cpu:/docker/" LONG "\n",
     {{"/cpuacct,cpu/cpu.cfs_quota_us", "200000\n"},
      {"/cpuacct,cpu/cpu.cfs_period_us", "100000\n"}},
     {2, 0}},
    {"version 1 by the name of one controller",
     "4:cpuacct,cpu:/a\n",
     {{"/cpu/a/cpu.cfs_quota_us", "100001\n"}, {"/cpu/a/cpu.cfs_period_us", "100000\n"}},
     {2, 0}},
    {"memory", "0::/a\n", {{"/a/memory.max", "1073741824\n"}}, {0, 1073741824}},
    {"memory without a limit",
     "0::/a\n",
     {{"/a/memory.max", "max\n"}, {"/a/memory.high", "max\n"}},
     {0, 0}},
    {"memory and CPUs, the smallest of nested ones",
     "0::/a/b\n",
     {{"/a/memory.max", "100000\n"},
      {"/a/b/memory.max", "max\n"},
      {"/a/b/memory.high", "200000\n"},
      {"/a/b/cpu.max", "200000 100000\n"}},
     {2, 100000}},
    {"memory that is reclaimed early",
     "0::/a\n",
     {{"/a/memory.max", "300000\n"}, {"/a/memory.high", "200000\n"}},
     {0, 200000}},
    {"memory in a container", "0::/../../b\n", {{"/memory.max", "4096000\n"}}, {0, 4096000}},
    {"memory of version 1",
     "9:memory:/a\n4:cpu,cpuacct:/a\n",
     {{"/memory/a/memory.limit_in_bytes", "536870912\n"},
      {"/memory/memory.limit_in_bytes", "9223372036854771712\n"}},
     {0, 536870912}},
    {"memory of version 1 without a limit",
     "9:memory:/a\n",
     {{"/memory/a/memory.limit_in_bytes", "9223372036854771712\n"}},
     {0, 0}},
    {"memory of another controller",
     "9:pids:/a\n",
     {{"/pids/a/memory.max", "4096\n"}, {"/memory/memory.limit_in_bytes", "8192\n"}},
     {0, 0}},
    {"a path that is too long",
     "0::/" LONG LONG LONG LONG LONG LONG LONG "\n",
     {{"/cpu.max", "100000 100000\n"}},
     {1, 0}},
};

static void quotas_of_made_up_groups(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(root, sizeof root, "/tmp/hakmem-cpu-XXXXXX");
        CHECK(mkdtemp(root) != NULL, "no folder");
        snprintf(groups, sizeof groups, "%s/groups", root);
        if (cases[i].groups) write_file("/groups", cases[i].groups);
        for (unsigned k = 0; k < 4 && cases[i].files[k][0]; k++)
            write_file(cases[i].files[k][0], cases[i].files[k][1]);
        hak_cgroup_limits_t quota = hak_cgroup_limits(groups, root);
        nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        REQUIRE(quota.cpus == cases[i].quota.cpus, "%s: %u CPUs, not %u", cases[i].what,
                (unsigned)quota.cpus, (unsigned)cases[i].quota.cpus);
        REQUIRE(quota.bytes == cases[i].quota.bytes, "%s: %zu bytes, not %zu", cases[i].what,
                (size_t)quota.bytes, (size_t)cases[i].quota.bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas_of_made_up_groups),
    };
    return cmocka_run_group_tests_name("cgroup", tests, NULL, NULL);
}
