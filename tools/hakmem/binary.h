/* binary.h: the properties of a program or library file that matter for a preload. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum {
    BINARY_UNREADABLE,
    BINARY_ELF,
    BINARY_SCRIPT, /* begins with #! */
    BINARY_OTHER,  /* execvp(3) gives it to the shell */
} binary_kind_t;

typedef struct {
    binary_kind_t kind;
    uint8_t elf_class; /* ELFCLASS32 or ELFCLASS64 */
    uint8_t elf_data;  /* byte order */
    uint16_t machine;  /* EM_... */
    bool is_whole;     /* the fields below are valid; false for another class or a damaged file */
    bool has_malloc;   /* it defines and exports malloc */
    bool wraps_libc;   /* it imports __libc_malloc: a malloc of its own ends in libc's */
    bool needs_glibc;  /* its libc is libc.so.6 */
    char interpreter[PATH_MAX]; /* of PT_INTERP or #!; empty for none */
    char argument[PATH_MAX];    /* after the interpreter of #!; empty for none */
} binary_t;

/* Reads a file. Any file gives a result, even a damaged one. */
void binary_read(const char *path, binary_t *binary);

/* "x86-64", "AArch64", ...; NULL for a machine whose name this file does not know. */
const char *binary_machine(uint16_t machine);
