/* bounded.c: few preemptions at shared words: all of them, or some by chance. */
#include "bounded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WORDS_MAX = 16384, /* a power of two */
    LEARNING = 12,     /* executions by chance before the systematic ones */
    SAMPLE_PREEMPTIONS = 4,
    SECONDS_MOST = 240, /* of one execution: more is an endless loop without a step */
};

/* What all processes of a search share. */
static struct {
    bounded_run_t run;
    struct {
        uintptr_t address; /* 0: free */
        bool is_point;     /* a thread may be stopped there */
    } words[WORDS_MAX];
    unsigned word_count;
    unsigned points_most; /* places where a thread could be stopped, of one execution */
} *shared;

typedef enum { LEARN, SYSTEMATIC, FEW, SAMPLE } phase_t;

static phase_t phase;
static uint64_t seed;
static const explore_bounds_t *bounds;
static uint64_t limit;                     /* executions */
static unsigned points, preemptions;       /* of this execution, so far */
static unsigned stops[SAMPLE_PREEMPTIONS]; /* its points where it changes the thread */

bounded_run_t *bounded_run(void) {
    if (!shared) {
        shared =
            mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (shared == MAP_FAILED) abort();
    }
    return &shared->run;
}

/* xorshift: the same numbers in every run. */
static unsigned random_below(unsigned count) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 16) % count);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static unsigned slot_of(uintptr_t address) {
    unsigned slot = (unsigned)(address * UINT64_C(0x9E3779B97F4A7C15) >> 40) % WORDS_MAX;
    while (shared->words[slot].address && shared->words[slot].address != address)
        slot = (slot + 1) % WORDS_MAX;
    return slot;
}

void bounded_note_shared(const volatile void *address) {
    unsigned slot = slot_of((uintptr_t)address);
    if (!shared->words[slot].address && ++shared->word_count == WORDS_MAX) abort();
    shared->words[slot].address = (uintptr_t)address;
    if (phase == LEARN) shared->words[slot].is_point = true;
}

static void learn_all(void) {
    for (unsigned i = 0; i < WORDS_MAX; i++) shared->words[i].is_point = shared->words[i].address;
}

/* ---- The scheduler's questions --------------------------------------------------------------- */

void bounded_begin(void) {
    points = preemptions = 0;
    for (unsigned i = 0; i < SAMPLE_PREEMPTIONS; i++)
        stops[i] = phase == SYSTEMATIC ? 0 : random_below(shared->points_most + 1);
}

static bool is_stop(unsigned point) {
    for (unsigned i = 0; i < SAMPLE_PREEMPTIONS; i++)
        if (stops[i] == point) return true;
    return false;
}

bool bounded_may_preempt(const volatile void *address) {
    bool known = !address || shared->words[slot_of((uintptr_t)address)].is_point;
    if (phase != LEARN && !known) return false;
    unsigned point = points++;
    if (shared->points_most < points) shared->points_most = points;
    return phase == SYSTEMATIC
               ? preemptions < bounds->preemptions
               : is_stop(point) && (phase != FEW || preemptions < bounds->preemptions);
}

void bounded_preempted(void) { preemptions++; }

unsigned bounded_choose(unsigned count, bool is_preemption) {
    if (phase == SYSTEMATIC) return 0;
    return is_preemption ? 1 + random_below(count - 1) : random_below(count);
}

/* ---- The search ------------------------------------------------------------------------------ */

bool bounded_execute(void) {
    shared->run.failure[0] = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_MOST);
        _exit(explore_execute() ? 0 : 1);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) abort();
    if (WIFSIGNALED(status))
        snprintf(shared->run.failure, sizeof shared->run.failure, "ended by signal %d",
                 WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* One more, unless one was wrong or the limit is reached: then false. */
static bool next_execution(explore_result_t *result) {
    if (result->failure || result->executions == limit) return false;
    result->executions++;
    if (!bounded_execute()) result->failure = shared->run.failure;
    return !result->failure;
}

static bool by_chance(phase_t how, unsigned count, explore_result_t *result) {
    phase = how;
    shared->points_most = 0;
    for (unsigned i = 0; i < count; i++) {
        seed = UINT64_C(0x2545F4914F6CDD1D) * (i + 1 + 1000 * how);
        shared->run.path_length = 0;
        if (!next_execution(result)) return false;
    }
    return true;
}

static bool systematic(bool (*next_path)(void), explore_result_t *result) {
    phase = SYSTEMATIC;
    shared->run.path_length = 0;
    do {
        if (!next_execution(result)) return false;
    } while (next_path());
    return true;
}

/* How many the systematic ones would be, about. */
static size_t orders(void) {
    size_t count = 1;
    for (unsigned i = 0; i < bounds->preemptions; i++) count *= shared->points_most;
    return count;
}

static bool explore_all(bool (*next_path)(void), explore_result_t *result) {
    if (!by_chance(LEARN, LEARNING, result)) return false;
    bool right = orders() <= bounds->most ? systematic(next_path, result)
                                          : by_chance(FEW, bounds->most, result);
    learn_all();
    return right && by_chance(SAMPLE, bounds->samples, result);
}

explore_result_t bounded_explore(const explore_bounds_t *what, uint64_t most,
                                 bool (*next_path)(void)) {
    explore_result_t result = {0};
    bounds = what;
    limit = most;
    memset(shared->words, 0, sizeof shared->words);
    shared->word_count = 0;
    result.exhausted = explore_all(next_path, &result);
    result.states = shared->word_count;
    return result;
}
