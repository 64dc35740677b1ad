/* fork_files.c - forks while another thread writes a report to a FIFO; the child must not keep the file.
 *
 *     fork_files profile|error
 *
 * The FIFO is full, so the write waits for a second. Meanwhile main forks, and the child looks which of its descriptors
 * are that FIFO: main's own, and no other. If the child had the writer's as well, a reader of the FIFO would wait for
 * the end of the child. The program runs itself again with the options set. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { FORKS = 3, DESCRIPTORS = 200 };

static char fifo[200];
static int own; /* main's descriptor of it */
static atomic_bool writes, done;
static bool is_profile;

static unsigned descriptors(void) {
    unsigned count = 0;
    for (int file = 0; file < DESCRIPTORS; file++) {
        char name[40], target[sizeof fifo];
        snprintf(name, sizeof name, "/proc/self/fd/%d", file);
        ssize_t size = readlink(name, target, sizeof target - 1);
        target[size > 0 ? size : 0] = 0;
        count += strcmp(target, fifo) == 0;
    }
    return count;
}

static void report(void) {
    if (is_profile) {
        raise(SIGUSR2); /* HAKMEM_PROF_SIGNAL */
        return;
    }
    char *volatile block = API(malloc)(3000);
    API(free)(block);
    API(free)(block); /* HAKMEM_ON_ERROR=report */
}

static void *write_reports(void *unused) {
    while (!atomic_load(&done)) {
        if (!atomic_exchange(&writes, false))
            proc_sleep_ms(1);
        else
            report();
    }
    return unused;
}

/* Each profile has a number in its name. */
static void open_fifo(unsigned number) {
    char *end = strrchr(fifo, '/');
    strcpy(end, "/fifo");
    if (is_profile) snprintf(end, 20, "/fifo.%u", number + 1);
    CHECK(mkfifo(fifo, 0600) == 0, "no FIFO %s", fifo);
    own = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    CHECK(own >= 0 && descriptors() == 1, "the FIFO cannot be opened once");
}

static void fork_meanwhile(unsigned number) {
    char byte = 'x';
    int status = -1;
    open_fifo(number);
    while (write(own, &byte, 1) == 1) continue;
    atomic_store(&writes, true);
    while (descriptors() < 2) proc_sleep_ms(1);
    pid_t pid = fork();
    CHECK(pid >= 0, "fork failed");
    if (pid == 0) _exit((int)descriptors());
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "child %u ended with %#x", number,
          (unsigned)status);
    CHECK(WEXITSTATUS(status) == 1, "child %u has %d descriptors of the FIFO, not 1", number,
          WEXITSTATUS(status));
    while (descriptors() > 1)
        while (read(own, &byte, 1) == 1) continue;
    close(own);
    unlink(fifo);
}

static void run(void) {
    watchdog(60, "forks beside reports");
    require_hakmem();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, write_reports, NULL) == 0, "no thread");
    API(free)(API(malloc)(100000)); /* sampled */
    for (unsigned i = 0; i < FORKS; i++) fork_meanwhile(i);
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    *strrchr(fifo, '/') = 0;
    rmdir(fifo);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2, "usage: fork_files profile|error");
    is_profile = strcmp(argv[1], "profile") == 0;
    if (argc > 2) {
        snprintf(fifo, sizeof fifo, "%s", argv[2]);
        run();
        return 0;
    }
    char folder[] = "/tmp/hakmem_fork_files_XXXXXX";
    CHECK(mkdtemp(folder), "no folder");
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    setenv("HAKMEM_ON_ERROR", "report", 1);
    setenv("HAKMEM_PROF", is_profile ? "1" : "0", 1);
    setenv("HAKMEM_PROF_RATE", "1", 1);
    setenv("HAKMEM_PROF_SIGNAL", "12", 1); /* SIGUSR2 */
    setenv(is_profile ? "HAKMEM_PROF_FILE" : "HAKMEM_ERROR_FILE", fifo, 1);
    execl("/proc/self/exe", argv[0], argv[1], fifo, (char *)NULL);
    CHECK(false, "the program cannot run itself");
}
