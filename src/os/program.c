/* program.c: reads the loader's list of files, the program's relocations, and the dynamic section of this file. */
#include "os/program.h"

#include <elf.h>
#include <link.h>

#include "base/text.h"

/* ---- the program ---- */

#ifdef __GLIBC__
#pragma weak _r_debug

enum { TAGS = DT_JMPREL + 1 };

/* True when the program imports pthread_atfork, which glibc exports under another name. Reads the relocations, since no
 * table tells how many symbols there are. */
static HAK_COMMON HAK_OUT_OF_LINE bool asks_for_fork_handlers(const struct link_map *program) {
    const char *const wanted = HAK_NEAR_TEXT("__register_atfork");
    uintptr_t values[TAGS] = {0}, relative = 0; /* relocations at the beginning, without a name */
    for (const Elf64_Dyn *at = program->l_ld; at->d_tag != DT_NULL; at++) {
        if ((uintptr_t)at->d_tag < TAGS) values[at->d_tag] = at->d_un.d_val;
        if (at->d_tag == DT_RELACOUNT) relative = at->d_un.d_val;
    }
    const Elf64_Sym *symbols = hak_os_dynamic_address(program->l_addr, values[DT_SYMTAB]);
    const char *names = hak_os_dynamic_address(program->l_addr, values[DT_STRTAB]);
    const Elf64_Rela *relocation = hak_os_dynamic_address(program->l_addr, values[DT_RELA]);
    relocation += relative;
    size_t bytes = values[DT_RELASZ] - relative * sizeof *relocation;
    for (bool last = false;; last = true) {
        for (; bytes; relocation++, bytes -= sizeof *relocation) {
            HAK_ASSERT(relocation);
            const Elf64_Sym *symbol = &symbols[ELF64_R_SYM(relocation->r_info)];
            if (hak_is_same(names + symbol->st_name, wanted)) return true;
        }
        if (last) return false;
        relocation = hak_os_dynamic_address(program->l_addr, values[DT_JMPREL]);
        bytes = values[DT_PLTRELSZ];
    }
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

/* Made by the linker; NULL in a static program. <link.h> declares it, too, but without these attributes. */
// NOLINTNEXTLINE(readability-redundant-declaration)
extern Elf64_Dyn _DYNAMIC[] __attribute__((weak, visibility("hidden")));

HAK_COMMON bool hak_os_may_be_unloaded(void) {
    for (const Elf64_Dyn *at = _DYNAMIC; at && at->d_tag != DT_NULL; at++)
        if (at->d_tag == DT_DEBUG || /* only a program has it */
            (at->d_tag == DT_FLAGS_1 && at->d_un.d_val & (DF_1_NODELETE | DF_1_PIE)))
            return false;
    return _DYNAMIC != NULL;
}
