/* proc_maps.h: the mappings of the process, and the pages of them that have contents. */
#pragma once

#include "base/base.h"

enum { HAK_MAPS_NAME_MOST = 64 };

/* A line of maps in /proc: start-end perms offset device inode name. */
typedef struct {
    unsigned column; /* 0 and 1 for start and end, then one for each blank */
    bool blank;      /* the last character was one */
    bool readable, writable, shared;
    uintptr_t numbers[4];          /* by column: start, end, nothing, offset */
    char name[HAK_MAPS_NAME_MOST]; /* from the last '/' on; not terminated */
    size_t name_size;
} hak_maps_line_t;

/* Calls `visit` for each mapping until it returns false. False when the system does not list
 * them. */
typedef bool (*hak_maps_visitor_t)(const hak_maps_line_t *line, void *context);
bool hak_maps_each(hak_maps_visitor_t visit, void *context);

/* Copies what the program has written in start .. end - 1, piece by piece, and calls `visit` for
 * each piece. Skips pages that were never touched, unchanged pages of files, and inaccessible
 * pages. Adds the bytes of shared pages to *shared instead. Both addresses are multiples of 8.
 * False when the system does not tell. One thread at a time. */
typedef void (*hak_maps_words_t)(const uintptr_t *words, size_t count);
bool hak_maps_each_word(uintptr_t start, uintptr_t end, hak_maps_words_t visit, size_t *shared);

/* Which of up to HAK_MAPS_PAGES_MOST pages can be read, a bit for each; the kernel looks, so none that
 * the program has protected ends the process. False when the system does not tell. */
enum { HAK_MAPS_PAGES_MOST = 16 };
bool hak_maps_readable(uintptr_t start, unsigned pages, uint32_t *readable);

/* Threads of the process; 0 when the system does not tell. */
size_t hak_maps_threads(void);
