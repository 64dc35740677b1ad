/* cgroup.h: the limits that control groups set. */
#pragma once

#include "base/base.h"

/* 0 for no limit. */
typedef struct {
    uint64_t cpus, bytes;
} hak_cgroup_limits_t;

/* The limits of the groups that a file names, in the format of /proc/self/cgroup; their directories
 * are below `root`. */
hak_cgroup_limits_t hak_cgroup_limits(const char *groups, const char *root);

/* Reads the number at *at and moves *at behind it and its blanks; 0 when there is none, or it is
 * too long. */
uint64_t hak_cgroup_number(const char **at);
