/* trace.c: a table of the words that were touched in a scenario. */
#include "trace.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 4096 /* a power of two */, HOLDS_MAX = 64 };

static struct {
    uintptr_t address;         /* 0: free */
    unsigned touched, written; /* bit per thread */
} words[WORDS_MAX];
static unsigned word_count;

static struct {
    uintptr_t start;
    size_t size;
    const char *what;
} holds[HOLDS_MAX];
static unsigned hold_count;

static FILE *file;

extern const char trace_anchor;
const char trace_anchor = 0; /* where the program was loaded */

void trace_begin(void) {
    const char *path = getenv("INTERLEAVE_TRACE");
    if (path == NULL) return;
    file = fopen(path, "w");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    fprintf(file, "anchor %#zx\n", (size_t)(uintptr_t)&trace_anchor);
}

void trace_holds(const volatile void *start, size_t size, const char *what) {
    for (unsigned i = 0; i < hold_count; i++)
        if (holds[i].start == (uintptr_t)start) return;
    if (hold_count == HOLDS_MAX) abort();
    holds[hold_count].start = (uintptr_t)start;
    holds[hold_count].size = size;
    holds[hold_count++].what = what;
}

void trace_touch(const volatile void *word, unsigned thread, bool writes) {
    if (file == NULL) return;
    size_t i = ((uintptr_t)word * UINT64_C(0x9E3779B97F4A7C15) >> 40) % WORDS_MAX;
    while (words[i].address != 0 && words[i].address != (uintptr_t)word) i = (i + 1) % WORDS_MAX;
    if (words[i].address == 0 && ++word_count == WORDS_MAX) abort();
    words[i].address = (uintptr_t)word;
    words[i].touched |= 1u << thread;
    if (writes) words[i].written |= 1u << thread;
}

void trace_end(const char *scenario) {
    if (file == NULL) return;
    for (unsigned i = 0; i < hold_count; i++)
        fprintf(file, "holds %#zx %zu %s\n", (size_t)holds[i].start, holds[i].size, holds[i].what);
    fprintf(file, "scenario %s\n", scenario);
    for (size_t i = 0; i < WORDS_MAX; i++)
        if (words[i].address != 0)
            fprintf(file, "word %#zx %#x %#x\n", (size_t)words[i].address, words[i].touched,
                    words[i].written);
    fflush(file);
    memset(words, 0, sizeof words);
    word_count = 0;
}
