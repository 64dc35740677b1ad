/* filter.h: filters of system calls for the rest of the process. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "check.h"

/* The field of the call that a filter loads. */
#define FILTER_FIELD(field) offsetof(struct seccomp_data, field)

static inline void filter_install(struct sock_filter *steps, size_t count) {
    struct sock_fprog program = {.len = (unsigned short)count, .filter = steps};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no right to a filter");
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "no filter");
}
