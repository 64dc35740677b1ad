/* holder.c - a program with a live page, which live.py reads from outside.
 *
 *     holder MODE
 *
 * It does what its mode says and prints "ready" and one or two numbers. A line on stdin makes it go on; at
 * the end of stdin it ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

enum { COUNT = 20000, SIZE = 224, FIRST_FILE = 3, LAST_FILE = 300, MIB = 1024 * 1024 };

static unsigned char *blocks[COUNT * 10];

static void hold(size_t count, size_t size) {
    for (size_t i = 0; i < count; i++) {
        CHECK((blocks[i] = API(malloc)(size)) != NULL, "no memory");
        memset(blocks[i], 1, size);
    }
}

/* Slow calls for some time: so many that one of them is late enough to refresh the page. */
static void work(unsigned ms) {
    for (unsigned i = 0; i < ms / 10; i++) {
        for (size_t k = 0; k < 200; k++) blocks[COUNT + k] = API(malloc)(3000);
        for (size_t k = 0; k < 200; k++) API(free)(blocks[COUNT + k]);
        usleep(10000);
    }
}

static void say(const char *word, long number) {
    printf("%s %ld\n", word, number);
    fflush(stdout);
}

static bool told(void) {
    char line[16];
    return fgets(line, sizeof line, stdin) != NULL;
}

/* Blocks of one size, and a few in a thread of their own. */
static void *hold_there(void *unused) {
    (void)unused;
    for (size_t i = 0; i < 100; i++) blocks[COUNT + i] = API(malloc)(SIZE);
    return NULL;
}

static void mode_hold(void) {
    pthread_t thread;
    hold(COUNT, SIZE);
    CHECK(pthread_create(&thread, NULL, hold_there, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    say("ready", (long)COUNT + 100);
    while (told()) {
        for (size_t i = 0; i < COUNT / 2; i++) API(free)(blocks[i]);
        work(100);
        say("half", (long)COUNT / 2 + 100);
    }
}

/* One block in 16 stays, so that hardly a page is free. */
static void mode_pinned(void) {
    hold((size_t)COUNT * 10, SIZE);
    for (size_t i = 0; i < (size_t)COUNT * 10; i++)
        if (i % 16) API(free)(blocks[i]);
    work(600);
    say("ready", (long)COUNT * 10 / 16);
    while (told()) continue;
}

/* Memory of every kind: blocks of many sizes with gaps, large and huge ones, some of them not used,
 * some freed, a mapping that is not HAKMEM's. */
static void mode_spike(void) {
    for (size_t i = 0; i < COUNT * 4; i++) {
        blocks[i] = API(malloc)(100 + i % 1500);
        memset(blocks[i], 1, 100 + i % 1500);
    }
    for (size_t i = 0; i < COUNT * 4; i++)
        if (i % 5) API(free)(blocks[i]);
    for (size_t i = 0; i < 40; i++) {
        unsigned char *large = API(malloc)(200000 + i * 1000), *huge = API(malloc)((size_t)3 * MIB);
        CHECK(large && huge, "no memory");
        memset(large, 1, 200000);
        memset(huge, 1, MIB);
        blocks[COUNT * 4 + i] = large;
        blocks[COUNT * 4 + 40 + i] = huge;
    }
    for (size_t i = 0; i < 80; i++)
        if (i % 3 == 0) API(free)(blocks[COUNT * 4 + i]);
    say("ready", 0);
    while (told()) continue;
}

/* Far more blocks above 1 MiB than a live page has ranges; two pages of each are used. */
static void mode_huge(void) {
    enum { HUGE_BLOCKS = 4000, HUGE_SIZE = 5 * MIB / 4, USED = 8192 };
    for (size_t i = 0; i < HUGE_BLOCKS; i++) {
        CHECK((blocks[i] = API(malloc)(HUGE_SIZE)) != NULL, "no memory");
        memset(blocks[i], 1, USED);
    }
    say("ready", (long)HUGE_BLOCKS * USED);
    while (told()) continue;
}

/* A child that allocates has its own page; one that does not has none; exec leaves none behind. */
static void mode_family(void) {
    hold(COUNT, SIZE);
    pid_t busy = fork();
    if (busy == 0) {
        hold(COUNT * 2, SIZE);
        work(400);
        say("busy", (long)COUNT * 3);
        while (told()) continue;
        _exit(0);
    }
    pid_t quiet = fork();
    if (quiet == 0) {
        char byte;
        while (read(STDIN_FILENO, &byte, 1) > 0) continue;
        _exit(0);
    }
    pid_t other = fork();
    if (other == 0) {
        unsetenv("LD_PRELOAD");
        execlp("sleep", "sleep", "1000", (char *)NULL);
        _exit(127);
    }
    pid_t borrower = vfork();
    if (borrower == 0) _exit(0);
    waitpid(borrower, NULL, 0);
    work(400);
    say("busy_child", busy);
    say("quiet_child", quiet);
    say("other_child", other);
    say("ready", COUNT);
    while (told()) continue;
    kill(other, SIGKILL);
    while (wait(NULL) > 0) continue;
}

/* All descriptors closed as by a daemon, and their numbers given to a file whose contents must stay. */
static void *go_on_alone(void *unused) {
    usleep(100000); /* main ends */
    work(400);
    say("ready", (long)COUNT);
    while (told()) continue;
    exit(0);
    return unused;
}

/* Main leaves, the process goes on. */
static void mode_leader(void) {
    pthread_t thread;
    hold(COUNT, SIZE);
    CHECK(pthread_create(&thread, NULL, go_on_alone, NULL) == 0, "no thread");
    pthread_exit(NULL);
}

static void mode_closed(void) {
    static const char text[] = "as it was\n";
    char name[] = "/tmp/hakmem-test-XXXXXX", back[sizeof text] = "";
    struct stat status;
    hold(COUNT, SIZE);
    int file = mkstemp(name);
    CHECK(file >= 0 && write(file, text, sizeof text - 1) == sizeof text - 1, "no file");
    unlink(name);
    for (int i = FIRST_FILE; i < LAST_FILE; i++)
        if (i != file) dup2(file, i);
    hold(COUNT * 2, SIZE);
    work(600);
    CHECK(pread(LAST_FILE - 1, back, sizeof back, 0) == sizeof text - 1 &&
              strcmp(back, text) == 0 && fstat(file, &status) == 0 &&
              status.st_size == sizeof text - 1,
          "the program's file was written to");
    pid_t child = fork();
    if (child == 0) {
        hold(COUNT * 2, SIZE);
        _exit(fcntl(LAST_FILE - 1, F_GETFD) < 0); /* the child gives up its own file only */
    }
    int end;
    CHECK(waitpid(child, &end, 0) == child && end == 0, "the child's status is %#x", (unsigned)end);
    say("ready", (long)COUNT * 3);
    while (told()) continue;
}

/* A system that refuses threads: slow calls refresh the page. */
static void mode_refused(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
          "no filter");
    hold(COUNT, SIZE);
    work(800);
    say("ready", COUNT);
    while (told()) work(400);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"leader", mode_leader},   {"hold", mode_hold},     {"spike", mode_spike},
                 {"pinned", mode_pinned},   {"family", mode_family}, {"closed", mode_closed},
                 {"refused", mode_refused}, {"huge", mode_huge}};
    watchdog(280, "a program with a live page");
    require_hakmem();
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, argv[1]) == 0) modes[i].run();
    return 0;
}
