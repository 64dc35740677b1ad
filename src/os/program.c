/* program.c: what the loader knows of the program, and of the file that this code is in. */
#include "os/program.h"

#include <elf.h>
#include <link.h>

/* ---- the program ---- */

#ifdef __GLIBC__
#pragma weak _r_debug

/* True when the program asks the loader for pthread_atfork, which glibc has under another name. Goes over the
 * relocations, since no table tells how many symbols there are. The loader has made the addresses absolute, unless the
 * program's dynamic section cannot be written to. */
static HAK_COMMON HAK_OUT_OF_LINE bool asks_for_fork_handlers(const struct link_map *program) {
    const char *const wanted = HAK_NEAR_TEXT("__register_atfork");
    const Elf64_Sym *symbols = NULL;
    const char *names = NULL;
    const Elf64_Rela *tables[2] = {NULL}, *relocation;
    size_t bytes[2] = {0};
    for (const Elf64_Dyn *at = program->l_ld; at->d_tag != DT_NULL; at++) {
        const uintptr_t value = at->d_un.d_val, base = program->l_addr;
        const uintptr_t address = value < base ? base + value : value;
        if (at->d_tag == DT_SYMTAB) symbols = (const void *)address;
        if (at->d_tag == DT_STRTAB) names = (const void *)address;
        if (at->d_tag == DT_RELA) tables[0] = (const void *)address;
        if (at->d_tag == DT_JMPREL) tables[1] = (const void *)address;
        if (at->d_tag == DT_RELASZ) bytes[0] = value;
        if (at->d_tag == DT_PLTRELSZ) bytes[1] = value;
    }
    if (!symbols || !names) return true;
    for (unsigned t = 0; t < 2; t++)
        for (relocation = tables[t]; relocation && bytes[t];
             relocation++, bytes[t] -= sizeof *relocation) {
            const Elf64_Word name = symbols[ELF64_R_SYM(relocation->r_info)].st_name;
            unsigned i = 0;
            while (wanted[i] && names[name + i] == wanted[i]) i++;
            if (!wanted[i] && !names[name + i]) return true;
        }
    return false;
}
#endif

/* Counts the entries of the list for debuggers, in which glibc also lists the program and the
 * kernel's vDSO. A program without a loader has no list. */
HAK_COMMON HAK_OUT_OF_LINE bool hak_os_expects_fork_handlers(void) {
#ifdef __GLIBC__
    enum { OWN = 5 };
    unsigned count = 0;
    if (!&_r_debug || !_r_debug.r_map) return true;
    for (const struct link_map *map = _r_debug.r_map; map && count <= OWN; map = map->l_next)
        count++;
    return count > OWN || asks_for_fork_handlers(_r_debug.r_map);
#else
    return true;
#endif
}

/* ---- this file ---- */

/* Made by the linker; NULL in a static program. */
extern Elf64_Dyn _DYNAMIC[] __attribute__((weak, visibility("hidden")));

HAK_COMMON bool hak_os_may_be_unloaded(void) {
    for (const Elf64_Dyn *at = _DYNAMIC; at && at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_DEBUG || /* only a program has it */
            (at->d_tag == DT_FLAGS_1 && at->d_un.d_val & (DF_1_NODELETE | DF_1_PIE)))
            return false;
    return _DYNAMIC != NULL;
}
