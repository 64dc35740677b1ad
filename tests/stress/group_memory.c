/* group_memory.c - a control group with little memory, where a process that takes too much is killed.
 *
 *     group_memory MIB PERCENT
 *
 * The process enters a group of its own with so much memory, and fills so many percent of it with blocks of
 * one size after the other, and with one block that grows. Each block is checked; what is freed must be there in time for
 * the next size.
 * Ends with 77 where no group can be made: no right to, or no such controller. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {48,     700,     1024, 3000,   20000, 60000,  100000,
                               700000, 3 * MIB, 16,   400000, 9000,  1500000};
enum { SIZES = sizeof sizes / sizeof *sizes };

static char group[256];

static bool write_to(const char *name, size_t value) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", group, name);
    FILE *file = fopen(path, "w");
    if (!file) return false;
    bool good = fprintf(file, "%zu\n", value) > 0;
    return fclose(file) == 0 && good;
}

/* Version 2 or version 1 of control groups. */
static bool make_group(size_t bytes) {
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    for (unsigned i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/hakmem-test-%d", roots[i], (int)getpid());
        if (mkdir(group, 0755) != 0) continue;
        if (write_to("memory.max", bytes) || write_to("memory.limit_in_bytes", bytes)) {
            write_to("memory.swap.max", 0);
            return true;
        }
        rmdir(group);
    }
    return false;
}

static void fill(size_t size, size_t bytes) {
    size_t count = bytes / (size + 24); /* with the table, and what a header may need */
    unsigned char **blocks = API(malloc)(count * sizeof *blocks);
    CHECK(blocks, "no table for blocks of %zu bytes", size);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = API(malloc)(size);
        CHECK(blocks[i], "no block of %zu bytes after %zu", size, i);
        memset(blocks[i], (int)(i % 251), size);
    }
    for (size_t i = 0; i < count; i++) {
        size_t last = size - 1;
        CHECK(blocks[i][0] == i % 251 && blocks[i][last] == i % 251,
              "block %zu of %zu bytes changed", i, size);
        API(free)(blocks[i]);
    }
    API(free)(blocks);
}

/* One block that grows where it is. */
static void grow(size_t bytes) {
    unsigned char *block = NULL;
    size_t size = 0;
    for (size_t more = 3 * MIB; size + more <= bytes; size += more) {
        unsigned char *grown = API(realloc)(block, size + more);
        CHECK(grown, "no block of %zu bytes", size + more);
        block = grown;
        memset(block + size, (int)(size / more % 251), more);
    }
    for (size_t i = 0; i < size; i += MIB)
        CHECK(block[i] == i / (3 * MIB) % 251, "byte %zu of %zu changed", i, size);
    API(free)(block);
}

static int work(size_t bytes) {
    for (unsigned i = 0; i < SIZES; i++) {
        fill(sizes[i], bytes);
        fprintf(stderr, "%zu ", sizes[i]);
    }
    fill(700000, bytes);
    grow(bytes);
    fprintf(stderr, "and one block that grows\n");
    return 0;
}

/* How the work ends in the group, as waitpid gives it. */
static int in_group(char *bytes) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        CHECK(write_to("cgroup.procs", (size_t)getpid()), "the group takes no process");
        execl("/proc/self/exe", "group_memory", "work", bytes, (char *)NULL);
        _exit(9);
    }
    CHECK(waitpid(pid, &status, 0) == pid, "no child");
    return status;
}

int main(int argc, char **argv) {
    CHECK(argc > 2, "group_memory MIB PERCENT");
    if (strcmp(argv[1], "work") == 0) return work(argument(argc, argv, 2, 0));
    char bytes[24];
    size_t limit = argument(argc, argv, 1, 0) * MIB;
    snprintf(bytes, sizeof bytes, "%zu", limit / 100 * argument(argc, argv, 2, 0));
    if (!make_group(limit)) {
        printf("no control group with a limit can be made here\n");
        return 77;
    }
    fprintf(stderr, "sizes that fit: ");
    int status = in_group(bytes);
    rmdir(group);
    CHECK(status == 0, "a process with %s bytes in use ends with %#x in a group of %zu", bytes,
          (unsigned)status, limit);
    printf("%d sizes, %s bytes in use, in a group of %zu\n", SIZES, bytes, limit);
    return 0;
}
