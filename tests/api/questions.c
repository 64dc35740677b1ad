/* questions.c - properties that programs and test suites expect beyond the C standard.
 *
 *     questions
 *
 * The same questions also run on glibc's malloc: a difference between the two shows here. The sources are malloc(3), posix_memalign(3),
 * malloc_usable_size(3), mallinfo(3), mallopt(3), malloc_info(3), malloc_trim(3), POSIX.1-2024 and
 * C23. All questions are asked, and each wrong answer prints a line. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static unsigned wrong_count;

/* Volatile, or the compiler would know better. */
static volatile const size_t most = SIZE_MAX, half = SIZE_MAX / 2 + 1, none;

#define ASK(answer, ...) ask(answer, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) static void ask(bool answer, int line, const char *format,
                                                      ...) {
    va_list arguments;
    if (answer) return;
    wrong_count++;
    printf("FAIL questions.c:%d: ", line);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

/* NULL, and errno says why. */
#define ASK_REFUSED(call, reason)                                                        \
    do {                                                                                 \
        errno = 0;                                                                       \
        void *block_ = (call);                                                           \
        ASK(block_ == NULL && errno == (reason), #call ": %p, errno %d", block_, errno); \
    } while (0)

static bool is_at(const void *block, size_t align) { return (uintptr_t)block % align == 0; }

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static bool is_all(const unsigned char *bytes, size_t size, unsigned char value) {
    return size == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* ---- errno ----------------------------------------------------------------------------------- */

static void free_leaves_errno(void) {
    static const size_t sizes[] = {1, 100, 3000, 100 * KIB, 3 * MIB, 64 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *block = API(malloc)(sizes[i]);
        errno = 4242;
        API(free)(block);
        ASK(errno == 4242, "free of %zu bytes makes errno %d", sizes[i], errno);
    }
    errno = 4242;
    API(free)(NULL);
    ASK(errno == 4242, "free(NULL) makes errno %d", errno);
}

/* ---- Sizes that cannot be -------------------------------------------------------------------- */

static void too_much_is_refused(void) {
    for (size_t less = 0; less < 70 * KIB; less = less * 2 + 1) {
        ASK_REFUSED(API(malloc)(most - less), ENOMEM);
        ASK_REFUSED(API(malloc)(half + less), ENOMEM);
        ASK_REFUSED(API(calloc)(most - less, 1), ENOMEM);
        ASK_REFUSED(API(calloc)(1, most - less), ENOMEM);
        ASK_REFUSED(API(realloc)(NULL, most - less), ENOMEM);
        ASK_REFUSED(API(valloc)(most - less), ENOMEM);
        ASK_REFUSED(API(pvalloc)(most - less), ENOMEM);
        for (size_t align = 16; align <= MIB; align *= 4) {
            void *block = &block, *same = block;
            ASK_REFUSED(API(memalign)(align, most - less), ENOMEM);
            ASK_REFUSED(API(aligned_alloc)(align, most - less), ENOMEM);
            int error = API(posix_memalign)(&block, align, most - less);
            ASK(error == ENOMEM && block == same, "posix_memalign(%zu, SIZE_MAX - %zu): %d", align,
                less, error);
        }
    }
    ASK_REFUSED(API(malloc)(half - 1), ENOMEM); /* PTRDIFF_MAX: no machine has that */
    ASK_REFUSED(API(memalign)(64, half - 1), ENOMEM);
    ASK_REFUSED(API(memalign)(half, 1), ENOMEM);
}

static void products_that_overflow_are_refused(void) {
    static const size_t factors[][2] = {{SIZE_MAX / 2 + 1, 2}, {SIZE_MAX / 16 + 1, 16},
                                        {SIZE_MAX, SIZE_MAX},  {(size_t)1 << 32, (size_t)1 << 32},
                                        {SIZE_MAX, 2},         {100, SIZE_MAX / 10}};
    unsigned char *const block = API(malloc)(100);
    unsigned char *volatile given = block; /* the compiler thinks that a refused call frees it */
    memset(block, 7, 100);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        volatile size_t count = factors[i][0], size = factors[i][1];
        ASK_REFUSED(API(calloc)(count, size), ENOMEM);
        ASK_REFUSED(API(reallocarray)(NULL, count, size), ENOMEM);
        ASK_REFUSED(API(reallocarray)(given, count, size), ENOMEM);
        ASK_REFUSED(API(realloc)(given, most - i), ENOMEM);
    }
    ASK(is_all(block, 100, 7), "a block is not as it was after refused reallocations");
    API(free)(block);
}

/* ---- Nothing --------------------------------------------------------------------------------- */

static void blocks_of_no_size_are_blocks(void) {
    void *blocks[9] = {API(malloc)(none),
                       API(calloc)(none, 8),
                       API(calloc)(8, none),
                       API(realloc)(NULL, none),
                       API(reallocarray)(NULL, none, 8),
                       API(memalign)(64, none),
                       API(valloc)(none),
                       API(pvalloc)(none),
                       NULL};
    ASK(API(posix_memalign)(&blocks[8], 64, none) == 0, "posix_memalign refuses size 0");
    for (int i = 0; i < 9; i++) {
        ASK(blocks[i] != NULL, "block %d of size 0 is NULL", i);
        for (int k = 0; k < i; k++) ASK(blocks[i] != blocks[k], "two blocks of size 0 are one");
    }
    ASK(is_at(blocks[6], page_size()) && is_at(blocks[7], page_size()), "not at a page");
    for (int i = 0; i < 9; i++) API(free)(blocks[i]);
    ASK(API(realloc)(API(malloc)(100), none) == NULL, "realloc to 0 is not NULL");
    ASK(API(malloc_usable_size)(NULL) == 0, "NULL has a usable size");
}

/* ---- Alignment ------------------------------------------------------------------------------- */

static void every_size_is_aligned_and_usable(void) {
    for (size_t size = 1; size < 200 * KIB; size += size < 5000 ? 1 : 977) {
        size_t align = size >= 16 ? 16 : size >= 8 ? 8 : size >= 4 ? 4 : size >= 2 ? 2 : 1;
        unsigned char *block = API(malloc)(size);
        size_t usable = API(malloc_usable_size)(block);
        ASK(is_at(block, align), "malloc(%zu) is at %p", size, (void *)block);
        ASK(usable >= size, "malloc(%zu) has %zu usable bytes", size, usable);
        memset(block, 1, usable);
        ASK(API(malloc_usable_size)(block) == usable, "the usable size of %zu bytes changes", size);
        API(free)(block);
    }
}

static void memalign_takes_any_alignment(void) {
    static const size_t sizes[] = {1, 8, 24, 100, 1000, 5000, 70 * KIB, 2 * MIB};
    for (size_t align = 0; align < 10000; align += align < 300 ? 1 : 333) {
        size_t power = 1;
        while (power < align) power *= 2;
        void *block = API(memalign)(align, sizes[align % 8]);
        ASK(block && is_at(block, power), "memalign(%zu, %zu) is %p", align, sizes[align % 8],
            block);
        API(free)(block);
    }
    for (size_t align = 16; align <= 16 * MIB; align *= 2)
        for (int i = 0; i < 8; i++) {
            unsigned char *block = API(aligned_alloc)(align, sizes[i]); /* no multiple, mostly */
            ASK(block && is_at(block, align), "aligned_alloc(%zu, %zu) is %p", align, sizes[i],
                (void *)block);
            if (!block) continue;
            size_t usable = API(malloc_usable_size)(block);
            ASK(usable >= sizes[i], "%zu bytes usable of %zu", usable, sizes[i]);
            memset(block, 5, usable);
            block = API(realloc)(block, sizes[i] + 100);
            ASK(block && is_all(block, sizes[i], 5), "realloc of an aligned block loses bytes");
            API(free)(block);
        }
    ASK_REFUSED(API(memalign)(half + 1, 8), EINVAL);
    ASK_REFUSED(API(memalign)(most, 8), EINVAL);
}

/* aligned_alloc of glibc rounds up before 2.38, and refuses from then on, as C23 has it. */
static void aligned_alloc_never_misaligns(void) {
    static volatile const size_t aligns[] = {0, 3, 24, 48, 100};
    for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
        errno = 0;
        void *block = API(aligned_alloc)(aligns[i], 96);
        if (block)
            ASK(is_at(block, aligns[i] > 64   ? 128
                             : aligns[i] > 32 ? 64
                             : aligns[i] > 16 ? 32
                                              : 1),
                "aligned_alloc(%zu, 96) is %p", aligns[i], block);
        else
            ASK(errno == EINVAL, "aligned_alloc(%zu, 96): errno %d", aligns[i], errno);
        API(free)(block);
    }
}

static void posix_memalign_refuses(void) {
    static volatile const size_t aligns[] = {0,  1,  2,  3,  4,  7,   9,    12,    15,
                                             17, 24, 40, 48, 96, 100, 4095, 65537, SIZE_MAX};
    for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
        void *block = &block, *same = block;
        int error = API(posix_memalign)(&block, aligns[i], 100);
        ASK(error == EINVAL && block == same, "posix_memalign of %zu: %d", aligns[i], error);
    }
    for (size_t align = sizeof(void *); align <= 4 * MIB; align *= 2) {
        void *block = NULL;
        int error = API(posix_memalign)(&block, align, 100);
        ASK(error == 0 && block && is_at(block, align), "posix_memalign of %zu: %d", align, error);
        API(free)(block);
    }
}

static void page_functions(void) {
    static const size_t sizes[] = {1, 100, 4095, 4096, 4097, 65536, 65537, 3 * MIB + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t page = page_size(), rounded = (sizes[i] + page - 1) / page * page;
        void *plain = API(valloc)(sizes[i]), *whole = API(pvalloc)(sizes[i]);
        ASK(plain && is_at(plain, page), "valloc(%zu) is %p", sizes[i], plain);
        ASK(whole && is_at(whole, page), "pvalloc(%zu) is %p", sizes[i], whole);
        ASK(API(malloc_usable_size)(whole) >= rounded, "pvalloc(%zu) has no whole pages", sizes[i]);
        memset(whole, 3, rounded);
        API(free)(plain);
        API(free)(whole);
    }
}

/* ---- Contents -------------------------------------------------------------------------------- */

/* Of a block that had other bytes before, up to its usable size. */
static void calloc_zeroes_all_that_is_usable(void) {
    enum { ROUNDS = 3, KEPT = 8 };
    unsigned unclean = 0, asked = 0;
    size_t first = 0;
    for (size_t size = 0; size < 300 * KIB; size += size < 4200 ? 1 : size / 37) {
        unsigned char *dirty[KEPT];
        for (int round = 0; round < ROUNDS; round++, asked++) {
            for (int i = 0; i < KEPT; i++) {
                dirty[i] = API(malloc)(size);
                memset(dirty[i], 0xa5, API(malloc_usable_size)(dirty[i]));
            }
            for (int i = 0; i < KEPT; i++) API(free)(dirty[i]);
            unsigned char *block = API(calloc)(1, size);
            bool is_clean = is_all(block, API(malloc_usable_size)(block), 0);
            if (!is_clean && unclean++ == 0) first = size;
            API(free)(block);
        }
    }
    ASK(unclean == 0, "%u of %u blocks of calloc are not zero up to their usable size; first %zu",
        unclean, asked, first);
    for (size_t size = 300 * KIB; size < 40 * MIB; size = size * 3 / 2 + 1) {
        unsigned char *block = API(malloc)(size);
        memset(block, 0xa5, API(malloc_usable_size)(block));
        API(free)(block);
        block = API(calloc)(size, 1);
        ASK(is_all(block, API(malloc_usable_size)(block), 0), "calloc of %zu is not zero", size);
        API(free)(block);
    }
}

static void realloc_keeps_contents(void) {
    static const size_t sizes[] = {1,        16,       100,  40 * KIB, 1000,     5 * MIB, 70 * KIB,
                                   65 * KIB, 64 * KIB, 2000, 2 * MIB,  12 * MIB, 4096,    24};
    size_t count = sizeof sizes / sizeof *sizes;
    for (size_t from = 0; from < count; from++)
        for (size_t to = 0; to < count; to++) {
            size_t less = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            unsigned char *block = API(malloc)(sizes[from]);
            memset(block, (int)(from + 1), sizes[from]);
            block = API(realloc)(block, sizes[to]);
            ASK(block && is_all(block, less, (unsigned char)(from + 1)),
                "realloc from %zu to %zu loses bytes", sizes[from], sizes[to]);
            memset(block, 0xff, sizes[to]);
            API(free)(block);
        }
}

static void many_blocks_are_apart(void) {
    enum { MANY = 100000 };
    static uint32_t *blocks[MANY];
    unsigned bad = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        blocks[i] = API(malloc)(sizeof **blocks + i % 90);
        *blocks[i] = i;
    }
    for (uint32_t i = 0; i < MANY; i++) {
        bad += *blocks[i] != i;
        API(free)(blocks[i]);
    }
    ASK(bad == 0, "%u of %d blocks lie over others", bad, MANY);
}

/* ---- What is told of the heap ---------------------------------------------------------------- */

enum { HELD = 2000, HELD_SIZE = 2000 };
static void *held[HELD];

static void mallinfo_follows_the_program(void) {
    api_mallinfo2 before = API(mallinfo2)();
    for (int i = 0; i < HELD; i++) held[i] = API(malloc)(HELD_SIZE);
    api_mallinfo2 full = API(mallinfo2)();
    for (int i = 0; i < HELD; i += 2) API(free)(held[i]);
    api_mallinfo2 half_free = API(mallinfo2)();
    for (int i = 1; i < HELD; i += 2) API(free)(held[i]);
    api_mallinfo2 after = API(mallinfo2)();
    const size_t bytes = (size_t)HELD * HELD_SIZE;
    ASK(full.uordblks >= before.uordblks + bytes, "uordblks grows by %zu for %zu bytes",
        full.uordblks - before.uordblks, bytes);
    ASK(half_free.uordblks <= full.uordblks - bytes / 3, "uordblks does not shrink by frees");
    ASK(half_free.ordblks >= 1 + HELD / 3 && half_free.ordblks <= full.ordblks + HELD,
        "ordblks is %zu with %d free blocks, and was %zu", half_free.ordblks, HELD / 2,
        full.ordblks);
    ASK(half_free.fordblks >= bytes / 3, "fordblks is %zu with %zu bytes free", half_free.fordblks,
        bytes / 2);
    ASK(after.uordblks < before.uordblks + bytes / 10, "uordblks is %zu at the end, and was %zu",
        after.uordblks, before.uordblks);
    ASK(full.arena >= bytes && after.ordblks >= 1, "arena %zu, ordblks %zu", full.arena,
        after.ordblks);
    /* No fast bin has been used: these blocks are too large for one. */
    ASK(after.smblks <= before.smblks && after.fsmblks <= before.fsmblks && after.usmblks == 0,
        "smblks %zu, fsmblks %zu, usmblks %zu", after.smblks, after.fsmblks, after.usmblks);
}

/* As LTP asks it: nothing is in a fast bin before a small block was freed by this thread. */
static void mallinfo_of_a_block(void) {
    void *block = API(malloc)(20 * KIB);
    api_mallinfo2 with = API(mallinfo2)();
    API(free)(block);
    api_mallinfo2 without = API(mallinfo2)();
    ASK(with.uordblks >= 20 * KIB, "uordblks is %zu with a block of 20 KiB", with.uordblks);
    ASK(without.uordblks + 20 * KIB <= with.uordblks, "uordblks is %zu without it",
        without.uordblks);
    ASK(without.ordblks >= 1 && without.smblks == 0, "ordblks %zu, smblks %zu", without.ordblks,
        without.smblks);
}

static void mappings_are_counted(void) {
    api_mallinfo2 before = API(mallinfo2)();
    void *block = API(malloc)(40 * MIB);
    api_mallinfo2 with = API(mallinfo2)();
    API(free)(block);
    api_mallinfo2 after = API(mallinfo2)();
    ASK(with.hblks == before.hblks + 1 && with.hblkhd >= before.hblkhd + 40 * MIB,
        "hblks %zu -> %zu, hblkhd %zu -> %zu", before.hblks, with.hblks, before.hblkhd,
        with.hblkhd);
    ASK(after.hblks == before.hblks && after.hblkhd == before.hblkhd, "hblks %zu, hblkhd %zu",
        after.hblks, after.hblkhd);
    ASK(with.uordblks < before.uordblks + 40 * MIB && with.uordblks <= with.arena,
        "a mapping counts twice: uordblks %zu -> %zu, arena %zu", before.uordblks, with.uordblks,
        with.arena);
    ASK(API(mallopt)(M_MMAP_THRESHOLD, 200000) == 1, "M_MMAP_THRESHOLD is refused");
    block = API(malloc)(300000);
    void *less = API(malloc)(150000);
    with = API(mallinfo2)();
    ASK(with.hblks == before.hblks + 1 && with.hblkhd >= before.hblkhd + 300000,
        "M_MMAP_THRESHOLD of 200,000: hblks %zu, hblkhd %zu", with.hblks, with.hblkhd);
    block = API(realloc)(block, 100000);
    memset(block, 1, 100000);
    API(free)(block);
    API(free)(less);
    ASK(API(mallinfo2)().hblks == before.hblks, "a mapping is left");
    ASK(API(mallopt)(M_MMAP_THRESHOLD, 32 << 20) == 1, "M_MMAP_THRESHOLD is not set back");
    block = API(malloc)(300000);
    ASK(API(mallinfo2)().hblks == before.hblks, "300,000 bytes are a mapping below the threshold");
    API(free)(block);
}

/* That of <malloc.h> and its values; what is no parameter is for info.c, since glibc says 1. */
static void mallopt_knows_its_parameters(void) {
    static const struct {
        int parameter, value, answer;
    } cases[] = {
        {M_MXFAST, 0, 1},
        {M_MXFAST, 64, 1},
        {M_MXFAST, 160, 1},
        {M_MXFAST, 161, 0},
        {M_MXFAST, 100000, 0},
        {M_MXFAST, 64 * sizeof(size_t) / 4, 1},
        {M_TRIM_THRESHOLD, 0, 1},
        {M_TRIM_THRESHOLD, -1, 1},
        {M_TRIM_THRESHOLD, 128 * 1024, 1},
        {M_TOP_PAD, 0, 1},
        {M_TOP_PAD, 1 << 20, 1},
        {M_MMAP_THRESHOLD, -1, 1},
        {M_MMAP_THRESHOLD, 128 * 1024, 1},
        {M_MMAP_THRESHOLD, 32 << 20, 1},
        {M_MMAP_MAX, 65536, 1},
        {M_CHECK_ACTION, 3, 1},
        {M_PERTURB, 0, 1},
        {M_ARENA_TEST, 2, 1},
        {M_ARENA_MAX, 1, 1},
        {M_ARENA_MAX, 64, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int answer = API(mallopt)(cases[i].parameter, cases[i].value);
        ASK(answer == cases[i].answer, "mallopt(%d, %d) is %d", cases[i].parameter, cases[i].value,
            answer);
    }
}

static void trim_tells_whether_it_gave(void) {
    enum { COUNT = 400, SIZE = 100000 };
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) memset(blocks[i] = API(malloc)(SIZE), 1, SIZE);
    for (int i = 0; i < COUNT - 1; i++) API(free)(blocks[i]);
    int given = API(malloc_trim)(0);
    ASK(given == 1, "malloc_trim is %d with %d bytes free", given, COUNT * SIZE);
    API(free)(blocks[COUNT - 1]);
    API(malloc_trim)(0);
    given = API(malloc_trim)(SIZE_MAX);
    ASK(given == 0 || given == 1, "malloc_trim is %d", given);
}

static void info_is_xml(void) {
    static char text[1 << 20];
    FILE *stream = fmemopen(text, sizeof text, "w");
    int answer = API(malloc_info)(0, stream);
    fclose(stream);
    ASK(answer == 0, "malloc_info is %d", answer);
    ASK(strncmp(text, "<malloc version=\"", 17) == 0 && strstr(text, "</malloc>\n"),
        "malloc_info writes %.60s", text);
    ASK(strstr(text, "<total type=\"fast\" count=\"") &&
            strstr(text, "<total type=\"rest\" count=\"") &&
            strstr(text, "<total type=\"mmap\" count=\"") &&
            strstr(text, "<system type=\"current\" size=\""),
        "a total is not in %s", text);
    stream = fmemopen(text, sizeof text, "w");
    answer = API(malloc_info)(1, stream);
    ASK(answer != 0 && ftell(stream) == 0, "malloc_info with options is %d", answer);
    fclose(stream);
}

static void stats_go_to_stderr(void) {
    int ends[2], saved = dup(STDERR_FILENO);
    char text[16];
    fflush(NULL);
    CHECK(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0, "no pipe");
    API(malloc_stats)();
    fflush(NULL);
    dup2(saved, STDERR_FILENO);
    close(ends[1]);
    ASK(read(ends[0], text, sizeof text) > 0, "malloc_stats writes nothing to stderr");
    close(ends[0]);
    close(saved);
}

int main(void) {
    static void (*const questions[])(void) = {
        mallinfo_of_a_block,  /* first: see there */
        mappings_are_counted, /* before anything is free that would serve instead of a mapping */
        free_leaves_errno,
        too_much_is_refused,
        products_that_overflow_are_refused,
        blocks_of_no_size_are_blocks,
        every_size_is_aligned_and_usable,
        memalign_takes_any_alignment,
        aligned_alloc_never_misaligns,
        posix_memalign_refuses,
        page_functions,
        calloc_zeroes_all_that_is_usable,
        realloc_keeps_contents,
        many_blocks_are_apart,
        mallinfo_follows_the_program,
        trim_tells_whether_it_gave,
        info_is_xml,
        stats_go_to_stderr,
        mallopt_knows_its_parameters, /* last: parameters stay */
    };
    watchdog(100, "questions");
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) questions[i]();
    return wrong_count != 0;
}
