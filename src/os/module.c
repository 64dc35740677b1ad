/* module.c: finds the file that an address is mapped from, in /proc/self/maps.
 *
 * The loader knows it, too. But a thread may hold the lock of the loader's list while it waits for
 * the calling thread, and a static program has no loader. */
#include "os/module.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/file.h"
#include "os/os.h"

enum { NAME_MOST = 64, CHUNK = 1024 };

/* A line of the file: start-end perms offset device inode name. */
typedef struct {
    unsigned column; /* 0 and 1 for start and end, then one for each blank */
    bool blank;      /* the last character was one */
    bool readable;
    uintptr_t numbers[4]; /* by column: start, end, nothing, offset */
    char name[NAME_MOST]; /* from the last '/' on */
    size_t name_size;
} line_t;

/* The mapping of offset 0 of the file that a line belongs to. */
typedef struct {
    uintptr_t start;
    bool readable;
} first_t;

static uintptr_t digit_of(char c) { return (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

static void take(line_t *line, char c) {
    enum { PERMISSIONS = 2, OFFSET = 3, NAME = 6 };
    if (c == '-' && line->column == 0) {
        line->column = 1;
        return;
    }
    if (c == ' ' && (line->column < NAME || line->name_size == 0)) {
        if (!line->blank && line->column < NAME) line->column++;
        line->blank = true;
        return;
    }
    line->blank = false;
    if (line->column == PERMISSIONS) {
        if (c == 'r') line->readable = true;
    } else if (line->column <= OFFSET) {
        line->numbers[line->column] = line->numbers[line->column] << 4 | digit_of(c);
    } else if (line->column >= NAME) {
        if (c == '/')
            line->name_size = 0;
        else if (line->name_size < NAME_MOST)
            line->name[line->name_size++] = c;
    }
}

/* True for a program that is not position independent: its addresses are those of the linker. */
static bool is_fixed(const first_t *first) {
    const Elf64_Ehdr *header = (const void *)first->start;
    return first->readable && header->e_type == ET_EXEC;
}

static bool has_file(const line_t *line) { return line->name_size != 0 && line->name[0] != '['; }

static long fill(int file, char *chunk) {
    long size;
    do size = syscall(SYS_read, file, chunk, CHUNK);
    while (size < 0 && errno == EINTR);
    return size;
}

/* The line of the mapping that holds an address; false when it is no file's. */
static bool search(int file, uintptr_t addr, line_t *line, first_t *first) {
    char chunk[CHUNK];
    *line = (line_t){.column = 0};
    *first = (first_t){0, false};
    for (long got; (got = fill(file, chunk)) > 0;) {
        for (long i = 0; i < got; i++) {
            if (chunk[i] != '\n') {
                take(line, chunk[i]);
                continue;
            }
            if (line->name_size && line->numbers[3] == 0)
                *first = (first_t){line->numbers[0], line->readable};
            if (addr >= line->numbers[0] && addr < line->numbers[1]) return has_file(line);
            *line = (line_t){.column = 0};
        }
    }
    return false;
}

static bool find(const void *addr, line_t *line, first_t *first) {
    int saved = errno;
    int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    bool found = file >= 0 && search(file, (uintptr_t)addr, line, first);
    if (file >= 0) hak_os_close(file);
    errno = saved;
    return found;
}

bool hak_os_module_of(const void *addr, char *name, size_t size, uintptr_t *offset) {
    line_t line;
    first_t first;
    if (!find(addr, &line, &first)) return false;
    size_t length = hak_min(line.name_size, size - 1);
    for (size_t i = 0; i < length; i++) name[i] = line.name[i];
    name[length] = 0;
    *offset = is_fixed(&first) ? (uintptr_t)addr : (uintptr_t)addr - first.start;
    return true;
}

const void *hak_os_module_base(const void *addr) {
    line_t line;
    first_t first;
    return find(addr, &line, &first) && first.readable ? (const void *)first.start : NULL;
}
