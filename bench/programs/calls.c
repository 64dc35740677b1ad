/*
 * calls - libcalls.so: counts a program's calls of the malloc family, and measures its resident set
 * by their clock.
 *
 * Preloaded before an allocator, it passes every call on. Each STEP calls it reads the resident set,
 * so mean and peak do not depend on how fast the machine is. At exit it writes one line of JSON to
 * the file COST_CALLS names, with the process's number appended.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP 1024u  /* a power of two */
#define GROWTH 512u /* pages the resident set grows by until huge pages are counted again */
#define EARLY 4096  /* bytes for what dlsym allocates before the allocator is known */

enum kind { MALLOC, CALLOC, REALLOC, ALIGNED, FREE, USABLE, KINDS };
static const char *const names[KINDS] = {"malloc",  "calloc", "realloc",
                                         "aligned", "free",   "usable"};

static atomic_ulong counts[KINDS], calls, samples, sum_pages, peak_pages, huge_kb, huge_asked_at;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_memalign)(size_t, size_t);
static void *(*next_aligned)(size_t, size_t);
static int (*next_posix)(void **, size_t, size_t);
static void (*next_free)(void *);
static size_t (*next_usable)(void *);

static _Alignas(16) char early[EARLY];
static size_t early_used;
static int finding;

static void find(void) {
    finding = 1;
#define FIND(pointer, name) *(void **)&pointer = dlsym(RTLD_NEXT, name)
    FIND(next_calloc, "calloc");
    FIND(next_realloc, "realloc");
    FIND(next_memalign, "memalign");
    FIND(next_aligned, "aligned_alloc");
    FIND(next_posix, "posix_memalign");
    FIND(next_free, "free");
    FIND(next_usable, "malloc_usable_size");
    FIND(next_malloc, "malloc");
    finding = 0;
}

__attribute__((constructor)) static void prepare(void) {
    if (next_malloc == NULL) find();
}

static int is_early(const void *block) { return (uintptr_t)block - (uintptr_t)early < EARLY; }

static void *take_early(size_t size) {
    void *block = early + early_used;

    early_used += (size + 15) & ~(size_t)15;
    if (early_used > EARLY) abort();
    return block;
}

/* Resident pages; neither allocates nor changes errno where it succeeds. */
static unsigned long resident(void) {
    char text[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    char *second;

    if (file >= 0) close(file);
    if (length <= 0) return 0;
    text[length] = '\0';
    second = strchr(text, ' ');
    return second != NULL ? strtoul(second, NULL, 10) : 0;
}

/* Notes how much of the memory lies in huge pages, if it is the most so far. */
static void note_huge(void) {
    static const char wanted[] = "AnonHugePages:";
    char text[2048];
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    const char *line;
    unsigned long now;

    if (file >= 0) close(file);
    text[length > 0 ? length : 0] = '\0';
    line = strstr(text, wanted);
    now = line != NULL ? strtoul(line + sizeof wanted - 1, NULL, 10) : 0;
    if (now > atomic_load(&huge_kb)) atomic_store(&huge_kb, now);
}

static void sample(void) {
    unsigned long pages = resident(), peak = atomic_load(&peak_pages);

    if (pages > atomic_load(&huge_asked_at) + GROWTH) {
        atomic_store(&huge_asked_at, pages);
        note_huge();
    }
    atomic_fetch_add(&samples, 1);
    atomic_fetch_add(&sum_pages, pages);
    while (pages > peak && !atomic_compare_exchange_weak(&peak_pages, &peak, pages)) continue;
}

static void note(enum kind kind) {
    atomic_fetch_add_explicit(&counts[kind], 1, memory_order_relaxed);
    if ((atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) & (STEP - 1)) == 0) sample();
    if (next_malloc == NULL && !finding) find();
}

void *malloc(size_t size) {
    note(MALLOC);
    return finding ? take_early(size) : next_malloc(size);
}

void *calloc(size_t count, size_t size) {
    note(CALLOC);
    return finding ? take_early(count * size) : next_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    note(REALLOC);
    if (block == NULL || !is_early(block)) return next_realloc(block, size);
    void *moved = next_malloc(size);
    size_t most = (size_t)(early + EARLY - (char *)block);
    if (moved != NULL) memcpy(moved, block, size < most ? size : most);
    return moved;
}

void free(void *block) {
    note(FREE);
    if (!is_early(block)) next_free(block);
}

void *memalign(size_t alignment, size_t size) {
    note(ALIGNED);
    return next_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    note(ALIGNED);
    return next_aligned(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    note(ALIGNED);
    return next_posix(result, alignment, size);
}

size_t malloc_usable_size(void *block) {
    note(USABLE);
    return next_usable(block);
}

__attribute__((destructor)) static void finish(void) {
    const char *place = getenv("COST_CALLS");
    char text[1024], path[512];
    int length = 0, file;
    long kilobytes = sysconf(_SC_PAGESIZE) / 1024;

    if (place == NULL) return;
    sample();
    note_huge();
    length += snprintf(text, sizeof text, "{");
    for (int kind = 0; kind < KINDS; kind++)
        length += snprintf(text + length, sizeof text - (size_t)length, "\"%s\": %lu, ",
                           names[kind], (unsigned long)counts[kind]);
    length += snprintf(text + length, sizeof text - (size_t)length,
                       "\"mean_rss_kb\": %lu, \"peak_rss_kb\": %lu, \"huge_kb\": %lu}\n",
                       sum_pages / samples * (unsigned long)kilobytes,
                       peak_pages * (unsigned long)kilobytes, (unsigned long)huge_kb);
    snprintf(path, sizeof path, "%s.%ld", place, (long)getpid());
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (write(file, text, (size_t)length) != length) unlink(path);
    close(file);
}
