/* own_word.h: a word that tells a process from its children, which have copies of its memory. */
#pragma once

#include "base/base.h"

/* INHERITED: the process is a child and has inherited all memory. CLAIMED: a thread puts the inherited state in
 * order. */
enum { HAK_WORD_INHERITED, HAK_WORD_OWN, HAK_WORD_CLAIMED };
typedef struct {
    _Atomic uint32_t owner; /* any thread writes; the kernel makes it 0, INHERITED, in a child */
} hak_own_word_t;

/* Maps a page for a word that reads as 0 in each child that gets a copy of the memory, even after a clone without fork
 * handlers. A child that shares the memory shares the word. A process number cannot tell this: the child of vfork
 * shares the memory and has another number, and a child in a new namespace may have the same number. NULL if the kernel
 * does not support it (before Linux 4.14). */
hak_own_word_t *hak_os_own_word(void);
