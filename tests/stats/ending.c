/* ending.c - a program that ends in the way its argument names; for report.py. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats.h"

enum { COUNT = 1000, SIZE = 224, JSON_SIZE = 1 << 18 };

static void *blocks[COUNT];

/* A child that ends as `ending` says. */
static void fork_child(void (*ending)(int)) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0, "no child");
    if (pid == 0) {
        for (int i = 0; i < COUNT / 2; i++) API(free)(blocks[i]);
        ending(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child's status is %#x",
          (unsigned)status);
}

static void print_json(void) {
    static char text[JSON_SIZE], part[JSON_SIZE];
    size_t length = hakmem_stats_json(text, sizeof text);
    CHECK(length < sizeof text && strlen(text) == length, "a JSON of %zu bytes", length);
    fwrite(text, 1, length, stdout);
    CHECK(hakmem_stats_json(NULL, 0) > 1000, "the length is not told without a buffer");
    part[0] = part[1] = 'x';
    CHECK(hakmem_stats_json(part, 1) > 1000 && part[0] == 0 && part[1] == 'x',
          "a buffer of one byte is not just ended");
    hakmem_stats_json(part, 100);
    CHECK(strlen(part) == 99 && memcmp(part, text, 99) == 0,
          "a short buffer has not the beginning");
}

static pthread_barrier_t all_are_here, may_end;

static void *fill_a_cache(void *unused) {
    void *own[COUNT], *mid = API(malloc)(10000);
    for (int i = 0; i < COUNT; i++) own[i] = API(malloc)(SIZE);
    for (int i = 0; i < COUNT; i++) API(free)(own[i]);
    API(free)(mid);
    pthread_barrier_wait(&all_are_here);
    pthread_barrier_wait(&may_end);
    return unused;
}

static void print_json_of_threads(void) {
    pthread_t threads[3];
    pthread_barrier_init(&all_are_here, NULL, 4);
    pthread_barrier_init(&may_end, NULL, 4);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, fill_a_cache, NULL) == 0, "no thread");
    pthread_barrier_wait(&all_are_here);
    print_json();
    pthread_barrier_wait(&may_end);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

static void print_json_and_end(int status) {
    print_json();
    fflush(stdout);
    _exit(status);
}

/* Names, in the order of their numbers. */
static void print_names(void) {
    struct hakmem_stat stat;
    for (size_t i = 0; hakmem_stats_info(i, &stat, sizeof stat) == 0; i++) {
        uint64_t value;
        CHECK(hakmem_stats_get(stat.name, &value) == 0, "there is no %s", stat.name);
        printf("%s %d %llu %s\n", stat.name, stat.is_counter, (unsigned long long)value, stat.unit);
        i += i > 200 ? 50 : 0; /* not all of a thousand */
    }
    uint64_t value = 7;
    CHECK(hakmem_stats_get("pool.nothing", &value) == ENOENT && value == 7,
          "pool.nothing is known");
    CHECK(hakmem_stats_get("", &value) == ENOENT, "the empty name is known");
}

static int open_files(void) {
    int count = 0;
    DIR *files = opendir("/proc/self/fd");
    CHECK(files != NULL, "no /proc/self/fd");
    for (struct dirent *entry; (entry = readdir(files)) != NULL;) count += entry->d_name[0] != '.';
    closedir(files);
    return count;
}

/* The descriptors from `first` to `last` become those of a file with data. */
static void become(const char *path, int first, int last) {
    for (int i = first; i <= last; i++) close(i);
    int file = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
    CHECK(file >= 0 && write(file, "data", 4) == 4, "no file %s", path);
    for (int i = first; i <= last; i++)
        if (i != file) dup2(file, i);
    if (file < first || file > last) close(file);
}

/* Stderr becomes a pipe; its reader is a child that copies its first bytes to stdout. */
static void become_pipe(void) {
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t pid = fork();
    CHECK(pid >= 0, "no child");
    if (pid == 0) {
        close(ends[1]);
        char text[256];
        ssize_t size = read(ends[0], text, sizeof text);
        _exit(write(STDOUT_FILENO, text, size > 0 ? (size_t)size : 0) != size);
    }
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
}

enum { MANY = 300 }; /* descriptors, the library's own among them */

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "exit";
    const char *path = argc > 2 ? argv[2] : "";
    for (int i = 0; i < COUNT; i++) blocks[i] = API(malloc)(SIZE);
    if (strcmp(way, "fork_exit") == 0) fork_child(exit);
    if (strcmp(way, "fork__exit") == 0) fork_child(_exit);
    if (strcmp(way, "_exit") == 0) _exit(0);
    if (strcmp(way, "thread") == 0) pthread_exit(NULL);
    if (strcmp(way, "close") == 0) close(STDERR_FILENO);
    if (strcmp(way, "daemon") == 0) become(path, 0, MANY);
    if (strcmp(way, "daemon_of_three") == 0) become(path, 0, 2);
    if (strcmp(way, "many_files") == 0) become(path, 3, MANY);
    if (strcmp(way, "log") == 0) become(path, 2, 2);
    if (strcmp(way, "pipe") == 0) become_pipe();
    if (strcmp(way, "late_daemon") == 0) {
        CHECK(hakmem_option_set("STATS", "text") == 0, "STATS cannot be set");
        become(path, 0, MANY);
    }
    if (strcmp(way, "exec") == 0) execl("/proc/self/exe", "ending", "exit", (char *)NULL);
    if (strcmp(way, "json") == 0) print_json();
    if (strcmp(way, "threads") == 0) print_json_of_threads();
    if (strcmp(way, "fork_json") == 0) fork_child(print_json_and_end);
    if (strcmp(way, "names") == 0) print_names();
    if (strcmp(way, "xml") == 0) CHECK(API(malloc_info)(0, stdout) == 0, "malloc_info failed");
    if (strcmp(way, "stats") == 0) API(malloc_stats)();
    if (strcmp(way, "files") == 0) printf("%d\n", open_files());
    return 0;
}
