/* trace.c - the reader of traces of `hakmem record`, before a replay.
 *
 * An input is the chunks of a file, not packed: thread, events and length, then the bytes; here they are
 * packed, so that a change of a byte does not only break a checksum. The first byte tells whether the
 * file is cut off, too. What the reader accepts must be a trace that a replay can go through. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <setjmp.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that is no trace ends the replay; here, the input. Its memory goes back, then. */
static _Noreturn void leave(int status);
static void *map_and_note(void *at, size_t size, int prot, int flags, int file, long offset);

static FILE *quiet;

#define exit leave
#define mmap map_and_note
#undef stderr
#define stderr quiet
#include "record/load.c"
#undef stderr
#undef mmap
#undef exit

#include "check.h"

enum { MAPS = 64, FILE_MOST = 1 << 16, STEPS_MOST = 1 << 20 };

static jmp_buf after;
static struct {
    void *at;
    size_t size;
} maps[MAPS];
static unsigned map_count;
static int trace_file = -1;
static char trace_path[64];

static _Noreturn void leave(int status) {
    CHECK(status == 1, "status %d", status);
    longjmp(after, 1);
}

static void *map_and_note(void *at, size_t size, int prot, int flags, int file, long offset) {
    CHECK(map_count < MAPS, "%d mappings", MAPS);
    CHECK(size <= (size_t)4 << 30, "%zu bytes for a trace of some hundred", size);
    void *memory = mmap(at, size, prot, flags, file, offset);
    if (memory != MAP_FAILED) {
        maps[map_count].at = memory;
        maps[map_count++].size = size;
    }
    return memory;
}

static size_t write_file(struct fuzz_input *input, unsigned char *file) {
    size_t at = TRACE_MAGIC_SIZE;
    memcpy(file, TRACE_MAGIC, TRACE_MAGIC_SIZE);
    while (input->left > 0 && at < FILE_MOST / 2) {
        trace_chunk_t chunk = {.thread = fuzz_byte(input), .events = fuzz_byte(input)};
        if (chunk.thread >= 250) chunk.thread |= 0xffffff00; /* 255: TRACE_END */
        size_t want = fuzz_byte(input);
        chunk.plain = (uint32_t)(want < input->left ? want : input->left);
        uLongf packed = FILE_MOST - at - sizeof chunk;
        CHECK(compress2(file + at + sizeof chunk, &packed, input->at, chunk.plain, 1) == Z_OK,
              "zlib");
        input->at += chunk.plain;
        input->left -= chunk.plain;
        chunk.packed = (uint32_t)packed;
        memcpy(file + at, &chunk, sizeof chunk);
        at += sizeof chunk + packed;
    }
    return at;
}

/* As a replay goes through it. */
static void go_through(const trace_t *trace) {
    for (size_t i = 0; i < trace->count && i < STEPS_MOST; i++) {
        const step_t *step = &trace->steps[i];
        if (step->kind == TRACE_NONE) continue;
        CHECK(step->kind == TRACE_MALLOC || step->kind == TRACE_CALLOC ||
                  step->kind == TRACE_ALIGNED || step->kind == TRACE_FREE ||
                  step->kind == TRACE_GIVE,
              "step %zu is of kind %u", i, step->kind);
        CHECK(step->thread < trace->threads, "step %zu: thread %u of %u", i, step->thread,
              trace->threads);
        CHECK(step->block < trace->blocks, "step %zu: block %llu of %zu", i,
              (unsigned long long)step->block, trace->blocks);
        CHECK(step->align_log2 <= TRACE_ALIGN_MOST, "step %zu: alignment", i);
    }
    CHECK(trace->peak_step < trace->count && strlen(trace->end) <= FILE_MOST,
          "the end of the trace");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static unsigned char file[FILE_MOST];
    struct fuzz_input input = {data, size};
    unsigned cut = fuzz_byte(&input);
    if (size > FILE_MOST / 4) return 0;
    if (trace_file < 0) {
        trace_file = memfd_create("trace", MFD_CLOEXEC);
        snprintf(trace_path, sizeof trace_path, "/proc/self/fd/%d", trace_file);
        quiet = fopen("/dev/null", "w");
        CHECK(quiet != NULL && trace_file >= 0, "no file");
    }
    size_t length = write_file(&input, file);
    length -= cut < length ? cut % 32 : 0;
    CHECK(ftruncate(trace_file, 0) == 0 && pwrite(trace_file, file, length, 0) == (ssize_t)length,
          "no file");
    map_count = 0;
    if (setjmp(after) == 0) {
        trace_t trace = load(trace_path);
        go_through(&trace);
    }
    while (map_count > 0) {
        map_count--;
        munmap(maps[map_count].at, maps[map_count].size);
    }
    return 0;
}
