/* proc_maps.c: reads the thread's maps and pagemap in /proc. */
#include "os/proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/open_files.h"
#include "os/os.h"

/* Bits of an entry of pagemap: present or swapped out; of a file or shared. */
enum { THERE_SHIFT = 62, SHARED_SHIFT = 61 };
enum { ENTRIES = 512, WORDS = 512 };

static uintptr_t digit_of(char c) { return (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

static void take(hak_maps_line_t *line, char c) {
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
        line->readable |= c == 'r';
        line->writable |= c == 'w';
        line->shared |= c == 's';
    } else if (line->column <= OFFSET) {
        line->numbers[line->column] = line->numbers[line->column] << 4 | digit_of(c);
    } else if (line->column >= NAME) {
        if (c == '/')
            line->name_size = 0;
        else if (line->name_size < HAK_MAPS_NAME_MOST)
            line->name[line->name_size++] = c;
    }
}

/* A walk over all lines: the present line, and the visitor. */
typedef struct {
    hak_maps_line_t line;
    hak_maps_visitor_t visit;
    void *context;
    bool any;
} walk_t;

static bool step(walk_t *walk, char c) {
    if (c != '\n') {
        take(&walk->line, c);
        return true;
    }
    walk->any = true;
    bool goes_on = walk->visit(&walk->line, walk->context);
    walk->line = (hak_maps_line_t){.column = 0};
    return goes_on;
}

static bool steps(const char *piece, size_t size, void *context) {
    bool goes_on = true;
    for (size_t i = 0; goes_on && i < size; i++) goes_on = step(context, piece[i]);
    return goes_on;
}

bool hak_maps_each(hak_maps_visitor_t visit, void *context) {
    HAK_KEEP_ERRNO();
    walk_t walk = {.visit = visit, .context = context};
    hak_os_each_own_piece("maps", steps, &walk);
    return walk.any;
}

size_t hak_maps_threads(void) {
    HAK_KEEP_ERRNO();
    struct stat status;
    if (stat("/proc/self/task", &status) != 0 || status.st_nlink < 3) return 0;
    return (size_t)status.st_nlink - 2; /* its own links are no threads */
}

/* Names the calling thread, not the process: if the first thread has ended, the kernel finds no memory by its
 * number. */
static long copy_out(const struct iovec *to, const struct iovec *of, size_t count) {
    return syscall(SYS_process_vm_readv, hak_os_thread_id(), to, 1, of, count, 0);
}

/* The kernel copies the words, since a page may be a guard or lie behind the end of a file. False
 * when it refuses to copy at all. */
static bool read_words(uintptr_t from, uintptr_t end, hak_maps_words_t visit) {
    static uintptr_t words[WORDS] HAK_APART;
    for (; from < end; from += sizeof words) {
        size_t size = hak_min(end - from, sizeof words);
        const struct iovec to = {words, size}, of = {(void *)from, size};
        if (copy_out(&to, &of, 1) == (long)size)
            visit(words, size / sizeof *words);
        else if (errno != EFAULT)
            return false;
    }
    return true;
}

/* The kernel copies a word of each page, and ends before the first page that it cannot read. */
bool hak_maps_readable(uintptr_t start, unsigned pages, uint32_t *readable) {
    HAK_KEEP_ERRNO();
    uintptr_t words[HAK_MAPS_PAGES_MOST];
    struct iovec of[HAK_MAPS_PAGES_MOST];
    const struct iovec to = {words, sizeof words};
    for (unsigned i = 0; i < pages; i++)
        of[i] = (struct iovec){(void *)(start + i * hak_os_page_size()), sizeof *words};
    *readable = 0;
    for (unsigned at = 0; at < pages; at++) {
        long got = copy_out(&to, of + at, pages - at);
        if (got < 0 && errno != EFAULT) return false;
        unsigned read = got > 0 ? (unsigned)got / sizeof *words : 0;
        *readable |= (((uint32_t)1 << read) - 1) << at;
        at += read;
    }
    return true;
}

bool hak_maps_each_word(uintptr_t start, uintptr_t end, hak_maps_words_t visit, size_t *shared) {
    HAK_KEEP_ERRNO();
    static uint64_t entries[ENTRIES] HAK_APART;
    const size_t page = hak_os_page_size();
    int file = hak_os_open_own("pagemap");
    bool told = file >= 0;
    while (told && start < end) {
        long got = syscall(SYS_pread64, file, entries, sizeof entries,
                           (off_t)(start / page * sizeof *entries)); /* no cancellation point */
        told = got >= (long)sizeof *entries;
        for (size_t i = 0; told && start < end && i < (size_t)got / sizeof *entries; i++) {
            uintptr_t next = hak_min((start / page + 1) * page, end);
            if (entries[i] >> THERE_SHIFT == 0)
                ;
            else if (entries[i] >> SHARED_SHIFT & 1)
                *shared += next - start;
            else
                told = read_words(start, next, visit);
            start = next;
        }
    }
    if (file >= 0) hak_os_close(file);
    return told;
}
