/* hardened_figures.c - what the options of the hardened path change. */
#define _GNU_SOURCE
#include "hardened_figures.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "pool_figures.h"
#include "proc.h"

static void *volatile block_in_use;

static char *block_of(size_t size) {
    block_in_use = API(malloc)(size);
    CHECK(block_in_use != NULL, "no block of %zu bytes", size);
    return block_in_use;
}

/* 112 is the class, and so the usable size, of 100 bytes. */
long usable_of_hundred(void) { return (long)API(malloc_usable_size)(block_of(100)); }

/* Frees of 1,000-byte blocks until a freed one is given out again, on average. */
long frees_until_used_again(void) {
    enum { ROUNDS = 40, MOST = 20000 };
    long frees = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uintptr_t gone = (uintptr_t)block_of(1000);
        API(free)(block_in_use);
        for (int i = 0; i < MOST; i++, frees++) {
            void *block = block_of(1000);
            API(free)(block);
            if ((uintptr_t)block == gone) break;
        }
    }
    return frees / ROUNDS;
}

/* Of 200 blocks in a row, those that lie behind the one before. */
long neighbours_in_order(void) {
    uintptr_t last = 0;
    long count = 0;
    for (int i = 0; i < 200; i++) {
        uintptr_t block = (uintptr_t)block_of(47);
        count += block > last;
        last = block;
    }
    return count;
}

/* Of 100 blocks of 99 bytes, which no class has. */
long blocks_as_large_as_requested(void) {
    long count = 0;
    for (int i = 0; i < 100; i++) count += API(malloc_usable_size)(block_of(99)) == 99;
    return count;
}

long bytes_left_by_a_free(void) {
    volatile char *block = memset(block_of(64), 1, 64);
    long count = 0;
    API(free)(block_in_use);
    for (int i = 0; i < 64; i++) count += block[i] == 1;
    return count;
}

/* 1 when nobody noticed; the process does not get that far when it aborts. */
long after_a_write_after_free(void) {
    proc_no_core_files();
    volatile char *block = block_of(64);
    API(free)(block_in_use);
    block[5] = 1;
    for (int i = 0; i < 3000; i++) API(free)(block_of(64));
    return 1;
}

long after_a_free_of_another_size(void) {
    proc_no_core_files();
    API(free_sized)(block_of(64), 63);
    return 1;
}

/* True when the kernel cannot read a byte, and so nobody can. */
static int has_no_access(const void *at) {
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe");
    int refused = write(ends[1], at, 1) != 1 && errno == EFAULT;
    close(ends[0]);
    close(ends[1]);
    return refused;
}

long pages_behind_with_no_access(void) {
    long count = 0;
    for (int i = 0; i < 10; i++) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                  end = (uintptr_t)block_of(500000) + 500000;
        count += has_no_access((void *)((end + page - 1) / page * page));
    }
    return count;
}

/* Blocks of 64 KiB that nobody has freed: there is none but the guards. */
long guard_units(void) {
    for (int i = 0; i < 16000; i++) block_of(1000);
    return statistic("classes.65536.cached");
}

long empty_blocks_with_no_access(void) {
    long count = 0;
    for (int i = 0; i < 10; i++) count += has_no_access(block_of(0));
    return count;
}
