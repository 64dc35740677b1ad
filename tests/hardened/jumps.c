/* jumps.c - the program's handler of SIGABRT jumps out of the report of a damaged block: the block that was being freed
 * is free all the same, whatever its size. So is one whose free finds a write to another block. */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { TURNS = 20 };

static sigjmp_buf back;

static void jump_back(int number) {
    (void)number;
    siglongjmp(back, 1);
}

static uint64_t live(void) {
    int (*get)(const char *, uint64_t *) = dlsym(RTLD_DEFAULT, "hakmem_stats_get");
    uint64_t value = 0;
    CHECK(get && get("total.live", &value) == 0, "there is no such figure");
    return value;
}

/* Small classes, those of a page and more, with colours and without, large and huge blocks. */
static const size_t sizes[] = {24, 100, 1000, 3000, 14000, 40000, 100000, 3000000};

static void free_damaged(size_t size) {
    char *volatile block = API(malloc)(size);
    CHECK(block != NULL, "no block of %zu bytes", size);
    block[size] = 0;
    API(free)(block);
    CHECK(false, "the free of a damaged block of %zu bytes is not reported", size);
}

static void test_size(size_t size) {
    static unsigned turns;
    const uint64_t before = live();
    for (turns = 0; turns < TURNS; turns++)
        if (sigsetjmp(back, 1) == 0) free_damaged(size);
    CHECK(live() <= before, "of %u damaged blocks of %zu bytes %d are lost", (unsigned)TURNS, size,
          (int)(live() - before));
}

/* A thread frees MANY blocks, so that some go back to their slab and are compared with zero; WRITTEN of them were
 * written to after their free. */
enum { MANY = 6000, WRITTEN = 600, SIZE = 200 };

static void test_writes(void) {
    static char *blocks[MANY];
    static volatile unsigned freed, jumps;
    const uint64_t before = live();
    for (unsigned i = 0; i < MANY; i++) CHECK((blocks[i] = API(malloc)(SIZE)) != NULL, "no block");
    freed = jumps = 0;
    while (freed < MANY) {
        if (sigsetjmp(back, 1) != 0) jumps++;
        while (freed < MANY) {
            char *block = blocks[freed++];
            API(free)(block);
            if (freed % (MANY / WRITTEN) == 0) block[SIZE / 2] = 1;
        }
    }
    CHECK(jumps > 5, "%u jumps in frees", jumps);
    while (freed > 0) { /* these find the other blocks that were written to */
        if (sigsetjmp(back, 1) != 0) jumps++;
        for (; freed > 0; freed--) blocks[freed - 1] = API(malloc)(SIZE);
    }
    while (freed < MANY) {
        if (sigsetjmp(back, 1) != 0) jumps++;
        while (freed < MANY) API(free)(blocks[freed++]);
    }
    CHECK(live() <= before, "%d of %u blocks are lost in %u jumps", (int)(live() - before),
          (unsigned)MANY, jumps);
}

int main(void) {
    watchdog(60, "jumps out of reports");
    require_hakmem();
    proc_no_core_files();
    signal(SIGABRT, jump_back);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) test_size(sizes[i]);
    test_writes();
    return 0;
}
