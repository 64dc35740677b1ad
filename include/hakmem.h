/* hakmem.h - the public interface of libhakmem, a general-purpose memory allocator for Linux.
 *
 * SPDX-License-Identifier: MIT
 *
 * A program needs nothing from this header to run on HAKMEM: preloading or linking the library
 * replaces malloc(3) and its family. The hakmem_* twins below use the same heap explicitly: a block
 * from malloc may be passed to hakmem_free and vice versa, as long as libhakmem serves both.
 * In a build with HAKMEM_PREFIXED_ONLY the twins are the whole interface.
 *
 * Unless a function says otherwise:
 *   - Sizes and alignments are in bytes.
 *   - A block of more than 8 bytes is aligned to 16, a smaller one to 8; functions that take an
 *     alignment align more strictly.
 *   - A request of 0 bytes returns a unique block that can be freed.
 *   - A request above PTRDIFF_MAX, or one whose product overflows, fails with ENOMEM.
 *   - A function that fails returns NULL and sets errno to ENOMEM; existing blocks are unchanged.
 *   - Any thread may call any function at any time, and may free a block that another thread
 *     allocated. A function is async-signal-safe only where its text says so.
 *   - The contents of a new block are undefined, unless the text says that they are zero.
 *   - Freeing a pointer that is not a live block (double, interior, misaligned or foreign pointer)
 *     writes one line to stderr and aborts, or does what the option HAKMEM_ON_ERROR says.
 */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HAKMEM_VERSION_MAJOR 1
#define HAKMEM_VERSION_MINOR 0
#define HAKMEM_VERSION_PATCH 0

/* One number for #if that grows with every version: 1.2.3 is 10203. */
#define HAKMEM_VERSION \
    (HAKMEM_VERSION_MAJOR * 10000 + HAKMEM_VERSION_MINOR * 100 + HAKMEM_VERSION_PATCH)

/* HAKMEM_ATTR((list)): C89 has no macros of many arguments. The names of attributes have underscores, since a
 * program may have macros called malloc or nonnull. */
#if defined(__GNUC__) || defined(__clang__)
#define HAKMEM_ATTR(list) __attribute__(list)
#else
#define HAKMEM_ATTR(list)
#endif
#define HAKMEM_API HAKMEM_ATTR((__visibility__("default")))

/* Tells C++ that no function throws, so that callers need no unwind code. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define HAKMEM_NOEXCEPT noexcept
#elif defined(__cplusplus)
#define HAKMEM_NOEXCEPT throw()
#else
#define HAKMEM_NOEXCEPT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the running library, in the form of HAKMEM_VERSION. It may differ from the macro,
 * which is the version that the program was compiled with. */
HAKMEM_API int hakmem_version(void) HAKMEM_NOEXCEPT HAKMEM_ATTR((__const__));

/* ---- Allocation ------------------------------------------------------------------------------ */

/* malloc(3), C23 7.24.3.6: a block of at least size bytes. */
HAKMEM_API void *hakmem_malloc(size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_size__(1), __warn_unused_result__));

/* calloc(3), C23 7.24.3.2: a block of count * size bytes, all zero, as is the rest of the block up
 * to hakmem_malloc_usable_size. */
HAKMEM_API void *hakmem_calloc(size_t count, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_size__(1, 2), __warn_unused_result__));

/* realloc(3), C23 7.24.3.7: resizes the block ptr to at least size bytes and returns its new
 * address; the contents are preserved up to the smaller of both sizes. On success the old pointer
 * is invalid, even if the new one compares equal. If ptr is NULL: like hakmem_malloc(size). If size
 * is 0 and ptr is not NULL: frees ptr and returns NULL with errno unchanged, as glibc does. On
 * failure ptr stays valid. */
HAKMEM_API void *hakmem_realloc(void *ptr, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__alloc_size__(2), __warn_unused_result__));

/* reallocarray(3), POSIX.1-2024: hakmem_realloc(ptr, count * size), with ENOMEM on overflow. */
HAKMEM_API void *hakmem_reallocarray(void *ptr, size_t count, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__alloc_size__(2, 3), __warn_unused_result__));

/* aligned_alloc(3), C23 7.24.3.1: size bytes at a multiple of alignment, a power of two; size need
 * not be a multiple of alignment. EINVAL when alignment is not a power of two. */
HAKMEM_API void *hakmem_aligned_alloc(size_t alignment, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_align__(1), __alloc_size__(2), __warn_unused_result__));

/* posix_memalign(3), POSIX.1-2024: stores in *out a block of size bytes at a multiple of alignment,
 * which is a power of two and a multiple of sizeof(void *). Returns 0, EINVAL (bad alignment) or
 * ENOMEM; on error *out is unchanged. errno is never changed. */
HAKMEM_API int hakmem_posix_memalign(void **out, size_t alignment, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__nonnull__(1), __warn_unused_result__));

/* memalign(3): size bytes at a multiple of alignment. As in glibc, an alignment that is not a power
 * of two is raised to the next one; EINVAL when there is none. */
HAKMEM_API void *hakmem_memalign(size_t alignment, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_size__(2), __warn_unused_result__));

/* valloc(3): size bytes at a multiple of the system's page size. */
HAKMEM_API void *hakmem_valloc(size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_size__(1), __warn_unused_result__));

/* pvalloc(3): as hakmem_valloc, with size rounded up to whole pages; the whole of the last page may
 * be used. */
HAKMEM_API void *hakmem_pvalloc(size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_size__(1), __warn_unused_result__));

/* ---- Release --------------------------------------------------------------------------------- */

/* free(3), C23 7.24.3.3: frees the block; NULL is ignored. errno is never changed
 * (POSIX.1-2024). */
HAKMEM_API void hakmem_free(void *ptr) HAKMEM_NOEXCEPT;

/* free_sized, C23 7.24.3.4: as hakmem_free, for a block of malloc, calloc, realloc or reallocarray
 * that was requested with exactly size bytes (for arrays, the product). A wrong size is reported if
 * the block has a debug record (HAKMEM_HDR_LIGHT); debug builds abort if the size is larger than
 * the block. */
HAKMEM_API void hakmem_free_sized(void *ptr, size_t size) HAKMEM_NOEXCEPT;

/* free_aligned_sized, C23 7.24.3.5: as hakmem_free for a block of aligned_alloc that was requested
 * with exactly this alignment and size. */
HAKMEM_API void hakmem_free_aligned_sized(void *ptr, size_t alignment, size_t size) HAKMEM_NOEXCEPT;

/* ---- Heaps of the caller's own --------------------------------------------------------------- */

/* A heap: its blocks are counted and limited separately, and can be freed all at once. It is bound
 * to no thread: any thread may allocate from it, and any thread may free its blocks, by
 * hakmem_free, free or any other function that frees. The functions of a heap share one lock, so
 * threads that must not wait for each other need a heap each. A heap takes memory of its own in
 * pieces of 64 KiB and rounds sizes up to multiples of 16 bytes; threads do not cache its blocks. A
 * heap without blocks has no such memory and takes 256 bytes of records; the number of heaps is not
 * limited.
 *
 * A handle is not an address. A call with an invalid handle, or with one whose heap was destroyed,
 * writes one line to stderr and aborts, or does what HAKMEM_ON_ERROR says; then it returns NULL
 * with EINVAL.
 *
 * realloc, reallocarray and their twins keep a block in its heap. The child of a fork has copies of
 * all heaps. The statistics count the blocks as large, and blocks with a mapping as huge.
 * HAKMEM_PROFILE=HARDENED adds nothing in these heaps: their state is exact in every profile, so
 * each double free and interior pointer is reported, but blocks have no canary, quarantine, random
 * placement or zeroing. */
typedef struct hakmem_heap hakmem_heap_t;

/* Makes a heap that may have at most `limit` bytes of memory (committed_bytes below), 0 for no
 * limit. NULL with ENOMEM. */
HAKMEM_API hakmem_heap_t *hakmem_heap_new(size_t limit) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__warn_unused_result__));

/* As hakmem_malloc, hakmem_calloc and hakmem_aligned_alloc, from a heap. They also fail with ENOMEM
 * where the heap's limit refuses the memory. */
HAKMEM_API void *hakmem_heap_malloc(hakmem_heap_t *heap, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_size__(2), __warn_unused_result__));
HAKMEM_API void *hakmem_heap_calloc(hakmem_heap_t *heap, size_t count, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_size__(2, 3), __warn_unused_result__));
HAKMEM_API void *hakmem_heap_aligned_alloc(hakmem_heap_t *heap, size_t alignment,
                                           size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__malloc__, __alloc_align__(2), __alloc_size__(3), __warn_unused_result__));

/* As hakmem_realloc; the result is a block of this heap. ptr may be a block of this heap, of
 * another heap, or of malloc. A block of this heap that becomes smaller by less than an eighth
 * stays as it is. Otherwise a block of up to 64 KiB is shortened in place, or grows into free
 * memory behind it; a larger one does the same in steps of 64 KiB. A block with a mapping (above
 * HAKMEM_SS_SIZE) is resized in pages, perhaps at another address, but without a copy. In these
 * cases only the difference counts against the limit. Any other block is copied, which needs room
 * under the limit for both blocks; if there is none, a block that is to become smaller stays as it
 * is. A fork does not wait for a copy. */
HAKMEM_API void *hakmem_heap_realloc(hakmem_heap_t *heap, void *ptr, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__alloc_size__(3), __warn_unused_result__));

/* Frees all blocks of a heap, and gives its memory back to the process; the heap stays. The time
 * grows with that memory, not with the number of blocks, nor with what other threads allocate
 * during the call. A block that another thread allocates from the heap during the call may be
 * freed, too. A block that another thread frees or resizes during the call is freed twice. */
HAKMEM_API void hakmem_heap_free_all(hakmem_heap_t *heap) HAKMEM_NOEXCEPT;

/* Frees all blocks of a heap and destroys it; NULL is ignored. No other thread may use the heap
 * during the call. */
HAKMEM_API void hakmem_heap_destroy(hakmem_heap_t *heap) HAKMEM_NOEXCEPT;

/* Changes the limit for all later requests; memory that the heap already has stays. */
HAKMEM_API void hakmem_heap_set_limit(hakmem_heap_t *heap, size_t limit) HAKMEM_NOEXCEPT;

/* The heap of the block in use that begins at ptr; NULL for any other pointer, such as one to a
 * block of malloc, into a block, or to a freed block. */
HAKMEM_API hakmem_heap_t *hakmem_heap_of(const void *ptr) HAKMEM_NOEXCEPT;

/* Walks over the heaps of the process, in unspecified order: returns the first heap for NULL, else
 * the next one, even after a heap that has been destroyed since. NULL at the end. */
HAKMEM_API hakmem_heap_t *hakmem_heap_next(const hakmem_heap_t *heap) HAKMEM_NOEXCEPT;

/* The figures of a heap. */
struct hakmem_heap_stat {
    size_t blocks;          /* in use */
    size_t live_bytes;      /* sum of their hakmem_malloc_usable_size */
    size_t committed_bytes; /* units of 64 KiB, and huge blocks */
    size_t limit;           /* most committed bytes; 0 for no limit */
};

/* Stores the figures of a heap. size is sizeof *stat as the program was compiled; fields that the
 * library does not know are set to zero. Returns 0; ENOENT: there is no such heap, which is not an
 * error here. */
HAKMEM_API int hakmem_heap_stats(const hakmem_heap_t *heap, struct hakmem_heap_stat *stat,
                                 size_t size) HAKMEM_NOEXCEPT HAKMEM_ATTR((__nonnull__(2)));

/* ---- Introspection and control --------------------------------------------------------------- */

/* malloc_usable_size(3): the number of bytes that may be used at ptr, at least the requested
 * number; constant for the life of the block. 0 for NULL. */
HAKMEM_API size_t hakmem_malloc_usable_size(const void *ptr) HAKMEM_NOEXCEPT;

/* Stores where the block that contains ptr begins and ends, so that a caller can check its own
 * accesses: the bytes from *start to *end, *end excluded, may be used. Returns 1; 0 for a pointer
 * outside the memory of HAKMEM; -1 for a pointer into free memory of HAKMEM; in both cases nothing
 * is stored. With HAKMEM_PROFILE=HARDENED, *end is where the requested size ends, so ptr itself may
 * lie behind it, and every freed block counts as free. Otherwise the block is as long as
 * malloc_usable_size says, and a freed block that is still in a thread's cache counts as a block. A
 * pointer into the middle of a block above 1 MiB makes the call slow: it examines all such
 * blocks. */
HAKMEM_API int hakmem_bounds(const void *ptr, void **start, void **end) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__nonnull__(2, 3)));

/* Checks that size bytes from ptr on lie within one block in use. If they do not, reports that as
 * it reports a wrong free: one line that names `function`, and the end of the process unless
 * HAKMEM_ON_ERROR is report. Returns 1, or 0 after such a report. The ends of blocks, and which
 * blocks count as free, are those of hakmem_bounds. Takes no lock, so a signal handler may call it.
 * Returns 1 for what it does not check: memory that is not HAKMEM's, blocks above 1 MiB, and blocks
 * of hakmem_heap_new. libhakmem_copies.so, preloaded beside libhakmem.so, calls it for each memcpy,
 * mempcpy, memmove and memset. */
HAKMEM_API int hakmem_check_range(const void *ptr, size_t size,
                                  const char *function) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__nonnull__(3)));

/* malloc_trim(3): gives free memory back to the system. pad is ignored, since there is no heap end.
 * Returns 1 if any memory was given back, otherwise 0. */
HAKMEM_API int hakmem_malloc_trim(size_t pad) HAKMEM_NOEXCEPT;

/* The result of hakmem_mallinfo2: the fields of glibc's struct mallinfo2, in bytes except for the
 * three counts. */
struct hakmem_mallinfo2 {
    size_t arena;    /* memory held for blocks, except mappings of their own (hblkhd) */
    size_t ordblks;  /* count of free blocks, including those in thread caches */
    size_t smblks;   /* 0: there are no fast bins */
    size_t hblks;    /* count of blocks with a mapping of their own */
    size_t hblkhd;   /* bytes in blocks with a mapping of their own */
    size_t usmblks;  /* 0, as in glibc */
    size_t fsmblks;  /* 0 */
    size_t uordblks; /* bytes in live blocks, without hblkhd, as in glibc */
    size_t fordblks; /* bytes in free blocks */
    size_t keepcost; /* bytes that hakmem_malloc_trim(0) could give back */
};

/* mallinfo(3): the figures of the whole process. While other threads allocate or free, the result
 * is not a snapshot: each field is exact for some moment during the call. */
#if defined(__cplusplus) && defined(__GNUC__)
/* Struct and function share a name, as in glibc; C++ warns that the function hides a constructor.
 */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
HAKMEM_API struct hakmem_mallinfo2 hakmem_mallinfo2(void) HAKMEM_NOEXCEPT;
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* mallopt(3): returns 1 for each parameter of glibc's <malloc.h> with a value that glibc accepts,
 * otherwise 0. M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_ARENA_MAX have an effect, which hakmem(3)
 * describes; the others have none. */
HAKMEM_API int hakmem_mallopt(int param, int value) HAKMEM_NOEXCEPT;

/* malloc_stats(3): writes a summary for people to stderr, without allocating. */
HAKMEM_API void hakmem_malloc_stats(void) HAKMEM_NOEXCEPT;

/* malloc_info(3): writes the state of the heap to stream as XML. options must be 0. Returns 0, or
 * -1 with errno EINVAL for other options. */
HAKMEM_API int hakmem_malloc_info(int options, FILE *stream) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__nonnull__(2)));

/* ---- Options --------------------------------------------------------------------------------- */

/* The name of an option is that of its environment variable, with or without the prefix HAKMEM_.
 * The environment, HAKMEM_CONF or HAKMEM_PROFILE set its value before the first allocation;
 * otherwise it has its default. docs/ENV_OPTIONS.md and `hakmem options --all` list all options.
 * These three functions return an error number instead of setting errno, and do not allocate.
 * Strings that they return live as long as the process. */

/* Writes the value of an option to value, as text that ends with a 0, in at most size bytes.
 * Returns 0; ENOENT: there is no such option; ERANGE: the text does not fit, and nothing was
 * written. The text of an obsolete option is empty. */
HAKMEM_API int hakmem_option_get(const char *name, char *value, size_t size) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__nonnull__(1)));

/* Sets an option to a value, given as the same text as in the environment, for all threads from now
 * on. Returns 0; ENOENT: there is no such option; EINVAL: the option does not accept the value;
 * EPERM: the option cannot change while the process runs; ENOTSUP: it needs the debug build. On
 * error nothing changes. */
HAKMEM_API int hakmem_option_set(const char *name, const char *value) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__nonnull__(1, 2)));

/* The description of an option by hakmem_option_info. */
struct hakmem_option {
    const char *name;       /* of its environment variable */
    const char *type;       /* "number", "word", "either" of them, "text" or "obsolete" */
    const char *unit;       /* of a number: "ms", "bytes", ...; "" for none */
    const char *accepted;   /* "0..16", "abort|report", "off|1..9", "text", "anything" */
    const char *help;       /* one sentence */
    const char *tier;       /* what it acts on: "selector", "tiny", "mid", "large", "memory" or
                               "process" */
    const char *source;     /* what set its value: "default", "profile", "conf", "environment" or
                               "program", which is hakmem_option_set */
    int is_changeable;      /* 1: hakmem_option_set may change it, 0: it is fixed */
    char default_value[64]; /* as text that ends with a 0 */
};

/* Describes option number index, counted from 0, for programs that list all options. size is sizeof
 * *option as the program was compiled: a later version of the library may have more fields; fields
 * that the library does not know are set to zero. Returns 0; ENOENT: index is beyond the last
 * option. */
HAKMEM_API int hakmem_option_info(size_t index, struct hakmem_option *option,
                                  size_t size) HAKMEM_NOEXCEPT HAKMEM_ATTR((__nonnull__(2)));

/* ---- Statistics ------------------------------------------------------------------------------ */

/* Figures of what the allocator holds and has done. Counting makes no thread wait, and these
 * functions only read the counters; docs/STATISTICS.md describes every figure. While other threads
 * allocate or free, each figure is exact for some moment during the call, and none is ever
 * negative. At rest all figures are exact, and live_bytes is the sum of hakmem_malloc_usable_size
 * over all live blocks (with HAKMEM_PROFILE=HARDENED, the sum of their sizes including canaries).
 * The time of a call grows with the number of threads that the process ever had at once. These
 * functions neither allocate nor change errno; they use less than 4 KiB of stack.
 *
 * A signal handler may call them, and hakmem_mallinfo2, hakmem_malloc_stats and hakmem_malloc_info
 * (which writes to a stream, so the handler must not have interrupted a call on that stream). If the
 * handler has interrupted the allocator in the middle of a change, or one of these functions, there
 * are no figures: hakmem_stats_get returns EDEADLK, hakmem_stats_json returns 0 and writes an empty
 * text, hakmem_mallinfo2 returns zeros, hakmem_malloc_stats writes a line that says so, and
 * hakmem_malloc_info returns -1 with errno EDEADLK. */

/* Stores the value of one figure: "pool.stage2", "tiers.tiny.live_bytes", "bands.C5.uc_miss",
 * "classes.64.live" (by block size). Returns 0; ENOENT: there is no such figure; EDEADLK: see
 * above. */
HAKMEM_API int hakmem_stats_get(const char *name, uint64_t *value) HAKMEM_NOEXCEPT
    HAKMEM_ATTR((__nonnull__(1, 2)));

/* The description of a figure by hakmem_stats_info. */
struct hakmem_stat {
    char name[48];    /* for hakmem_stats_get */
    const char *unit; /* "blocks", "bytes", "calls", ...; lives as long as the process */
    const char *help; /* what it is, in a few words; lives as long as the process */
    int is_counter;   /* 1: it only grows, 0: it is the current value */
};

/* Describes figure number index, counted from 0, for programs that list all figures. size is
 * sizeof *stat as the program was compiled; fields that the library does not know are set to zero.
 * Returns 0; ENOENT: index is beyond the last figure. */
HAKMEM_API int hakmem_stats_info(size_t index, struct hakmem_stat *stat,
                                 size_t size) HAKMEM_NOEXCEPT HAKMEM_ATTR((__nonnull__(2)));

/* Writes all figures and options to buffer as one JSON object, schema "hakmem-stats/1", in at most
 * size bytes with the 0 at its end. Returns the length of the whole text without the 0, as
 * snprintf(3) does: if that is size or more, the text was cut off. buffer may be NULL when size is
 * 0. The length may grow from call to call. */
HAKMEM_API size_t hakmem_stats_json(char *buffer, size_t size) HAKMEM_NOEXCEPT;

/* ---- Heap profiles --------------------------------------------------------------------------- */

/* Writes the current heap profile to a file, in the text form that pprof and `hakmem prof` read. An
 * existing file is overwritten. path NULL: to the file that HAKMEM_PROF_FILE names, with a dot and
 * a number appended that counts up from 1. Returns 0; ENOTSUP: the process was not started with
 * HAKMEM_PROF=1; EBUSY: another thread writes a profile; otherwise the error number of the file. A
 * signal handler may call it. */
HAKMEM_API int hakmem_prof_dump(const char *path) HAKMEM_NOEXCEPT;

/* ---- Verification ---------------------------------------------------------------------------- */

/* Checks the invariants of all records of the allocator: each count is correct, each list is
 * consistent; with HAKMEM_CANARY also that nothing was written behind a block in use. Returns the
 * number of violations, 0 in a consistent heap, and writes a line to stderr for each of the first
 * 100. A program that writes out of bounds damages blocks, not records, so this function is for
 * people who work on the allocator or suspect a bug in it. Its time grows with the heap, and slow
 * calls of other threads wait in the meantime, as they do for a fork. In a signal handler that
 * has interrupted the allocator in the middle of a change, this function or one of the statistics,
 * and in the child of a fork that such a handler makes, it checks nothing and returns SIZE_MAX,
 * because a heap that is half changed tells nothing. */
HAKMEM_API size_t hakmem_verify(void) HAKMEM_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
