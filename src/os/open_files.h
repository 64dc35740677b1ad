/* open_files.h: the files that HAKMEM has open for a while, so that no child of a fork keeps them.
 *
 * Close-on-exec does not help a child that executes no other program: a descriptor that another thread had open at the
 * fork would stay open in it for good, and if it is that of a FIFO, the reader would wait for the end of the child.
 *
 * PROTOCOL. A thread opens a file and notes it in a place, or forgets the note and closes the file, inside the gate
 * (os/gate.h). So in the child of a fork, each file of another thread that is open is noted, and the child closes it.
 * The forking thread itself may have one open, if a signal handler forks; it goes on in the child, too, and closes
 * its own. A short file is opened, read and closed inside the gate.
 *
 * Not everything is noted: no file of a child that was made by _Fork or clone, and none if all places are taken. Then a
 * child has one descriptor more than it needs.
 *
 * Rejected: staying inside the gate while a file is written. A FIFO may have a reader that does not read, and a fork
 * would wait for it. */
#pragma once

#include "base/base.h"

/* Creates or truncates a file that only its owner may read and write; or opens a terminal, another
 * character device, or a FIFO that has a reader. -1 on failure, with *error: ELOOP is a link in a
 * directory that every user may write to, symbolic or hard, EPERM may be a file or FIFO of another
 * user there, ENXIO a FIFO without a reader. Never waits.
 * `path` is changed during the call and restored. */
int hak_os_create(char *path, int *error);
void hak_os_close(int file);

/* As hak_os_create, but keeps the contents of a file and appends to them. */
int hak_os_append(char *path, int *error);

/* Opens a file of the calling thread in /proc, for instance its maps; -1 on failure. /proc/self would be wrong: once
 * main has ended by pthread_exit, its files describe a dead thread, which has no mappings or files. errno may
 * change. */
int hak_os_open_own(const char *name);

/* Both read a small file without allocating. The first reads a file of the calling thread in /proc (hak_os_open_own),
 * and calls `take` for each piece; the second calls it for each character. They stop when it returns false; no call
 * when the file cannot be opened. errno may change. */
typedef bool (*hak_os_take_piece_t)(const char *piece, size_t size, void *context);
void hak_os_each_own_piece(const char *name, hak_os_take_piece_t take, void *context);
typedef bool (*hak_os_take_t)(char c, void *context);
void hak_os_each_char(const char *path, hak_os_take_t take, void *context);

/* In the child of a fork, before the gate opens: closes the files of the other threads. */
void hak_open_files_close_lost(void);
