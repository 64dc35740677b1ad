/* trace.c: a table of the words that threads shared in a scenario. It lies in memory that all
 * processes of a search have in common. */
#include "trace.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WORDS_MAX = 16384 /* a power of two */, HOLDS_MAX = 2048 };

/* A fixed address, or a place in memory that holds a type: those differ between executions. */
typedef struct {
    uintptr_t place;  /* the address, or the offset in what is held; 0 and no type: free */
    const char *what; /* its type; NULL for a fixed address */
} word_t;

static struct {
    word_t words[WORDS_MAX];
    unsigned count;
} *table; /* NULL: nothing is noted */

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
    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) abort();
}

void trace_holds(const volatile void *start, size_t size, const char *what) {
    for (unsigned i = 0; i < hold_count; i++)
        if (holds[i].start == (uintptr_t)start && holds[i].what == what) return;
    if (hold_count == HOLDS_MAX) abort();
    holds[hold_count].start = (uintptr_t)start;
    holds[hold_count].size = size;
    holds[hold_count++].what = what;
}

static void enter(word_t word) {
    size_t mixed = word.place * UINT64_C(0x9E3779B97F4A7C15) ^ (uintptr_t)word.what;
    size_t i = (mixed >> 20) % WORDS_MAX;
    for (; table->words[i].place || table->words[i].what; i = (i + 1) % WORDS_MAX)
        if (table->words[i].place == word.place && table->words[i].what == word.what) return;
    if (++table->count == WORDS_MAX) abort();
    table->words[i] = word;
}

void trace_shared(const volatile void *word) {
    if (table == NULL) return;
    for (unsigned i = 0; i < hold_count; i++)
        if ((uintptr_t)word - holds[i].start < holds[i].size)
            enter((word_t){(uintptr_t)word - holds[i].start, holds[i].what});
    enter((word_t){(uintptr_t)word, NULL});
}

void trace_end(const char *scenario) {
    if (file == NULL) return;
    fprintf(file, "scenario %s\n", scenario);
    for (size_t i = 0; i < WORDS_MAX; i++) {
        const word_t *word = &table->words[i];
        if (word->what != NULL)
            fprintf(file, "held %zu %s\n", (size_t)word->place, word->what);
        else if (word->place != 0)
            fprintf(file, "word %#zx\n", (size_t)word->place);
    }
    fflush(file);
    memset(table, 0, sizeof *table);
}
