/* module.c: finds the file that an address is mapped from, in the maps of /proc.
 *
 * The loader knows it, too. But another thread may hold the lock of the loader's list while it
 * waits for the calling thread, and a static program has no loader. */
#include "os/module.h"

#include <elf.h>

#include "os/proc_maps.h"

/* The mapping of offset 0 of the file that a line belongs to. */
typedef struct {
    uintptr_t start;
    bool readable;
} first_t;

/* True for a program that is not position independent: its addresses are those of the linker. */
static bool is_fixed(const first_t *first) {
    const Elf64_Ehdr *header = (const void *)first->start;
    return first->readable && header->e_type == ET_EXEC;
}

/* A search: the line of the mapping that holds an address, and the beginning of its file. */
typedef struct {
    uintptr_t addr;
    hak_maps_line_t line;
    first_t first;
    bool found;
} search_t;

static bool search(const hak_maps_line_t *line, void *context) {
    search_t *at = context;
    if (line->name_size && line->numbers[3] == 0)
        at->first = (first_t){line->numbers[0], line->readable};
    at->found = at->addr >= line->numbers[0] && at->addr < line->numbers[1];
    if (at->found) at->line = *line;
    return !at->found;
}

/* False when an address is in no mapping of a file. */
static bool find(const void *addr, search_t *at) {
    *at = (search_t){.addr = (uintptr_t)addr};
    hak_maps_each(search, at);
    return at->found && at->line.name_size != 0 && at->line.name[0] != '[';
}

bool hak_os_module_of(const void *addr, char *name, size_t size, uintptr_t *offset) {
    search_t at;
    if (!find(addr, &at)) return false;
    size_t length = hak_min(at.line.name_size, size - 1);
    for (size_t i = 0; i < length; i++) name[i] = at.line.name[i];
    name[length] = 0;
    *offset = is_fixed(&at.first) ? at.addr : at.addr - at.first.start;
    return true;
}

const void *hak_os_module_base(const void *addr) {
    search_t at;
    return find(addr, &at) && at.first.readable ? (const void *)at.first.start : NULL;
}
