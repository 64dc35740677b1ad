/* witness.c - preloaded beside the allocator: each process writes down whose malloc it uses.
 *
 * One line "PROGRAM<tab>LIBRARY" is appended to the file named by TEST_WITNESS when a process starts.
 * The witness stands first in LD_PRELOAD, so the next malloc after it in the linker's search order is
 * the one that the program gets, unless the program itself defines malloc. (Asking for the default
 * one would give the linkage entry of a program that is not position independent.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void testify(void) {
    char line[8300];
    char program[4097];
    Dl_info info = {.dli_fname = "?"};
    const char *path = getenv("TEST_WITNESS");
    if (path == NULL) return;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = 0;
    void *address = dlsym(RTLD_NEXT, "malloc");
    if (address != NULL) dladdr(address, &info);
    int size = snprintf(line, sizeof line, "%s\t%s\n", program, info.dli_fname);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    /* A line that cannot be written is missed by the driver, which then fails. */
    ssize_t written = write(file, line, (size_t)size);
    (void)written;
    close(file);
}
