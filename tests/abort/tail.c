/* tail.c - a pointer into the room behind a slab's last block is refused, for every size class.
 *
 * The pointer lies where one more block would begin. If free accepted it, malloc would return it later,
 * and that block would reach into the next slab. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

enum { UNIT = 65536, BLOCKS_MOST = 4096 };

static void *volatile sink;

/* The first place behind the last block of the slab that `block` lies in, where one would begin;
 * NULL where the slab ends with its last block. */
static char *tail_of(char *block, size_t size) {
    uintptr_t unit = (uintptr_t)block / UNIT * UNIT, at = (uintptr_t)block;
    if (UNIT / size > BLOCKS_MOST) return (char *)(unit + BLOCKS_MOST * size);
    while (at + size <= unit + UNIT) at += size;
    return at < unit + UNIT ? (char *)at : NULL;
}

/* Frees the tail among other frees; what malloc returns then must not be it. */
static void free_tail(const void *argument) {
    size_t size = *(const size_t *)argument;
    proc_no_core_files();
    char *block = API(malloc)(size), *tail = tail_of(block, API(malloc_usable_size)(block));
    for (int i = 0; i < 3; i++) {
        void *other = API(malloc)(size);
        API(free)(other);
    }
    API(free)(tail);
    for (int i = 0; i < 10; i++) sink = API(malloc)(size);
}

int main(void) {
    unsigned tried = 0;
    watchdog(200, "the room behind the last block");
    require_hakmem();
    size_t size = 1;
    while (size < UNIT) {
        struct child_end end;
        char *block = API(malloc)(size);
        size_t usable = API(malloc_usable_size)(block);
        char *tail = usable <= UNIT ? tail_of(block, usable) : NULL;
        API(free)(block);
        if (tail) {
            child_run(free_tail, &size, 20, &end);
            CHECK(end.in_time && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT &&
                      strstr(end.err, "hakmem: free(): foreign pointer: 0x") == end.err,
                  "%zu bytes: the tail %p is accepted: status %#x, %s", size, (void *)tail,
                  (unsigned)end.status, end.err);
            tried++;
        }
        size = usable + 1;
    }
    printf("%u classes have room behind their last block\n", tried);
    CHECK(tried > 30, "only %u classes have a tail", tried);
    return 0;
}
