/* environment.c - the model in environments that give less than a usual one.
 *
 *     environment MODEL OPERATIONS FEW_MAPS
 *
 * Each row limits a process, or puts a filter before its system calls, and executes the model in it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "filter.h"
#include "proc.h"

#define MIB ((rlim_t)1 << 20)
enum { STEPS_MOST = 100 };

/* An older libc has no names for these. */
enum { CALL_CLONE3 = 435, DONT_UNMAP = 4, ADVICE_OF_LINUX_4 = 18, SET_VMA = 0x53564d41 };

/* What HAKMEM asks of the system and can do without; what libc does without, too. */
static const int dispensable[] = {
    SYS_mremap, SYS_membarrier,        SYS_getrandom, SYS_memfd_create, SYS_fallocate,
    SYS_statx,  SYS_sched_getaffinity, SYS_getcpu,    CALL_CLONE3,
};
enum { DISPENSABLE = sizeof dispensable / sizeof *dispensable };

/* ---- Filters --------------------------------------------------------------------------------- */

static struct sock_filter steps[STEPS_MOST];
static unsigned short step_count;

static void step(struct sock_filter one) {
    CHECK(step_count < STEPS_MOST, "the filter is too long");
    steps[step_count++] = one;
}

static void load(size_t field) {
    step((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)field));
}

static void answer(uint32_t value) { step((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, value)); }

static void refuse(int call, int error) {
    load(offsetof(struct seccomp_data, nr));
    step((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1));
    answer(SECCOMP_RET_ERRNO | (uint32_t)error);
}

/* The call with such a low half of an argument: test is BPF_JEQ, BPF_JGE or BPF_JSET. */
static void refuse_with(int call, unsigned argument, unsigned test, uint32_t value, int error) {
    load(offsetof(struct seccomp_data, nr));
    step((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 3));
    load(offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t));
    step((struct sock_filter)BPF_JUMP((unsigned short)(BPF_JMP | test | BPF_K), value, 0, 1));
    answer(SECCOMP_RET_ERRNO | (uint32_t)error);
}

static void install(void) {
    answer(SECCOMP_RET_ALLOW);
    filter_install(steps, step_count);
}

/* ---- Environments ---------------------------------------------------------------------------- */

static void limit(int which, rlim_t bytes) {
    struct rlimit both = {bytes, bytes};
    CHECK(setrlimit((__rlimit_resource_t)which, &both) == 0, "no limit of %zu bytes",
          (size_t)bytes);
}

static void small_address_space(int mib) { limit(RLIMIT_AS, (rlim_t)mib * MIB); }
static void small_data(int mib) { limit(RLIMIT_DATA, (rlim_t)mib * MIB); }
static void small_locked(int mib) { limit(RLIMIT_MEMLOCK, (rlim_t)mib * MIB); }
static void small_stack(int mib) { limit(RLIMIT_STACK, (rlim_t)mib * MIB); }
static void few_files(int count) {
    for (int file = STDERR_FILENO + 1; file < 256; file++)
        close(file); /* those of who started us */
    limit(RLIMIT_NOFILE, (rlim_t)count);
}
/* few_maps.c as a library, and its setting. */
static const char *few_maps;
static void few_mappings(int count) {
    char preload[2 * 4096 + 2], number[16];
    snprintf(preload, sizeof preload, "%s:%s", few_maps, getenv("LD_PRELOAD"));
    snprintf(number, sizeof number, "%d", count);
    CHECK(setenv("LD_PRELOAD", preload, 1) == 0 && setenv("TEST_FREE_MAPS", number, 1) == 0,
          "no environment");
}
static void no_huge_pages(int unused) {
    (void)unused;
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "huge pages cannot be switched off");
}

/* At another error of clone3 libc makes no thread. */
static void refuse_all(int error) {
    for (unsigned i = 0; i < DISPENSABLE; i++)
        refuse(dispensable[i], dispensable[i] == CALL_CLONE3 ? ENOSYS : error);
    refuse(SYS_madvise, error);
    refuse_with(SYS_prctl, 0, BPF_JEQ, SET_VMA, error);
    install();
}

static void refuse_one(int index) {
    refuse(dispensable[index], ENOSYS);
    install();
}

/* What overcommit_memory=2 refuses where little is left: memory that may be written, of so many MiB or more
 * in one call. Reserved addresses are free there. */
static void small_writable(int mib) {
    static const int calls[] = {SYS_mmap, SYS_mprotect};
    for (unsigned i = 0; i < 2; i++) {
        load(offsetof(struct seccomp_data, nr));
        step((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0, 7));
        load(offsetof(struct seccomp_data, args) + 2 * sizeof(uint64_t));
        step((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 0, 5));
        load(offsetof(struct seccomp_data, args) + sizeof(uint64_t) + sizeof(uint32_t));
        step((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0, 2, 0));
        load(offsetof(struct seccomp_data, args) + sizeof(uint64_t));
        step((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)mib << 20, 0, 1));
        answer(SECCOMP_RET_ERRNO | ENOMEM);
    }
    install();
}

/* As Linux 4.4 answers: no membarrier, statx and clone3, and no newer flags of older calls. */
static void old_kernel(int unused) {
    (void)unused;
    refuse(SYS_membarrier, ENOSYS);
    refuse(SYS_statx, ENOSYS);
    refuse(CALL_CLONE3, ENOSYS);
    refuse_with(SYS_madvise, 2, BPF_JGE, ADVICE_OF_LINUX_4, EINVAL);
    refuse_with(SYS_mremap, 3, BPF_JSET, DONT_UNMAP, EINVAL);
    refuse_with(SYS_prctl, 0, BPF_JEQ, SET_VMA, EINVAL);
    install();
}

static const struct row {
    const char *name, *mix;
    void (*enter)(int value);
    int value, threads;
} rows[] = {
    {"RLIMIT_AS 64 MiB", "tiny", small_address_space, 64, 1},
    {"RLIMIT_AS 128 MiB", "tiny", small_address_space, 128, 2},
    {"RLIMIT_AS 256 MiB", "mid", small_address_space, 256, 2},
    {"RLIMIT_AS 512 MiB", "large", small_address_space, 512, 4},
    {"RLIMIT_DATA 64 MiB", "tiny", small_data, 64, 2},
    {"RLIMIT_DATA 256 MiB", "large", small_data, 256, 2},
    {"RLIMIT_MEMLOCK 0", "all", small_locked, 0, 2},
    {"RLIMIT_STACK 1 MiB", "all", small_stack, 1, 2},
    {"RLIMIT_NOFILE 4", "all", few_files, 4, 2},
    {"1,000 mappings", "all", few_mappings, 1000, 4},
    {"1,000 mappings, huge", "huge", few_mappings, 1000, 4},
    {"200 mappings", "all", few_mappings, 200, 4},
    {"64 MiB writable at once", "all", small_writable, 64, 4},
    {"20 MiB writable at once", "large", small_writable, 20, 4},
    {"no huge pages", "all", no_huge_pages, 0, 2},
    {"Linux 4.4", "all", old_kernel, 0, 4},
    {"all refused by EPERM", "all", refuse_all, EPERM, 4},
    {"all refused by ENOSYS", "all", refuse_all, ENOSYS, 4},
    {"all refused by EINVAL", "all", refuse_all, EINVAL, 4},
    {"all refused by ENOMEM", "all", refuse_all, ENOMEM, 4},
    {"without mremap", "huge", refuse_one, 0, 2},
    {"without membarrier", "mid", refuse_one, 1, 4},
    {"without getrandom", "all", refuse_one, 2, 2},
    {"without memfd_create", "all", refuse_one, 3, 2},
    {"without fallocate", "all", refuse_one, 4, 2},
    {"without statx", "all", refuse_one, 5, 2},
    {"without sched_getaffinity", "all", refuse_one, 6, 4},
    {"without getcpu", "all", refuse_one, 7, 4},
    {"without clone3", "all", refuse_one, 8, 4},
};

static void run(const struct row *row, char *model, unsigned long operations) {
    char count[24], threads[12];
    unsigned long part = strcmp(row->mix, "huge") == 0   ? 50
                         : strcmp(row->mix, "tiny") == 0 ? 1
                                                         : 10;
    snprintf(count, sizeof count, "%lu", operations / part + 1);
    snprintf(threads, sizeof threads, "%d", row->threads);
    char *argv[] = {model, (char *)(uintptr_t)row->mix, count, threads, (char[]){"1"}, NULL};
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0, "no process");
    if (pid == 0) {
        alarm(0);
        proc_no_core_files();
        CHECK(freopen("/dev/null", "w", stdout) != NULL, "no /dev/null");
        row->enter(row->value);
        execv(model, argv);
        _exit(9);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s: model %s ends with %#x", row->name,
          row->mix, (unsigned)status);
}

int main(int argc, char **argv) {
    CHECK(argc > 3, "usage: environment MODEL OPERATIONS FEW_MAPS");
    few_maps = argv[3];
    unsigned long operations = argument(argc, argv, 2, 20000);
    watchdog(100 + (unsigned)(operations / 2000), "the model in other environments");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) run(&rows[i], argv[1], operations);
    printf("%zu environments\n", sizeof rows / sizeof *rows);
    return 0;
}
