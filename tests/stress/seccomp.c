/* seccomp.c - system calls that are refused, or that succeed without an effect.
 *
 *   seccomp dontneed   madvise(MADV_DONTNEED) answers 0 and does nothing, as in old versions of
 *                      qemu-user: calloc's memory must be zero all the same
 *   seccomp strict N   every call is refused, by error N, but those that map memory: nothing crashes,
 *                      no block loses its contents, and errno stays what it was
 *   seccomp killed N   after N pairs of malloc and free the kernel kills at any call but read and
 *                      write: a program that needs no more memory than before goes on
 *
 * A filter plays such a system. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "filter.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, FILTER_FIELD(field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
/* Goes on two steps later when it is not that one. */
#define IF_EQUAL(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, 1)
#define ALLOWED(call) IF_EQUAL(SYS_##call), ANSWER(SECCOMP_RET_ALLOW)

static void dontneed_does_nothing(void) {
    struct sock_filter filter[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        LOAD(args[2]), /* the low half: both machines are little endian */
        IF_EQUAL(MADV_DONTNEED),
        ANSWER(SECCOMP_RET_ERRNO), /* with error 0: as if done */
        ANSWER(SECCOMP_RET_ALLOW),
    };
    filter_install(filter, sizeof filter / sizeof *filter);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
    CHECK(madvise(page, 4096, MADV_DONTNEED) == 0 && *page == 1, "the filter does not work");
}

static void memory_calls_only(unsigned error) {
    struct sock_filter filter[] = {
        LOAD(nr),          ALLOWED(mmap),       ALLOWED(munmap),
        ALLOWED(mprotect), ALLOWED(madvise),    ALLOWED(futex),
        ALLOWED(write),    ALLOWED(exit_group), ANSWER(SECCOMP_RET_ERRNO | error),
    };
    filter_install(filter, sizeof filter / sizeof *filter);
    CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == -1 && errno == (int)error,
          "no filter is at work");
}

/* SECCOMP_MODE_STRICT as a filter: a process that has a filter already, as all in a container, cannot enter that mode. */
static void read_and_write_only(void) {
    struct sock_filter filter[] = {
        LOAD(nr),      ALLOWED(read),         ALLOWED(write),
        ALLOWED(exit), ALLOWED(rt_sigreturn), ANSWER(SECCOMP_RET_KILL),
    };
    filter_install(filter, sizeof filter / sizeof *filter);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static const size_t sizes[] = {24, 200, 3000, 20000, 65000, 200000, 900000, 1500000, 9000000};
enum { SIZES = sizeof sizes / sizeof *sizes, BYTES = 24 << 20, COUNT_MOST = 4096, ROUNDS = 4 };
enum { UNTOUCHED = 12345 }; /* no error has this number */

static unsigned char *blocks[SIZES][COUNT_MOST];

static unsigned count_of(unsigned s) {
    size_t count = BYTES / sizes[s];
    return (unsigned)(count > COUNT_MOST ? COUNT_MOST : count);
}

static void check_bytes(const unsigned char *block, size_t size, unsigned char byte,
                        const char *what) {
    CHECK(block[0] == byte && memcmp(block, block + 1, size - 1) == 0, "%zu bytes: %s", size, what);
}

/* All of a size are there at once, freed, given back as far as the system goes, and taken anew. */
static void callocs_are_zero(void) {
    errno = UNTOUCHED;
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned s = 0; s < SIZES; s++) {
            for (unsigned i = 0; i < count_of(s); i++) {
                blocks[s][i] = API(calloc)(1, sizes[s]);
                CHECK(blocks[s][i] != NULL, "no memory for %zu bytes", sizes[s]);
                CHECK(errno == UNTOUCHED, "calloc of %zu bytes sets errno %d", sizes[s], errno);
                check_bytes(blocks[s][i], sizes[s], 0, "calloc is not zero");
                memset(blocks[s][i], 0xa5, sizes[s]);
            }
            for (unsigned i = 0; i < count_of(s); i++) API(free)(blocks[s][i]);
            API(malloc_trim)(0);
            CHECK(errno == UNTOUCHED, "free of %zu bytes sets errno %d", sizes[s], errno);
        }
    }
}

static void reallocs_keep_contents(void) {
    for (unsigned s = 0; s < SIZES; s++) {
        unsigned char byte = (unsigned char)(s + 1);
        unsigned char *block = API(malloc)(sizes[s]);
        CHECK(block != NULL, "no memory for %zu bytes", sizes[s]);
        memset(block, byte, sizes[s]);
        for (size_t to = sizes[s] / 2; to < sizes[s] * 40 && to < 64 << 20; to = to * 2 + 8) {
            size_t kept = to < sizes[s] ? to : sizes[s] / 2;
            block = API(realloc)(block, to);
            CHECK(block != NULL, "no memory for %zu bytes", to);
            check_bytes(block, kept, byte, "realloc has lost contents");
        }
        API(free)(block);
    }
}

static void pairs(unsigned long count) {
    for (unsigned long i = 0; i < count; i++) {
        unsigned char *block = API(malloc)(100 + i % 800);
        CHECK(block != NULL, "no memory");
        memset(block, 1, 100);
        API(free)(block);
    }
}

/* The hardened path needs the pairs: its stocks of free blocks grow until then. */
_Noreturn static void ends_only_by_itself(unsigned long before) {
    enum { HELD = 1000, AFTER = 500000 };
    for (unsigned i = 0; i < HELD; i++) blocks[0][i] = API(malloc)(100 + i);
    for (unsigned i = 0; i < HELD; i++) API(free)(blocks[0][i]);
    pairs(before);
    read_and_write_only();
    pairs(AFTER);
    for (;;) syscall(SYS_exit, 0); /* exit_group is not allowed */
}

int main(int argc, char **argv) {
    CHECK(argc >= 2, "dontneed, strict or killed");
    watchdog(100, "seccomp");
    if (strcmp(argv[1], "killed") == 0) ends_only_by_itself(argument(argc, argv, 2, 100000));
    if (strcmp(argv[1], "dontneed") == 0)
        dontneed_does_nothing();
    else
        memory_calls_only((unsigned)argument(argc, argv, 2, EPERM));
    callocs_are_zero();
    reallocs_keep_contents();
    callocs_are_zero();
    return 0;
}
