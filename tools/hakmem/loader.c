/* loader.c: asks the dynamic loader: LOADER --list PROGRAM loads all objects and runs nothing. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "override.h"

static void collect(int file, char *text, size_t size) {
    char rest[512];
    size_t length = 0;
    for (;;) {
        bool has_room = length + 1 < size;
        ssize_t got =
            has_room ? read(file, text + length, size - 1 - length) : read(file, rest, sizeof rest);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (has_room) length += (size_t)got;
    }
    text[length] = 0;
}

bool loader_list(const char *loader, const char *program, char *text, size_t size) {
    int ends[2], status = -1;
    text[0] = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        execl(loader, loader, "--list", program, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (child > 0) {
        collect(ends[0], text, size);
        while (waitpid(child, &status, 0) < 0)
            if (errno != EINTR) {
                status = 0; /* SIGCHLD is ignored, so there is no status; the output must do */
                break;
            }
    }
    close(ends[0]);
    return status == 0;
}
