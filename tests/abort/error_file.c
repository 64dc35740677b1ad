/* error_file.c - HAKMEM_ERROR_FILE: what is appended to the file, and to which files nothing is.
 *
 * Each row runs this program again with the option set, as the child that misuses a block. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "child.h"
#include "proc.h"

enum { SECONDS = 20, SIZE = 65536 };

static char folder[] = "/tmp/hakmem_error_file_XXXXXX";
static char path[128], text[SIZE];

static void free_twice(void) {
    void *volatile block = API(malloc)(40);
    void *volatile other = API(malloc)(40);
    API(free)(block);
    API(free)(block);
    API(free)(other);
}
static void free_inside(void) {
    char *volatile block = API(malloc)(40);
    API(free)(block + 8);
}
static void write_behind_a_sampled_block(void) {
    for (int i = 0; i < 100; i++) {
        char *volatile block = API(malloc)(50);
        block[64] = 1; /* nobody can access it, or free sees it */
        API(free)(block);
    }
}

static const struct misuse {
    const char *name;
    void (*commit)(void);
} misuses[] = {
    {"twice", free_twice}, {"inside", free_inside}, {"behind", write_behind_a_sampled_block}};

static void commit(const char *name) {
    proc_no_core_files();
    for (unsigned i = 0; i < sizeof misuses / sizeof *misuses; i++)
        if (strcmp(misuses[i].name, name) == 0) misuses[i].commit();
}

struct run {
    const char *misuse, *file, *setting; /* one more NAME=VALUE */
};

static void execute(const void *context) {
    const struct run *run = context;
    setenv("HAKMEM_ERROR_FILE", run->file, 1);
    if (run->setting) putenv((char *)(uintptr_t)run->setting);
    execl("/proc/self/exe", "error_file", run->misuse, (char *)NULL);
}

/* Runs a misuse and reads `path`, which may not be there; returns the child's status. */
static int misuse(const char *name, const char *file, const char *setting, struct child_end *end) {
    struct run run = {name, file, setting};
    child_run(execute, &run, SECONDS, end);
    CHECK(end->in_time, "%s into %s does not end", name, file);
    memset(text, 0, sizeof text);
    int got = open(path, O_RDONLY | O_NONBLOCK);
    if (got >= 0) CHECK(read(got, text, sizeof text - 1) >= 0, "cannot read %s", path);
    if (got >= 0) close(got);
    return end->status;
}

static void use(const char *name) { snprintf(path, sizeof path, "%s/%s", folder, name); }

static void check_ended_by(int status, int number) {
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number, "status %#x", status);
}

/* The report has the line of stderr, the stack down to this program, and what is beside the block. */
static void test_contents(void) {
    struct child_end end;
    use("contents");
    check_ended_by(misuse("twice", path, NULL, &end), SIGABRT);
    CHECK(strncmp(end.err, "hakmem: free(): double free: ", 29) == 0, "stderr: %s", end.err);
    CHECK(strchr(end.err, '\n')[1] == 0, "stderr has more than the line: %s", end.err);
    CHECK(strncmp(text, end.err, strlen(end.err)) == 0, "the report begins with %s", text);
    CHECK(strstr(text, "  found in process "), "no thread in %s", text);
    CHECK(strstr(text, " test_error_file+0x"), "no stack in %s", text);
    CHECK(strstr(text, "and has 48 bytes") || strstr(text, "and has 64 bytes"), "no size: %s",
          text);
    CHECK(strstr(text, "(this one)\n"), "no neighbours in %s", text);
    CHECK(strstr(text, "in use, or in a thread's cache"), "no state in %s", text);
    struct stat status;
    CHECK(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600, "others may read it");
}

/* A second report is behind the first, and nothing that was there before is lost. */
static void test_append(void) {
    struct child_end end;
    use("append");
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(write(file, "before\n", 7) == 7, "cannot write");
    close(file);
    int status = misuse("twice", path, "HAKMEM_ON_ERROR=report", &end);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
    misuse("inside", path, NULL, &end);
    char *first = strstr(text, "double free: "), *second = strstr(text, "interior pointer: ");
    CHECK(strncmp(text, "before\n", 7) == 0, "the file was %s", text);
    CHECK(first && second && first < second, "two reports: %s", text);
    CHECK(strstr(second, " is inside a block"), "the pointer is not described: %s", second);
}

/* The history of a sampled block is in the report, also when a handler writes it. */
static void test_sampled(void) {
    struct child_end end;
    use("sampled");
    for (int i = 0; i < 20; i++) misuse("behind", path, "HAKMEM_GUARD_SAMPLE=1", &end);
    CHECK(strstr(text, "  allocated by thread "), "no history in %s", text);
    CHECK(strstr(text, "hakmem: overflow: "), "no access in %s", text);
    CHECK(strstr(text, "hakmem: free(): overflow: "), "no free in %s", text);
    CHECK(strstr(text, " is a sampled block") || strstr(text, " is in no block of hakmem"), "%s",
          text);
}

static void test_number_of_process(void) {
    struct child_end end;
    char file[160];
    use("number");
    snprintf(file, sizeof file, "%s.%%p", path);
    misuse("inside", file, NULL, &end);
    CHECK(text[0] == 0, "the number is not in the name");
    snprintf(file, sizeof file, "ls %s.[0-9]* >/dev/null && rm %s.*", path, path);
    CHECK(system(file) == 0, "there is no file with the number");
}

/* A link in a folder that every user may write to is not followed; elsewhere it is. */
static void test_links(void) {
    struct child_end end;
    char target[160];
    snprintf(target, sizeof target, "%s/target", folder);
    use("link");
    CHECK(symlink(target, path) == 0, "no link");
    CHECK(chmod(folder, 01777) == 0, "no public folder");
    check_ended_by(misuse("inside", path, NULL, &end), SIGABRT);
    CHECK(access(target, F_OK) != 0, "a link in a public folder was followed");
    CHECK(strstr(end.err, "no report can be written to "), "stderr: %s", end.err);
    CHECK(strstr(end.err, "interior pointer: "), "stderr has no line: %s", end.err);
    CHECK(chmod(folder, 0700) == 0, "no private folder");
    misuse("inside", path, NULL, &end);
    CHECK(strstr(text, "interior pointer: "), "a link in a private folder was not followed");
    unlink(target);
}

/* In a folder that every user may write to, nothing goes into a file of another user, nor into a second name of one of
 * ours; elsewhere it does. */
static void expect_nothing(const char *reason) {
    struct child_end end;
    CHECK(chmod(folder, 0777) == 0, "no public folder");
    check_ended_by(misuse("inside", path, NULL, &end), SIGABRT);
    CHECK(strcmp(text, "before\n") == 0, "the file became %s", text);
    CHECK(strstr(end.err, reason) && strstr(end.err, "interior pointer: "), "stderr: %s", end.err);
    CHECK(chmod(folder, 0700) == 0, "no private folder");
    misuse("inside", path, NULL, &end);
    CHECK(strstr(text, "interior pointer: "), "nothing comes into a private folder");
}

static void make_file(void) {
    int file = open(path, O_WRONLY | O_CREAT, 0666);
    CHECK(write(file, "before\n", 7) == 7, "cannot write");
    close(file);
}

static void test_files_of_others(void) {
    enum { ANOTHER = 12345 };
    char second[160];
    use("linked");
    make_file();
    snprintf(second, sizeof second, "%s/second", folder);
    CHECK(link(path, second) == 0, "no link");
    expect_nothing("a link in a folder that every user may write to");
    use("foreign");
    make_file();
    if (chown(path, ANOTHER, (gid_t)-1) == 0) expect_nothing("permission denied");
}

/* A FIFO that nobody reads gets nothing, and nobody waits; one with a reader gets the report. */
static void test_fifo(void) {
    struct child_end end;
    use("fifo");
    CHECK(mkfifo(path, 0600) == 0, "no FIFO");
    check_ended_by(misuse("inside", path, NULL, &end), SIGABRT);
    CHECK(strstr(end.err, "no process reads from it"), "stderr: %s", end.err);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    struct run run = {"inside", path, NULL};
    child_run(execute, &run, SECONDS, &end);
    memset(text, 0, sizeof text);
    CHECK(read(reader, text, sizeof text - 1) > 0, "the reader gets nothing");
    CHECK(strstr(text, "interior pointer: "), "the reader gets %s", text);
    close(reader);
}

int main(int argc, char **argv) {
    watchdog(50, "the file of errors");
    require_hakmem();
    if (argc > 1) {
        commit(argv[1]);
        return 0;
    }
    CHECK(mkdtemp(folder) != NULL, "no folder");
    test_contents();
    test_append();
    test_sampled();
    test_number_of_process();
    test_links();
    test_files_of_others();
    test_fifo();
    char command[160];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0, "the folder stays");
    return 0;
}
