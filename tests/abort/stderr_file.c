/* stderr_file.c - the line about a wrong free goes to stderr, and to no file that has its number.
 *
 * A log that the program made its stderr is stderr. A file that was opened close-on-exec and got
 * the number 2 because stderr was closed is not. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

static const char text[] = "data";

static void free_twice(void) {
    proc_no_core_files();
    void *volatile block = API(malloc)(100);
    API(free)(block);
    API(free)(block);
}

static void with_data_file(const void *path) {
    close(STDERR_FILENO);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file != STDERR_FILENO || write(file, text, sizeof text - 1) != sizeof text - 1) _exit(1);
    free_twice();
}

static void with_log(const void *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (dup2(file, STDERR_FILENO) != STDERR_FILENO) _exit(1);
    free_twice();
}

/* A pipe whose reader is gone: abort must still end the process, not the pipe's signal. */
static void with_closed_pipe(const void *unused) {
    int ends[2];
    (void)unused;
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) != STDERR_FILENO) _exit(1);
    close(ends[0]);
    close(ends[1]);
    free_twice();
}

/* The file's contents after a child that was aborted. */
static const char *contents_after(void (*body)(const void *), const char *path) {
    static char found[4096];
    struct child_end end;
    child_run(body, path, 30, &end);
    CHECK(end.in_time && WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT,
          "status %#x instead of an abort: %s", (unsigned)end.status, end.err);
    CHECK(end.err_length == 0, "the stderr that was closed has: %s", end.err);
    int file = open(path, O_RDONLY);
    if (file < 0) return "";
    ssize_t length = read(file, found, sizeof found - 1);
    close(file);
    CHECK(length >= 0, "%s cannot be read", path);
    found[length] = 0;
    return found;
}

int main(void) {
    char path[] = "/tmp/test_stderr_file_XXXXXX";
    watchdog(100, "the file behind stderr");
    require_hakmem();
    int file = mkstemp(path);
    CHECK(file >= 0, "no temporary file");
    close(file);
    const char *found = contents_after(with_data_file, path);
    CHECK(strcmp(found, text) == 0, "the data file has: %s", found);
    found = contents_after(with_log, path);
    CHECK(strstr(found, "hakmem: ") == found && strstr(found, "double free"), "the log has: %s",
          found);
    contents_after(with_closed_pipe, "/nonexistent");
    unlink(path);
    return 0;
}
