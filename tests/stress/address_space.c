/* address_space.c - limits on the address space, set late, and how much of it the heap uses.
 *
 *   test_stress_address_space room LIMIT_MIB SIZE WHEN
 *                                                   prints the KiB that malloc gives under a limit
 *   test_stress_address_space thread LIMIT_MIB      under it: a thread, a library, 3 MiB
 *   test_stress_address_space locked                mlockall(MCL_CURRENT) with up to 1 GiB allowed
 *   test_stress_address_space all_locked LIMIT_MIB SIZE
 *                                                   as room, where mlockall(MCL_CURRENT | MCL_FUTURE)
 *                                                   makes every mapping count as locked memory
 *   test_stress_address_space used                  addresses of a small and of a large heap
 *
 * address_space.py runs all but the last on the system's allocator, too, and compares. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { MIB = 1024 * 1024, EARLY = 1000, NOBODY = 65534 };

static void limit(int resource, const char *mib) {
    struct rlimit both;
    getrlimit(resource, &both);
    both.rlim_cur = strtoul(mib, NULL, 10) * MIB;
    if (both.rlim_cur > both.rlim_max) {
        struct rlimit more = {both.rlim_cur, both.rlim_cur};
        if (setrlimit(resource, &more) == 0) return; /* with the right to raise a limit */
        both.rlim_cur = both.rlim_max;
    }
    CHECK(setrlimit(resource, &both) == 0, "the limit cannot be set");
}

/* The program is under way when the limit comes, and was asked for its statistics. */
static void work_a_little(void) {
    static void *early[EARLY];
    FILE *nowhere = fopen("/dev/null", "w");
    CHECK(nowhere && API(malloc_info)(0, nowhere) == 0, "no statistics");
    fclose(nowhere);
    for (int i = 0; i < EARLY; i++) early[i] = API(malloc)((size_t)(i % 100) * 1000);
    for (int i = 0; i < EARLY; i++) API(free)(early[i]);
}

/* Blocks are linked by their first words; each keeps its mark in its last byte. */
static size_t take_all(size_t size, void **first) {
    size_t count = 0;
    for (void **block; (block = API(malloc)(size)) != NULL; count++) {
        ((char *)block)[size - 1] = 0x5A;
        *block = *first;
        *first = block;
    }
    return count;
}

static void free_all(size_t size, void **first) {
    while (*first) {
        void **block = *first;
        *first = *block;
        CHECK(((char *)block)[size - 1] == 0x5A, "a block of %zu bytes has changed", size);
        API(free)(block);
    }
}

/* The second time as much: what was freed is found again, also by blocks of another tier. */
static void take_twice(size_t size, size_t another) {
    void *first = NULL;
    size_t count = take_all(size, &first);
    free_all(size, &first);
    void *other = API(malloc)(another);
    CHECK(other != NULL, "%zu bytes cannot be had after all was freed", another);
    API(free)(other);
    size_t again = take_all(size, &first);
    CHECK(again >= count - count / 20, "%zu blocks, then %zu", count, again);
    printf("%zu\n", count * size / 1024);
}

/* 100 MiB stay in use, in blocks of many sizes: each is larger than the one before by a third. */
static void use_much(void) {
    const size_t most = (size_t)100 * MIB;
    for (size_t sum = 0, size = 16; sum < most; sum += size) {
        char *block = API(malloc)(size);
        CHECK(block != NULL, "no memory without a limit");
        *block = 1;
        size = size > MIB ? 16 : size + size / 3;
    }
}

/* `when` the limit comes: before the program starts, when it is under way, or has 100 MiB in use. */
static void room(const char *mib, const char *size, const char *when) {
    if (strcmp(when, "before") == 0) {
        limit(RLIMIT_AS, mib);
        execl("/proc/self/exe", "address_space", "room", mib, size, "since", NULL);
        CHECK(0, "the program cannot be started under the limit");
    }
    if (strcmp(when, "used") == 0) use_much();
    work_a_little();
    limit(RLIMIT_AS, mib);
    take_twice(strtoul(size, NULL, 10), strtoul(mib, NULL, 10) * MIB / 4);
}

static void *allocate_in_thread(void *unused) {
    (void)unused;
    return API(malloc)(100000);
}

static void thread(const char *mib) {
    pthread_t thread;
    void *block;
    work_a_little();
    limit(RLIMIT_AS, mib);
    CHECK(pthread_create(&thread, NULL, allocate_in_thread, NULL) == 0, "no thread");
    CHECK(pthread_join(thread, &block) == 0 && block, "no block in a thread");
    CHECK(dlopen("libm.so.6", RTLD_NOW) != NULL, "no library: %s", dlerror());
    CHECK(API(malloc)(3 * MIB) != NULL, "no block of 3 MiB");
    puts("done");
}

/* False where this user may lock less, and root of a container cannot give up rights that know no limit. */
static bool limit_locked(const char *mib) {
    struct rlimit both;
    API(free)(API(malloc)(1000));
    limit(RLIMIT_MEMLOCK, mib);
    return (geteuid() != 0 || setuid(NOBODY) == 0) && getrlimit(RLIMIT_MEMLOCK, &both) == 0 &&
           both.rlim_cur == strtoul(mib, NULL, 10) * MIB;
}

static void all_locked(const char *mib, size_t size) {
    if (!limit_locked(mib)) {
        puts("0");
        return;
    }
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall is refused under %s MiB", mib);
    take_twice(size, strtoul(mib, NULL, 10) * MIB / 4);
}

static void locked(void) {
    limit_locked("1024"); /* or what there is; it is the same on both allocators */
    puts(mlockall(MCL_CURRENT) == 0 ? "locked" : "refused");
    void *first = NULL;
    CHECK((first = API(malloc)(100 * MIB)) != NULL, "no block after mlockall");
}

/* In bytes: of the process's addresses. */
static size_t addresses(void) { return proc_status_kib("VmSize") * 1024; }

static void used(void) {
    enum { BLOCKS = 300000, SIZE = 8192 };
    static void *blocks[BLOCKS];
    work_a_little();
    printf("%zu\n", addresses() / MIB);
    fflush(stdout);
    for (int i = 0; i < BLOCKS; i++) CHECK((blocks[i] = API(malloc)(SIZE)) != NULL, "no memory");
    size_t in_use = (size_t)BLOCKS * SIZE, have = addresses();
    CHECK(have <= 2 * in_use + (size_t)64 * MIB, "%zu MiB of addresses for %zu", have / MIB,
          in_use / MIB);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "used";
    if (strcmp(what, "room") == 0 && argc > 4)
        room(argv[2], argv[3], argv[4]);
    else if (strcmp(what, "thread") == 0 && argc > 2)
        thread(argv[2]);
    else if (strcmp(what, "all_locked") == 0 && argc > 3)
        all_locked(argv[2], strtoul(argv[3], NULL, 10));
    else if (strcmp(what, "locked") == 0)
        locked();
    else
        used();
    return 0;
}
