/* vfork_page.c - children that share the memory of their parent allocate, and the process keeps its one live page.
 *
 *     HAKMEM_LIVE=1 HAKMEM_PURGE_THREAD=0 vfork_page [old]
 *
 * old: the kernel refuses MADV_WIPEONFORK, as Linux does before 4.14, and gVisor. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "filter.h"
#include "proc.h"

enum { CHILDREN = 3, CALLS = 300, DUE_MS = 300, WIPE_ON_FORK = 18 };

/* The page is made before main, so the program runs itself again. */
static void run_on_old_kernel(char *name) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FILTER_FIELD(nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FILTER_FIELD(args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIPE_ON_FORK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    filter_install(steps, sizeof steps / sizeof *steps);
    execl("/proc/self/exe", name, (char *)NULL);
    CHECK(false, "the program cannot run itself");
}

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

int main(int argc, char **argv) {
    int status;
    if (argc > 1) run_on_old_kernel(argv[0]);
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
