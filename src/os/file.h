/* file.h: files of the process: stderr, reports, and whether a descriptor still is what it was. */
#pragma once

#include "base/base.h"

/* HAKMEM's own descriptors have numbers from here on if possible, away from the program's. */
enum { HAK_OS_OWN_FILES = 100 };

/* The identity of a file; it differs from that of a later file with the same inode number. */
typedef struct {
    uint64_t device, inode; /* inode 0: no file */
    uint64_t born_ns;       /* time of creation; 0 when the file system does not store it */
} hak_os_file_id_t;

/* The identity of the file that a descriptor refers to; no file when it is not open. */
hak_os_file_id_t hak_os_file_id(int file);

/* True when a descriptor is open and refers to that file. */
bool hak_os_is_file(int file, const hak_os_file_id_t *id);

/* True when a descriptor refers to a pipe or a terminal, and is not close-on-exec. */
bool hak_os_is_listener(int file);

/* Writes `text` to stderr, as far as stderr accepts it. Writes nothing when descriptor 2 is
 * close-on-exec: then it is a file that got the number because stderr was closed. */
void hak_os_write_stderr(const char *text, size_t size);

/* Writes all of `text` to a file; false, with the error number in *error, when the file accepts no
 * more. If a nonblocking file is not ready the call waits, at most a second for each part. A pipe
 * without a reader gives EPIPE and no signal. */
bool hak_os_write(int file, const char *text, size_t size, int *error);

/* Stores a file's name in `path`, cut to `size` bytes with its 0, each %p in it replaced by the
 * number of the process. Returns its length. */
size_t hak_os_expand(const char *name, char *path, size_t size);

/* The text of an error number of these functions. */
const char *hak_os_reason(int error);

/* Duplicates stderr, with a number from HAK_OS_OWN_FILES on; -1 on failure. */
int hak_os_copy_stderr(void);
