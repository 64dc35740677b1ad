/* proc.h: reads the files of /proc/PID that the command needs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* A thread of a process that has not ended: the first one unless that has left by pthread_exit; 0 for none. */
pid_t proc_thread(pid_t pid);

/* The path of a file that the threads of a process have in /proc, as maps or fd: that of a living one. */
enum { PROC_PATH_SIZE = 300 };
const char *proc_path(char path[PROC_PATH_SIZE], pid_t pid, const char *file);

/* Opens /proc/PID/file, of the first thread whether it lives or not; NULL when it does not exist, or this user may not
 * read it. */
FILE *proc_open_main(pid_t pid, const char *file);

/* Opens the file of a living thread; NULL as above. */
FILE *proc_open(pid_t pid, const char *file);

/* The name of a process, without control characters; "" when it has ended. */
enum { PROC_NAME_SIZE = 32 };
const char *proc_name(pid_t pid, char name[PROC_NAME_SIZE]);

/* True when a line is "Field:   12 kB"; *bytes is then 12 KiB. */
bool proc_size_field(const char *line, const char *field, uint64_t *bytes);

/* The kernel's sum of a field of smaps; 0 when the kernel has none. */
uint64_t proc_sum(pid_t pid, const char *field);
