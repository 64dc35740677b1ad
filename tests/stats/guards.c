/* guards.c - what becomes of guard pages where the kernel does not know their advice. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "filter.h"
#include "trials.h"

enum { GUARD_INSTALL = 102, GUARDED = 100 * 1024 };

/* From here on as on Linux before 6.13. */
static void refuse_advice(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GUARD_INSTALL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    filter_install(filter, COUNT_OF(filter));
}

void hold_guarded_blocks(void) { allocate_some(GUARDED_COUNT, GUARDED); }

void hold_blocks_without_advice(void) {
    refuse_advice();
    hold_guarded_blocks();
}

void free_blocks_without_advice(void) {
    hold_blocks_without_advice();
    free_some(GUARDED_COUNT);
}
