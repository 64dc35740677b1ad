/*
 * again - libagain.so: counts the pages that an allocator gave back to the system, and those of them
 * that were touched again, each of which is a page fault that keeping the page would have saved.
 *
 * Preloaded before an allocator, it passes on the calls that take pages away: madvise, munmap,
 * mremap, and mmap at a fixed address. Before each of the allocator's own it asks the kernel which
 * anonymous pages of the range are in memory. Each of them is noted as given back. A page that was noted
 * before and is in memory again has been touched: it is counted, and its note goes. At exit all pages
 * with a note are asked for once more. So every page that comes back is counted once for each time
 * that it was given back, whichever way the range is mapped meanwhile.
 *
 * Calls that an allocator makes past the C library, as glibc's own does, are not seen. At exit it
 * writes one line of JSON to the file AGAIN_FILE names, with the process's number appended.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEAF 512u     /* pages whose notes lie side by side */
#define LEAVES 65536u /* a power of two; 128 GiB with pages of 4 KiB */
#define FROM_FILE 61  /* bits of a word of /proc/self/pagemap */
#define IN_MEMORY 63

struct leaf {
    uintptr_t number; /* of its first page / LEAF; 0 = none */
    uint64_t given[LEAF / 64];
};

/* What happens to the pages of a range. */
enum fate { GIVEN, LEFT, REPLACED };

static struct leaf leaves[LEAVES]; /* untouched ones cost nothing */
static atomic_flag held = ATOMIC_FLAG_INIT;
static unsigned long given, again;
static uintptr_t begin, end; /* of the allocator's library */
static size_t page;

static void take(void) {
    while (atomic_flag_test_and_set(&held)) continue;
}

static void let_go(void) { atomic_flag_clear(&held); }

/* The leaf of that number, made if `makes`; NULL without one. */
static struct leaf *leaf_of(uintptr_t number, int makes) {
    for (size_t i = 0; i < LEAVES; i++) {
        struct leaf *leaf = &leaves[(number + i) & (LEAVES - 1)];

        if (leaf->number == number) return leaf;
        if (leaf->number != 0) continue;
        if (makes) leaf->number = number;
        return makes ? leaf : NULL;
    }
    return NULL;
}

/* Settles the notes of `count` pages of one leaf, and takes new ones of those that go. */
static void settle(int map, uintptr_t first, size_t count, enum fate fate) {
    uint64_t words[LEAF];
    struct leaf *leaf = leaf_of(first / LEAF, 0);
    long bytes;

    if (leaf == NULL && fate != GIVEN) return;
    bytes = syscall(SYS_pread64, map, words, count * sizeof *words, (off_t)(first * sizeof *words));
    if (bytes < 0) bytes = 0;
    memset((char *)words + bytes, 0, count * sizeof *words - (size_t)bytes);
    for (size_t i = 0; i < count; i++) {
        int is_here = (words[i] >> IN_MEMORY & 1) != 0 && (words[i] >> FROM_FILE & 1) == 0;
        uint64_t *note, bit = 1ull << (first + i) % 64;

        if (leaf == NULL && is_here) leaf = leaf_of(first / LEAF, 1);
        if (leaf == NULL) continue;
        note = &leaf->given[(first + i) % LEAF / 64];
        if (is_here && (*note & bit) != 0 && fate != REPLACED) again++;
        if (is_here || fate != GIVEN) *note &= ~bit;
        if (is_here && fate == GIVEN) {
            *note |= bit;
            given++;
        }
    }
}

/* Settles all pages of a range. Leaves errno alone; called from within an allocator, it calls none. */
static void settle_range(const void *address, size_t size, enum fate fate) {
    uintptr_t first = (uintptr_t)address / page, last = first + (size + page - 1) / page;
    int map;

    if (size == 0) return;
    map = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    if (map < 0) return;
    take();
    while (first < last) {
        uintptr_t next = (first / LEAF + 1) * LEAF;

        if (next > last) next = last;
        settle(map, first, next - first, fate);
        first = next;
    }
    let_go();
    syscall(SYS_close, map);
}

static int is_allocator(const void *caller) { return (uintptr_t)caller - begin < end - begin; }

static int (*next_madvise)(void *, size_t, int);
static int (*next_munmap)(void *, size_t);
static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static void *(*next_mremap)(void *, size_t, size_t, int, ...);

/* Notes where the file lies that has the malloc behind this one. */
static int note_file(struct dl_phdr_info *file, size_t size, void *code) {
    uintptr_t from = UINTPTR_MAX, to = 0;

    (void)size;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        uintptr_t at = file->dlpi_addr + file->dlpi_phdr[i].p_vaddr;

        if (file->dlpi_phdr[i].p_type != PT_LOAD) continue;
        if (at < from) from = at;
        if (at + file->dlpi_phdr[i].p_memsz > to) to = at + file->dlpi_phdr[i].p_memsz;
    }
    if ((uintptr_t)code - from >= to - from) return 0;
    begin = from;
    end = to;
    return 1;
}

/* A child of a fork has the notes of its parent, which counts them. */
static void begin_anew(void) {
    for (size_t i = 0; i < LEAVES; i++)
        if (leaves[i].number != 0) leaves[i] = (struct leaf){0};
    given = again = 0;
    let_go();
}

__attribute__((constructor)) static void prepare(void) {
    if (next_mremap != NULL) return;
    page = (size_t)sysconf(_SC_PAGESIZE);
#define FIND(pointer, name) *(void **)&pointer = dlsym(RTLD_NEXT, name)
    FIND(next_madvise, "madvise");
    FIND(next_munmap, "munmap");
    FIND(next_mmap, "mmap");
    FIND(next_mremap, "mremap");
    dl_iterate_phdr(note_file, dlsym(RTLD_NEXT, "malloc"));
    pthread_atfork(NULL, NULL, begin_anew);
}

int madvise(void *address, size_t size, int advice) {
    prepare();
    if (advice == MADV_DONTNEED && is_allocator(__builtin_return_address(0)))
        settle_range(address, size, GIVEN);
    return next_madvise(address, size, advice);
}

int munmap(void *address, size_t size) {
    prepare();
    settle_range(address, size, is_allocator(__builtin_return_address(0)) ? GIVEN : LEFT);
    return next_munmap(address, size);
}

/* A file's pages, and those of the program's own mapping, are no blocks that come back. */
static void *map(void *address, size_t size, int access, int flags, int file, off_t offset,
                 int is_own) {
    void *mapped;

    if ((flags & MAP_FIXED) != 0) settle_range(address, size, is_own ? GIVEN : LEFT);
    mapped = next_mmap(address, size, access, flags, file, offset);
    if (!is_own && mapped != MAP_FAILED) settle_range(mapped, size, REPLACED);
    return mapped;
}

void *mmap(void *address, size_t size, int access, int flags, int file, off_t offset) {
    prepare();
    return map(address, size, access, flags, file, offset,
               is_allocator(__builtin_return_address(0)));
}

void *mmap64(void *address, size_t size, int access, int flags, int file, off_t offset) {
    prepare();
    return map(address, size, access, flags, file, offset,
               is_allocator(__builtin_return_address(0)));
}

/* Pages that move go nowhere: only a tail that is cut off, and what lies at the target. */
void *mremap(void *address, size_t old_size, size_t new_size, int flags, ...) {
    int is_own = is_allocator(__builtin_return_address(0));
    size_t kept = new_size < old_size ? new_size : old_size;
    va_list more;
    void *target = NULL, *moved;

    prepare();
    va_start(more, flags);
    if ((flags & MREMAP_FIXED) != 0) target = va_arg(more, void *);
    va_end(more);
    settle_range(address, kept, LEFT);
    settle_range((char *)address + kept, old_size - kept, is_own ? GIVEN : LEFT);
    if (target != NULL) settle_range(target, new_size, is_own ? GIVEN : LEFT);
    moved = next_mremap(address, old_size, new_size, flags, target);
    if (moved != MAP_FAILED && moved != address) settle_range(moved, new_size, REPLACED);
    return moved;
}

__attribute__((destructor)) static void finish(void) {
    const char *place = getenv("AGAIN_FILE");
    char text[128], path[512];
    int length, file;

    if (place == NULL) return;
    for (size_t i = 0; i < LEAVES; i++)
        if (leaves[i].number != 0)
            settle_range((void *)(leaves[i].number * LEAF * page), LEAF * page, LEFT);
    length = snprintf(text, sizeof text, "{\"given\": %lu, \"again\": %lu}\n", given, again);
    snprintf(path, sizeof path, "%s.%ld", place, (long)getpid());
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (write(file, text, (size_t)length) != length) unlink(path);
    close(file);
}
