/* early.c - a program that contains the archive, under HAKMEM_PROFILE=HARDENED: the blocks of its own constructors are
 * hardened like all others. A write behind one is found, and so is a function that does not match. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

enum { SECONDS = 20, SIZE = 24, LARGE = 100000 };

void delete_block(void *block) __asm__("_ZdlPv"); /* operator delete */

static char *small, *large;

/* In C++ an object outside of all functions would do this. */
__attribute__((constructor)) static void allocate(void) {
    small = API(malloc)(SIZE);
    large = API(malloc)(LARGE);
}

static void overflow_small(const void *unused) {
    (void)unused;
    proc_no_core_files();
    *(volatile char *)(small + SIZE) = 0;
    API(free)(small);
}
static void overflow_large(const void *unused) {
    (void)unused;
    proc_no_core_files();
    *(volatile char *)(large + LARGE) = 0;
    API(free)(large);
}
static void mismatch(const void *unused) {
    (void)unused;
    proc_no_core_files();
    delete_block(small);
}

static void check(void (*body)(const void *), const char *function, const char *kind,
                  const void *block) {
    struct child_end end;
    char wanted[100];
    child_run(body, NULL, SECONDS, &end);
    snprintf(wanted, sizeof wanted, "hakmem: %s(): %s: %p ", function, kind, block);
    CHECK(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT &&
              strncmp(end.err, wanted, strlen(wanted)) == 0,
          "status %#x, \"%s\", wanted \"%s\"", end.status, end.err, wanted);
}

int main(void) {
    watchdog(60, "blocks of constructors");
    require_hakmem();
    CHECK(API(malloc_usable_size)(small) == SIZE, "%zu bytes", API(malloc_usable_size)(small));
    check(overflow_small, "free", "overflow", small);
    check(overflow_large, "free", "overflow", large);
    check(mismatch, "operator delete", "wrong function", small);
    API(free)(small);
    API(free)(large);
    return 0;
}
