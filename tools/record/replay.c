/* replay.c: hakmem-replay: repeats the allocations of a trace on whatever allocator it runs with.
 *
 *   hakmem-replay [--touch=all|none] [--json] [--dry] [--expect=FILE] TRACE
 *
 * Each thread of the trace is a thread here, which begins with its first step and ends after its
 * last one. The steps are done in the order of the trace, also over threads: a thread hands over to
 * that of the next step. So all that depends on order is as it was, and the live bytes are, too;
 * contention is not. With --touch=all each page of a block is written once. With --dry the trace is
 * read and nothing is done: what that costs is not the allocator's. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

enum { LOOKS = 200 }; /* at the resident memory, over the whole trace */

typedef struct {
    pthread_t thread;
    sem_t turn;
    size_t last; /* its last step */
    bool has_begun;
} player_t;

typedef struct {
    void *start;
    uint64_t size;
} block_t;

static trace_t trace;     /* constant after load */
static player_t *players; /* by thread of the trace; the thread whose turn it is */
static block_t *blocks;   /* by number; the thread whose turn it is, and so below */
static size_t current, handovers, failures; /* the next step */
static uint64_t live_bytes, peak_bytes;
static long base_kb, peak_kb, at_peak_kb; /* anonymous resident memory */
static bool does_touch = true;
static size_t page_size;
static sem_t is_done;

static long resident_kb(void) {
    char text[4096];
    FILE *file = fopen("/proc/self/status", "re");
    long found = -1;
    if (!file) return -1;
    setvbuf(file, NULL, _IONBF, 0);
    while (found < 0 && fgets(text, sizeof text, file))
        if (strncmp(text, "RssAnon:", 8) == 0) found = strtol(text + 8, NULL, 10);
    fclose(file);
    return found;
}

/* Writes one byte in each page from `from` on. */
static void touch(char *start, uint64_t from, uint64_t size) {
    if (!does_touch || from >= size) return;
    for (uint64_t at = from; at < size; at += page_size) ((volatile char *)start)[at] = 1;
    ((volatile char *)start)[size - 1] = 1;
}

static void *aligned(const step_t *step) {
    void *block = NULL;
    size_t alignment = (size_t)1 << step->align_log2;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    return posix_memalign(&block, alignment, step->size) == 0 ? block : NULL;
}

static void perform(const step_t *step) {
    block_t *block = &blocks[step->block];
    uint64_t touched = 0;
    switch (step->kind) {
    case TRACE_FREE:
        free(block->start);
        live_bytes -= block->size;
        *block = (block_t){NULL, 0};
        return;
    case TRACE_MALLOC:
        block->start = malloc(step->size);
        break;
    case TRACE_CALLOC:
        block->start = calloc(1, step->size);
        break;
    case TRACE_ALIGNED:
        block->start = aligned(step);
        break;
    case TRACE_GIVE: {
        void *moved = realloc(block->start, step->size);
        if (!moved && step->size) {
            failures++;
            return;
        }
        touched = block->size;
        block->start = moved;
        break;
    }
    default:
        return;
    }
    if (!block->start) failures++;
    uint64_t size = block->start ? step->size : 0;
    live_bytes += size - block->size;
    block->size = size;
    if (block->start) touch(block->start, touched, size);
    if (live_bytes > peak_bytes) peak_bytes = live_bytes;
}

static void look(void) {
    long now = resident_kb();
    if (now > peak_kb) peak_kb = now;
    if (current == trace.peak_step) at_peak_kb = now;
}

static void *play(void *argument);

/* Gives the turn to the thread of the next step, or ends. */
static void hand_over(void) {
    if (current == trace.count) {
        sem_post(&is_done);
        return;
    }
    player_t *next = &players[trace.steps[current].thread];
    handovers++;
    if (next->has_begun) {
        sem_post(&next->turn);
        return;
    }
    next->has_begun = true;
    sem_init(&next->turn, 0, 0);
    int error = pthread_create(&next->thread, NULL, play, next);
    if (error) load_fail("a thread could not be started: %s", strerror(error));
    pthread_detach(next->thread);
}

/* The steps of one thread: those in a row, then a handover, then the wait for the turn. */
static void *play(void *argument) {
    player_t *self = argument;
    uint32_t number = (uint32_t)(self - players);
    size_t every = trace.count / LOOKS + 1;
    for (;;) {
        bool is_last = false;
        while (current < trace.count && trace.steps[current].thread == number) {
            is_last = current == self->last;
            if (trace.steps[current].kind != TRACE_NONE) perform(&trace.steps[current]);
            if (current == trace.peak_step || current % every == 0) look();
            current++;
        }
        hand_over();
        if (is_last) return NULL;
        while (sem_wait(&self->turn) != 0) continue;
    }
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const char *allocator(void) {
    Dl_info about;
    static char path[PATH_MAX];
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (!symbol || !dladdr(symbol, &about) || !about.dli_fname) return "?";
    return realpath(about.dli_fname, path) ? path : about.dli_fname;
}

static void prepare(void) {
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    players = load_memory(trace.threads * sizeof *players);
    blocks = load_memory(trace.blocks * sizeof *blocks);
    for (size_t i = 0; i < trace.count; i++) players[trace.steps[i].thread].last = i;
    sem_init(&is_done, 0, 0);
}

static void run(double *wall, double *cpu) {
    base_kb = resident_kb();
    double began = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
    hand_over();
    while (sem_wait(&is_done) != 0) continue;
    *wall = seconds(CLOCK_MONOTONIC) - began;
    *cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
}

/* A text between the quotes of JSON. */
static const char *in_json(const char *text) {
    static char quoted[2 * PATH_MAX];
    size_t used = 0;
    for (; *text && used < sizeof quoted - 2; text++) {
        if (*text == '"' || *text == '\\') quoted[used++] = '\\';
        quoted[used++] = (unsigned char)*text < ' ' ? '?' : *text;
    }
    quoted[used] = 0;
    return quoted;
}

static void tell(bool as_json, double wall, double cpu) {
    const char *form =
        as_json
            ? "{\"allocator\": \"%s\", \"steps\": %zu, \"threads\": %u, \"handovers\": %zu, "
              "\"touch\": \"%s\", \"trace_peak_live\": %llu, \"peak_live\": %llu, "
              "\"heap_at_peak_kb\": %ld, \"heap_most_kb\": %ld, \"wall_s\": %.3f, "
              "\"cpu_s\": %.3f, \"foreign_frees\": %zu, \"lost\": %zu, \"failed\": %zu, "
              "\"complete\": %s}\n"
            : "allocator           %s\n"
              "steps               %zu, threads %u, handovers %zu, in the order of the trace\n"
              "touched             %s (pages of each block, when it is allocated)\n"
              "peak live bytes     %llu requested in the trace, %llu here\n"
              "heap resident       %ld KB at that peak, %ld KB at most\n"
              "time                %.3f s, CPU %.3f s\n"
              "left out            %zu frees of unknown blocks, %zu lost events, %zu failed calls\n"
              "the trace           %s\n";
    bool is_whole = strstr(trace.end, "full=0") != NULL;
    const char *end = as_json      ? (is_whole ? "true" : "false")
                      : is_whole   ? "is whole"
                      : *trace.end ? "stops at its limit"
                                   : "has no end: the program was killed, or the disk full";
    const char *name = as_json ? in_json(allocator()) : allocator();
    printf(form, name, trace.count, trace.threads, handovers, does_touch ? "all" : "none",
           (unsigned long long)trace.peak_bytes, (unsigned long long)peak_bytes,
           at_peak_kb - base_kb, peak_kb - base_kb, wall, cpu, trace.foreign, trace.lost, failures,
           end);
}

static _Noreturn void usage(const char *word) {
    fprintf(stderr,
            "hakmem-replay: '%s' is not known: hakmem-replay [--touch=all|none] [--json] TRACE\n",
            word);
    exit(2);
}

int main(int argc, char **argv) {
    const char *path = NULL, *expected = NULL;
    bool as_json = false, is_dry = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            as_json = true;
        else if (strcmp(argv[i], "--dry") == 0)
            is_dry = true;
        else if (strncmp(argv[i], "--touch=", 8) == 0 &&
                 (strcmp(argv[i] + 8, "all") == 0 || strcmp(argv[i] + 8, "none") == 0))
            does_touch = argv[i][8] == 'a';
        else if (strncmp(argv[i], "--expect=", 9) == 0)
            expected = argv[i] + 9;
        else if (*argv[i] == '-' || path)
            usage(argv[i]);
        else
            path = argv[i];
    }
    if (!path) usage("");
    if (expected && !strstr(allocator(), expected))
        load_fail("%s is not active: malloc is that of %s", expected, allocator());
    trace = load(path);
    prepare();
    double wall = 0, cpu = 0;
    if (!is_dry) run(&wall, &cpu);
    tell(as_json, wall, cpu);
    if (fflush(stdout) != 0) load_fail("cannot write the output: %s", strerror(errno));
    return 0;
}
