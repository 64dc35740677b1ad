/* os_failures.c - makes each system call of a script fail in turn: alone, or with all that follow; with
 * several errors.
 *
 *     os_failures [ERRORS]     the first so many of the errors below; default: all
 *
 * The engine is linked in, and this file stands in for its system calls. For each call of the script one
 * process runs in which that call fails. No block may be lost or change, a refused request returns NULL
 * with ENOMEM, and once system calls succeed again the whole script must succeed. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

static const int errors[] = {ENOMEM, EPERM, EAGAIN, EINVAL, ENOSYS};
enum { ERRORS = sizeof errors / sizeof *errors, BLOCKS = 40 };

/* ---- The system ------------------------------------------------------------------------------ */

static atomic_ulong calls, fail_at; /* 0: none fails */
static bool fail_on;                /* also those that follow */
static int error;

static bool fails(void) {
    unsigned long call = atomic_fetch_add(&calls, 1) + 1, at = atomic_load(&fail_at);
    if (at == 0 || call < at || (call > at && !fail_on)) return false;
    errno = error;
    return true;
}

void *mmap(void *at, size_t size, int prot, int flags, int file, off_t offset) {
    if (fails()) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, prot, flags, file, offset);
}
int munmap(void *at, size_t size) { return fails() ? -1 : (int)syscall(SYS_munmap, at, size); }
int mprotect(void *at, size_t size, int prot) {
    return fails() ? -1 : (int)syscall(SYS_mprotect, at, size, prot);
}
int madvise(void *at, size_t size, int advice) {
    return fails() ? -1 : (int)syscall(SYS_madvise, at, size, advice);
}
void *mremap(void *at, size_t old_size, size_t size, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *to = va_arg(more, void *);
    va_end(more);
    if (fails()) return MAP_FAILED;
    return (void *)syscall(SYS_mremap, at, old_size, size, flags, to);
}

/* ---- The script ------------------------------------------------------------------------------ */

static const size_t sizes[] = {24, 300, 1024, 5000, 40000, 100000, 700000, 2 << 20, 6 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

static unsigned char *blocks[BLOCKS];
static size_t lengths[BLOCKS];
static unsigned long refused;

static void mark(unsigned i) {
    memset(blocks[i], (int)i, 16);
    memset(blocks[i] + lengths[i] - 8, (int)i, 8);
}

static void check_block(unsigned i) {
    for (size_t k = 0; k < 16; k++)
        CHECK(blocks[i][k] == i, "block %u of %zu bytes has changed", i, lengths[i]);
    CHECK(blocks[i][lengths[i] - 1] == i, "block %u of %zu bytes lost its end", i, lengths[i]);
}

/* What a call gave; NULL only with ENOMEM. */
static bool served(const void *block, const char *call, size_t size) {
    if (block) return true;
    CHECK(errno == ENOMEM, "%s of %zu bytes: NULL with error %d", call, size, errno);
    refused++;
    return false;
}

static void release(unsigned i) {
    check_block(i);
    free(blocks[i]);
    blocks[i] = NULL;
}

static void script(void) {
    refused = 0;
    for (unsigned turn = 0; turn < 6 * BLOCKS; turn++) {
        unsigned i = turn * 7 % BLOCKS;
        size_t size = sizes[turn * 5 % SIZES];
        if (!blocks[i]) {
            bool zeroed = turn % 3 == 0;
            unsigned char *block = zeroed ? calloc(1, size) : malloc(size);
            if (!served(block, zeroed ? "calloc" : "malloc", size)) continue;
            CHECK(!zeroed || (block[0] == 0 && block[size - 1] == 0), "calloc is not zero");
            blocks[i] = block;
            lengths[i] = size;
        } else if (turn % 2) {
            release(i);
            continue;
        } else {
            unsigned char *block = realloc(blocks[i], size);
            if (!served(block, "realloc", size)) {
                check_block(i);
                continue;
            }
            blocks[i] = block;
            lengths[i] = size;
        }
        mark(i);
        if (turn % 50 == 49) malloc_trim(0);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i]) release(i);
    malloc_trim(0);
}

static void run(unsigned long index, bool on, int which) {
    atomic_store(&calls, 0);
    fail_on = on;
    error = which;
    atomic_store(&fail_at, index);
    script();
    atomic_store(&fail_at, 0);
    script(); /* the system is well again */
    CHECK(refused == 0, "%lu requests fail although the system is well", refused);
    size_t live = mallinfo2().hblkhd;
    CHECK(live == 0, "%zu bytes of huge blocks are live", live);
}

static void in_a_process(unsigned long index, bool on, int which) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        alarm(20);
        run(index, on, which);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "call %lu%s with error %d: status %#x",
          index, on ? " and those that follow" : "", which, (unsigned)status);
}

int main(int argc, char **argv) {
    unsigned long processes = 0, which_count = argument(argc, argv, 1, ERRORS);
    CHECK(which_count >= 1 && which_count <= ERRORS, "1 to %d errors", ERRORS);
    watchdog(200, "failures of the system");
    proc_no_core_files();
    int pipes[2];
    unsigned long count = 0;
    CHECK(pipe(pipes) == 0, "no pipe");
    pid_t pid = fork();
    if (pid == 0) { /* how many calls there are */
        script();
        unsigned long all = atomic_load(&calls);
        _exit(write(pipes[1], &all, sizeof all) != sizeof all);
    }
    CHECK(read(pipes[0], &count, sizeof count) == sizeof count && waitpid(pid, NULL, 0) == pid,
          "no count");
    CHECK(count > 20, "the script makes %lu calls of the system", count);
    for (unsigned long index = 1; index <= count; index++)
        for (unsigned which = 0; which < which_count; which++)
            for (int on = 0; on < 2; on++, processes++) in_a_process(index, on, errors[which]);
    printf("%lu calls, %lu processes\n", count, processes);
    return 0;
}
