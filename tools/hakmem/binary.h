/* binary.h: what kind of file a program or a library is, as far as a preload depends on it. */
#ifndef TOOLS_BINARY_H
#define TOOLS_BINARY_H

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
    bool is_whole;     /* the rest could be read; false for another class or a damaged file */
    bool has_malloc;   /* it defines malloc for everyone */
    bool needs_glibc;  /* its libc is libc.so.6 */
    char interpreter[PATH_MAX]; /* of PT_INTERP or #!; empty for none */
    char argument[PATH_MAX];    /* behind the interpreter of #!; empty for none */
} binary_t;

/* Reads a file; any file is answered, also a damaged one. */
void binary_read(const char *path, binary_t *binary);

/* "x86-64", "AArch64", ...; NULL for a machine without a name here. */
const char *binary_machine(uint16_t machine);

#endif
