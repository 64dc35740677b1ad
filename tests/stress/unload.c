/* unload.c - a library that has the archive in it allocates and is closed; forks after that run none of its code.
 *
 *     unload LIBRARY */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static bool is_mapped(const char *path) {
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no maps");
    while (fgets(line, sizeof line, maps)) found |= strstr(line, path) != NULL;
    fclose(maps);
    return found;
}

int main(int argc, char **argv) {
    bool (*allocate)(void);
    int status;
    CHECK(argc > 1, "usage: unload LIBRARY");
    watchdog(50, "a fork");
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, "%s", dlerror());
    *(void **)&allocate = dlsym(library, "allocate");
    CHECK(allocate && allocate(), "it does not allocate");
    CHECK(dlclose(library) == 0 && !is_mapped(argv[1]), "it stays");
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a fork: %#x",
          (unsigned)status);
    printf("unload: done\n");
    return 0;
}
