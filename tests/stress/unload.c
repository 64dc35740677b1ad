/* unload.c - a library that has the archive in it allocates and is closed; forks after that run none of its code, nor
 * do threads that have used it, when they end, nor a thread of its own; nor do signals. Its files are closed.
 *
 *     unload LIBRARY */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "proc.h"

static bool is_mapped(const char *path) {
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no maps");
    while (fgets(line, sizeof line, maps)) found |= strstr(line, path) != NULL;
    fclose(maps);
    return found;
}

static unsigned count_files(void) {
    unsigned count = 0;
    DIR *files = opendir("/proc/self/fd");
    CHECK(files != NULL, "no /proc/self/fd");
    while (readdir(files)) count++;
    closedir(files);
    return count;
}

enum { SIGNALS = 64 };

/* Handlers of all signals, one after the other. Those of libc cannot be read. */
static void read_handlers(void (**handlers)(int)) {
    for (int number = 1; number <= SIGNALS; number++) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigaction(number, NULL, &action);
        handlers[number - 1] = action.sa_handler;
    }
}

static bool (*allocate)(void), (*allocate_much)(void);
static pthread_barrier_t used, closed;

static void *use(void *much) {
    CHECK(much ? allocate_much() : allocate(), "a thread does not allocate");
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL;
}

int main(int argc, char **argv) {
    static char much;
    pthread_t threads[2];
    int status;
    void (*before[SIGNALS])(int), (*after[SIGNALS])(int);
    CHECK(argc > 1, "usage: unload LIBRARY");
    watchdog(50, "a fork");
    read_handlers(before);
    const unsigned files_before = count_files();
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, "%s", dlerror());
    *(void **)&allocate = dlsym(library, "allocate");
    *(void **)&allocate_much = dlsym(library, "allocate_much");
    CHECK(allocate && allocate_much && allocate(), "it does not allocate");
    pthread_barrier_init(&used, NULL, 3);
    pthread_barrier_init(&closed, NULL, 3);
    for (unsigned i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, use, i ? &much : NULL) == 0, "no thread");
    pthread_barrier_wait(&used);
    CHECK(dlclose(library) == 0 && !is_mapped(argv[1]), "it stays");
    CHECK(count_files() == files_before, "%u files instead of %u", count_files(), files_before);
    read_handlers(after);
    for (unsigned i = 0; i < SIGNALS; i++)
        CHECK(after[i] == before[i], "signal %u has a handler that is not there", i + 1);
    proc_sleep_ms(600); /* a helper would wake */
    pthread_barrier_wait(&closed);
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a fork: %#x",
          (unsigned)status);
    printf("unload: done\n");
    return 0;
}
