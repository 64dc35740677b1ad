/* own_word.h: a word that tells a process from the children that it leaves copies of its memory to. */
#pragma once

#include "base/base.h"

/* CLAIMED: a thread puts in order what the process has inherited. */
enum { HAK_WORD_INHERITED, HAK_WORD_OWN, HAK_WORD_CLAIMED };
typedef struct {
    _Atomic uint32_t owner; /* any thread writes; the kernel makes it 0, INHERITED, in a child */
} hak_own_word_t;

/* Maps a page for a word that reads as 0 in each child of a fork, however made, even by a clone without fork handlers;
 * a child that shares the memory shares the word. No number of a process can do that: vfork's child has
 * another one, and one in a new namespace may have the same. NULL where the kernel has none (Linux 4.14). */
hak_own_word_t *hak_os_own_word(void);
