/* fork_stdio.c - forks while another thread flushes all streams, one of which allocates as it writes.
 *
 *     fork_stdio [forks]
 *
 * fflush(NULL) holds the list of streams while a cookie stream's write calls malloc; fork needs that
 * list, too, and must not wait for it while it holds the allocator's locks. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

#define BLOCK_SIZE 300000

static atomic_bool done;
static atomic_ulong writes;

/* Time for a fork to begin, and then a block that no thread cache has. */
static ssize_t write_slowly(void *cookie, const char *bytes, size_t length) {
    (void)cookie;
    (void)bytes;
    proc_sleep_ms(1);
    void *block = API(malloc)(BLOCK_SIZE);
    CHECK(block != NULL, "malloc(%d) gave NULL", BLOCK_SIZE);
    API(free)(block);
    atomic_fetch_add(&writes, 1);
    return (ssize_t)length;
}

static void *flush_all(void *stream) {
    while (!atomic_load(&done)) {
        fputc('x', stream);
        fflush(NULL);
        proc_sleep_ms(1); /* the list's lock is not fair: fork needs a gap */
    }
    return NULL;
}

int main(int argc, char **argv) {
    unsigned long forks = argument(argc, argv, 1, 200);
    watchdog(50, "fork among flushes of all streams");
    require_hakmem();
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_slowly});
    CHECK(stream != NULL, "no cookie stream");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, flush_all, stream) == 0, "no thread");
    while (atomic_load(&writes) == 0) proc_sleep_ms(1);
    for (unsigned long i = 0; i < forks; i++) {
        int status = -1;
        pid_t pid = fork();
        CHECK(pid >= 0, "fork failed");
        if (pid == 0) _exit(0);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %lu ended with %#x", i,
              (unsigned)status);
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
    fclose(stream);
    return 0;
}
