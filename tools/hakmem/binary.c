/* binary.c: reads ELF headers and #! lines. Nothing in a file is trusted: each offset is checked
 * against the file's size before it is used. */
#include "binary.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const uint8_t *data;
    uint64_t size;
} image_t;

/* A table of `count` entries of `size` bytes at an offset; NULL if the file is too short for it. */
static const void *at(const image_t *image, uint64_t offset, uint64_t count, uint64_t size) {
    uint64_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || offset % (size < 8 ? size : 8) != 0)
        return NULL;
    if (offset > image->size || bytes > image->size - offset) return NULL;
    return image->data + offset;
}

/* The text at an offset; "" if it does not end within the file. */
static const char *text_at(const image_t *image, uint64_t offset) {
    if (offset >= image->size) return "";
    const char *text = (const char *)image->data + offset;
    return memchr(text, 0, image->size - offset) ? text : "";
}

/* The tables that the dynamic section points to, as offsets in the file. */
typedef struct {
    const Elf64_Phdr *segments;
    unsigned segment_count;
    uint64_t symbols, strings, gnu_hash, hash;
} tables_t;

static uint64_t offset_of(const tables_t *tables, uint64_t address) {
    for (unsigned i = 0; i < tables->segment_count; i++) {
        const Elf64_Phdr *segment = &tables->segments[i];
        if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
            address - segment->p_vaddr < segment->p_filesz)
            return address - segment->p_vaddr + segment->p_offset;
    }
    return UINT64_MAX;
}

/* The name of symbol `index`; "" if whether it is defined differs from `is_defined`. *known: the symbol exists. */
static const char *name_of(const image_t *image, const tables_t *tables, uint64_t index,
                           bool is_defined, bool *known) {
    const Elf64_Sym *symbol =
        at(image, tables->symbols + index * sizeof(Elf64_Sym), 1, sizeof(Elf64_Sym));
    *known = symbol != NULL;
    return symbol && (symbol->st_shndx != SHN_UNDEF) == is_defined
               ? text_at(image, tables->strings + symbol->st_name)
               : "";
}

static bool is_malloc(const image_t *image, const tables_t *tables, uint64_t index, bool *known) {
    return strcmp(name_of(image, tables, index, true, known), "malloc") == 0;
}

/* DT_GNU_HASH: four words, a filter, buckets, and a hash for each symbol from `first` on. The
 * lowest bit of a hash marks the last symbol of a bucket. */
static bool find_by_gnu_hash(const image_t *image, const tables_t *tables) {
    const uint32_t *head = at(image, tables->gnu_hash, 4, 4);
    if (!head || head[0] == 0) return false;
    uint64_t first = head[1], buckets = tables->gnu_hash + 16 + (uint64_t)head[2] * 8;
    uint64_t chain = buckets + (uint64_t)head[0] * 4;
    uint32_t hash = 5381;
    for (const char *name = "malloc"; *name; name++) hash = hash * 33 + (uint8_t)*name;
    const uint32_t *bucket = at(image, buckets + (uint64_t)(hash % head[0]) * 4, 1, 4);
    bool known = bucket && *bucket >= first;
    for (uint64_t index = known ? *bucket : 0; known; index++) {
        const uint32_t *link = at(image, chain + (index - first) * 4, 1, 4);
        if (!link) return false;
        if ((*link | 1) == (hash | 1) && is_malloc(image, tables, index, &known)) return true;
        if (*link & 1) return false;
    }
    return false;
}

/* DT_HASH: its second word is the number of symbols. */
static bool find_in_all(const image_t *image, const tables_t *tables) {
    const uint32_t *head = at(image, tables->hash, 2, 4);
    bool known = head != NULL;
    for (uint64_t index = 0; known && index < head[1]; index++)
        if (is_malloc(image, tables, index, &known)) return true;
    return false;
}

/* The second word of DT_GNU_HASH is the number of symbols that it leaves out, imports among them; that of DT_HASH the
 * number of all. */
static bool imports_libc_malloc(const image_t *image, const tables_t *tables) {
    const bool is_gnu = tables->gnu_hash != UINT64_MAX;
    const uint32_t *head = at(image, is_gnu ? tables->gnu_hash : tables->hash, 2, 4);
    bool known = head != NULL;
    for (uint64_t index = 0; known && index < head[1]; index++)
        if (strcmp(name_of(image, tables, index, false, &known), "__libc_malloc") == 0) return true;
    return false;
}

static void read_dynamic(const image_t *image, tables_t *tables, const Elf64_Phdr *segment,
                         binary_t *binary) {
    uint64_t count = segment->p_filesz / sizeof(Elf64_Dyn);
    const Elf64_Dyn *entries = at(image, segment->p_offset, count, sizeof(Elf64_Dyn));
    if (!entries) return;
    tables->symbols = tables->strings = tables->gnu_hash = tables->hash = UINT64_MAX;
    for (uint64_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        uint64_t offset = offset_of(tables, entries[i].d_un.d_ptr);
        if (entries[i].d_tag == DT_SYMTAB) tables->symbols = offset;
        if (entries[i].d_tag == DT_STRTAB) tables->strings = offset;
        if (entries[i].d_tag == DT_GNU_HASH) tables->gnu_hash = offset;
        if (entries[i].d_tag == DT_HASH) tables->hash = offset;
    }
    if (tables->symbols == UINT64_MAX || tables->strings == UINT64_MAX) return;
    for (uint64_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++)
        if (entries[i].d_tag == DT_NEEDED &&
            strcmp(text_at(image, tables->strings + entries[i].d_un.d_val), "libc.so.6") == 0)
            binary->needs_glibc = true;
    binary->has_malloc = tables->gnu_hash != UINT64_MAX ? find_by_gnu_hash(image, tables)
                                                        : find_in_all(image, tables);
    binary->wraps_libc = imports_libc_malloc(image, tables);
}

static void read_elf(const image_t *image, binary_t *binary) {
    static const uint8_t own_order =
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    const Elf64_Ehdr *header = (const void *)image->data; /* e_machine has one offset in both */
    binary->elf_class = header->e_ident[EI_CLASS];
    binary->elf_data = header->e_ident[EI_DATA];
    binary->machine = header->e_machine;
    if (binary->elf_data != own_order) binary->machine = __builtin_bswap16(header->e_machine);
    if (binary->elf_class != ELFCLASS64 || binary->elf_data != own_order) return;
    if (!at(image, 0, 1, sizeof *header) || header->e_phentsize != sizeof(Elf64_Phdr)) return;
    tables_t tables = {.segment_count = header->e_phnum};
    tables.segments = at(image, header->e_phoff, header->e_phnum, sizeof(Elf64_Phdr));
    if (!tables.segments) return;
    binary->is_whole = true;
    for (unsigned i = 0; i < tables.segment_count; i++) {
        const Elf64_Phdr *segment = &tables.segments[i];
        if (segment->p_type == PT_DYNAMIC) read_dynamic(image, &tables, segment, binary);
        if (segment->p_type == PT_INTERP)
            snprintf(binary->interpreter, sizeof binary->interpreter, "%s",
                     text_at(image, segment->p_offset));
    }
}

/* "#! /path/to/interpreter one argument with blanks" */
static void read_script(const image_t *image, binary_t *binary) {
    char line[512];
    size_t size = image->size < sizeof line - 1 ? (size_t)image->size : sizeof line - 1;
    memcpy(line, image->data, size);
    line[size] = 0;
    line[strcspn(line, "\n")] = 0;
    char *path = line + 2 + strspn(line + 2, " \t");
    char *rest = path + strcspn(path, " \t");
    if (*rest) *rest++ = 0;
    snprintf(binary->interpreter, sizeof binary->interpreter, "%s", path);
    snprintf(binary->argument, sizeof binary->argument, "%s", rest + strspn(rest, " \t"));
}

void binary_read(const char *path, binary_t *binary) {
    struct stat info;
    image_t image = {NULL, 0};
    *binary = (binary_t){.kind = BINARY_UNREADABLE};
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode)) {
        binary->kind = BINARY_OTHER;
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (data != MAP_FAILED) image = (image_t){data, (uint64_t)info.st_size};
    }
    close(file);
    if (image.size >= EI_NIDENT + 4 && memcmp(image.data, ELFMAG, SELFMAG) == 0) {
        binary->kind = BINARY_ELF;
        read_elf(&image, binary);
    } else if (image.size >= 2 && memcmp(image.data, "#!", 2) == 0) {
        binary->kind = BINARY_SCRIPT;
        read_script(&image, binary);
    }
    if (image.data) munmap((void *)(uintptr_t)image.data, (size_t)image.size);
}

const char *binary_machine(uint16_t machine) {
    static const struct {
        uint16_t machine;
        const char *name;
    } names[] = {{EM_X86_64, "x86-64"}, {EM_AARCH64, "AArch64"}, {EM_386, "i386"},  {EM_ARM, "ARM"},
                 {EM_RISCV, "RISC-V"},  {EM_PPC64, "PowerPC"},   {EM_S390, "s390x"}};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].machine == machine) return names[i].name;
    return NULL;
}
