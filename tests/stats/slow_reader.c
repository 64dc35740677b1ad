/* slow_reader.c - malloc_stats() waits for the reader of stderr, and nobody else does.
 *
 *     slow_reader file    (HAKMEM_LIVE=1 HAKMEM_PURGE_THREAD=0 HAKMEM_STATS=json HAKMEM_STATS_FILE=file)
 *
 * stderr of the child is a pipe that nobody reads, and a thread of it prints until the pipe is full. Then
 * another thread reads figures, refreshes the live page in its slow calls, forks, and ends the process,
 * whose statistics are written. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "stats.h"

enum { BLOCKS = 64, LARGE = 70000, ROUNDS_MS = 600 };

static void *print(void *unused) {
    (void)unused;
    for (;;) hakmem_malloc_stats();
    return NULL;
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Returns when the printing thread waits: the pipe holds the same, and nearly all it can. A user with many pipes
 * gets short ones. */
static void await_full(int reader) {
    int held = -1, before;
    const int room = fcntl(reader, F_GETPIPE_SZ);
    struct timespec pause = {0, 50000000};
    do {
        before = held;
        nanosleep(&pause, NULL);
        CHECK(ioctl(reader, FIONREAD, &held) == 0, "no length of the pipe");
    } while (held != before || held < room / 2);
}

static void use(void) {
    void *blocks[BLOCKS];
    for (uint64_t end = now_ms() + ROUNDS_MS; now_ms() < end;) {
        for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = API(malloc)(LARGE);
        for (unsigned i = 0; i < BLOCKS; i++) API(free)(blocks[i]);
        CHECK(stat_of("total.live") > 0, "nothing is live");
    }
}

static void waits_for_nobody(const void *context) {
    int pipes[2], status;
    pthread_t thread;
    (void)context;
    CHECK(pipe(pipes) == 0 && dup2(pipes[1], STDERR_FILENO) == STDERR_FILENO, "no pipe");
    CHECK(pthread_create(&thread, NULL, print, NULL) == 0, "no thread");
    CHECK(API(malloc)(1) != NULL, "no memory"); /* stays */
    await_full(pipes[0]);
    use();
    pid_t pid = fork();
    if (pid == 0) _exit(stat_of("total.live") > 0 ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child of a fork: %#x",
          (unsigned)status);
    exit(0);
}

int main(int argc, char **argv) {
    char text[2] = "";
    CHECK(argc == 2, "usage: slow_reader file");
    unlink(argv[1]);
    child_must_succeed(waits_for_nobody, NULL, 20, "a process whose stderr nobody reads");
    FILE *file = fopen(argv[1], "r");
    CHECK(file && fread(text, 1, 1, file) == 1 && text[0] == '{', "no statistics at the end");
    fclose(file);
    return 0;
}
