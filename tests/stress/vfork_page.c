/* vfork_page.c - children that share the memory of their parent allocate, and the process keeps its one live page.
 *
 *     HAKMEM_LIVE=1 HAKMEM_PURGE_THREAD=0 vfork_page */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { CHILDREN = 3, CALLS = 300, DUE_MS = 300 };

static unsigned count_pages(void) {
    char line[4096];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no maps");
    while (fgets(line, sizeof line, maps)) count += strstr(line, "hakmem-live") != NULL;
    fclose(maps);
    return count;
}

/* Slow ones, when the page is due. */
static void make_calls(void) {
    proc_sleep_ms(DUE_MS);
    for (unsigned i = 0; i < CALLS; i++) {
        void *volatile block = API(malloc)(200000);
        API(free)(block);
    }
}

int main(void) {
    int status;
    watchdog(60, "vfork");
    require_hakmem();
    make_calls();
    const unsigned before = count_pages();
    CHECK(before > 0, "no live page");
    for (unsigned i = 0; i < CHILDREN; i++) {
        const pid_t pid = vfork();
        if (pid == 0) {
            make_calls();
            _exit(0);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child: %#x",
              (unsigned)status);
        make_calls();
    }
    CHECK(count_pages() == before, "%u mappings of live pages, %u before", count_pages(), before);
    return 0;
}
