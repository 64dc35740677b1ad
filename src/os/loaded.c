/* loaded.c: looks a function up in the files that the loader has mapped. dlsym would name the first file only, and may
 * allocate. */
#include "os/loaded.h"

#include <elf.h>
#include <link.h>

#include "base/text.h"
#include "os/program.h"

#ifdef __GLIBC__
#pragma weak _r_debug

// NOLINTNEXTLINE(readability-redundant-declaration)
extern Elf64_Dyn _DYNAMIC[]
    __attribute__((weak, visibility("hidden"))); /* of this file; as in program.c */

/* The tables of a file's dynamic section. */
typedef struct {
    const Elf64_Sym *symbols;
    const char *names, *file; /* `file`: its own name */
    const uint32_t *hash;     /* DT_GNU_HASH: the linkers of today write no other one */
} tables_t;

static bool begins_with(const char *text, const char *start) {
    while (*start && *text == *start) text++, start++;
    return *start == 0;
}

static bool is_one_of(const char *file, const char *starts) {
    while (*starts && !begins_with(file, starts)) {
        while (*starts) starts++;
        starts++;
    }
    return *starts != 0;
}

static tables_t tables_of(uintptr_t base, const Elf64_Dyn *at) {
    tables_t tables = {0};
    uintptr_t file = 0;
    for (; at->d_tag != DT_NULL; at++) {
        const uintptr_t value = at->d_un.d_ptr;
        if (at->d_tag == DT_SYMTAB) tables.symbols = hak_os_dynamic_address(base, value);
        if (at->d_tag == DT_STRTAB) tables.names = hak_os_dynamic_address(base, value);
        if (at->d_tag == DT_GNU_HASH) tables.hash = hak_os_dynamic_address(base, value);
        if (at->d_tag == DT_SONAME) file = value;
    }
    tables.file = tables.names && file ? tables.names + file : "";
    return tables;
}

static uint32_t hash_of(const char *name) {
    uint32_t hash = 5381;
    for (; *name; name++) hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The table: a head of four words, a filter of 64-bit words, buckets, and a word for each symbol that is exported, from
 * number `first` on. The lowest bit of such a word ends its bucket. */
static bool defines(const tables_t *tables, const char *function) {
    if (!tables->symbols || !tables->names || !tables->hash) return false;
    const uint32_t *const head = tables->hash, hash = hash_of(function);
    const uint32_t bucket_count = head[0], first = head[1], filter_words = head[2];
    const uint32_t *const buckets = head + 4 + (size_t)filter_words * 2;
    const uint32_t *const words = buckets + bucket_count;
    if (bucket_count == 0) return false;
    for (uint32_t i = buckets[hash % bucket_count]; i >= first && i != 0; i++) {
        const uint32_t word = words[i - first];
        const Elf64_Sym *symbol = &tables->symbols[i];
        if ((word | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
            hak_is_same(tables->names + symbol->st_name, function))
            return true;
        if (word & 1) break;
    }
    return false;
}

/* Reads the list that the loader keeps for debuggers, without the lock under which the loader changes it: another
 * thread may hold that lock and wait for the caller. Does not read the list while it changes. Only a dlclose in another
 * thread that begins meanwhile can unmap a file that is being read. */
HAK_BEHIND bool hak_os_others_define(const char *function, const char *except) {
    if (!&_r_debug || _r_debug.r_state != RT_CONSISTENT) return false;
    for (const struct link_map *file = _r_debug.r_map; file; file = file->l_next) {
        if (!file->l_ld || file->l_ld == _DYNAMIC) continue;
        const tables_t tables = tables_of(file->l_addr, file->l_ld);
        if (!is_one_of(tables.file, except) && defines(&tables, function)) return true;
    }
    return false;
}
#else
bool hak_os_others_define(const char *function, const char *except) {
    (void)function, (void)except;
    return false;
}
#endif
