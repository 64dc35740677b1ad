/* explore.c: threads on stacks of their own, and depth-first search over their choices.
 *
 * Threads switch by _setjmp and _longjmp, which need no syscall. swapcontext only makes the stacks,
 * once; there a thread leaves its start as a place to jump to, for each execution anew. */
#include "explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "memory.h"

enum {
    STACK_SIZE = 128 * 1024,
    CHOICES_MAX = 4096,
    STEPS_MAX = 20000, /* of one execution; more is an endless loop */
    NOTES_MAX = 2000,
    NOTE_SIZE = 120,
};

typedef struct {
    jmp_buf start, here; /* of an execution that has not begun; of one that waits for its turn */
    bool begun, alive;
    bool (*ready)(const void *argument); /* NULL: it can go on in any state */
    const void *argument;
    void (*body)(void);
    ucontext_t context;
} thread_t;

typedef enum { PREPARING, ENDED, KNOWN, FAILED } outcome_t;

typedef struct {
    uint8_t taken, count;
} choice_t;

static thread_t threads[EXPLORE_THREADS_MAX];
static char stacks[EXPLORE_THREADS_MAX][STACK_SIZE] __attribute__((aligned(64)));
static ucontext_t maker;
static jmp_buf explorer;
static const explore_scenario_t *scenario;
static unsigned current, thread_count, step_count;

static choice_t path[CHOICES_MAX];
static unsigned path_length, path_position; /* choices below the length are repeated */

static uint64_t *known_states; /* open addressing; 0 is free */
static size_t known_size, known_count;

static char notes[NOTES_MAX][NOTE_SIZE];
static unsigned note_count;
bool explore_noting;
static char failure[400];

unsigned explore_thread(void) { return current; }

static _Noreturn void leave(outcome_t outcome) { _longjmp(explorer, (int)outcome); }

const char *explore_name(const volatile void *variable) {
    static char text[4][40];
    static unsigned next;
    const char *name = scenario->describe ? scenario->describe(variable) : NULL;
    if (name) return name;
    next = (next + 1) % 4;
    snprintf(text[next], sizeof *text, "%p", (const void *)(uintptr_t)variable);
    return text[next];
}

void explore_note_line(const char *format, ...) {
    if (note_count == NOTES_MAX) return;
    va_list list;
    va_start(list, format);
    char *note = notes[note_count++];
    int head = snprintf(note, NOTE_SIZE, "  thread %u: ", current);
    vsnprintf(note + head, (size_t)(NOTE_SIZE - head), format, list);
    va_end(list);
}

void explore_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(failure, sizeof failure, format, list);
    va_end(list);
    leave(FAILED);
}

/* ---- States ---------------------------------------------------------------------------------- */

static void enter_state(uint64_t state) {
    size_t i = (size_t)state & (known_size - 1);
    while (known_states[i]) i = (i + 1) & (known_size - 1);
    known_states[i] = state;
}

static void make_room(void) {
    if (known_count * 2 < known_size) return;
    uint64_t *old = known_states;
    size_t old_size = known_size;
    known_size = old_size ? old_size * 2 : 1 << 16;
    known_states = calloc(known_size, sizeof *known_states);
    if (!known_states) {
        fputs("interleave: no memory for the states\n", stderr);
        exit(2);
    }
    for (size_t i = 0; i < old_size; i++)
        if (old[i]) enter_state(old[i]);
    free(old);
}

/* True when the state was there already; else it is from now on. */
static bool state_is_known(void) {
    uint64_t state = memory_state();
    for (unsigned i = 1; i <= thread_count; i++)
        state = memory_mix(state, threads[i].begun * 2u + threads[i].alive);
    if (!state) state = 1;
    for (size_t i = (size_t)state & (known_size - 1); known_states[i];
         i = (i + 1) & (known_size - 1))
        if (known_states[i] == state) return true;
    enter_state(state);
    known_count++;
    make_room();
    return false;
}

/* ---- Variables that each thread has for itself --------------------------------------------- */

enum { APART_MAX = 64 };
static struct {
    void *variable;
    size_t size;
    char contents[EXPLORE_THREADS_MAX][APART_MAX];
} apart;

void explore_keep_apart(void *variable, size_t size) {
    if (size > APART_MAX || apart.variable) abort();
    apart.variable = variable;
    apart.size = size;
}

static void begin_apart(void) {
    memset(apart.contents, 0, sizeof apart.contents);
    if (apart.variable) memset(apart.variable, 0, apart.size);
}

static void switch_apart(unsigned before, unsigned next) {
    if (!apart.variable) return;
    memcpy(apart.contents[before], apart.variable, apart.size);
    memcpy(apart.variable, apart.contents[next], apart.size);
}

/* ---- Choices and switches -------------------------------------------------------------------- */

static unsigned choose(unsigned count) {
    if (count <= 1) return 0;
    if (path_position == path_length) {
        if (path_length == CHOICES_MAX) explore_fail("an execution does not end");
        path[path_length++] = (choice_t){.taken = 0, .count = (uint8_t)count};
    }
    choice_t *choice = &path[path_position++];
    if (choice->count != count) explore_fail("the checked code is not deterministic");
    return choice->taken;
}

unsigned explore_choose(unsigned count) {
    unsigned taken = choose(count);
    memory_learn(taken);
    return taken;
}

static bool can_run(unsigned index) {
    const thread_t *thread = &threads[index];
    return thread->alive && (!thread->ready || thread->ready(thread->argument));
}

/* The running thread stops here until it is chosen; for ever when it has ended. */
static void schedule(void) {
    unsigned ready[EXPLORE_THREADS_MAX], count = 0, alive = 0;
    if (can_run(current)) ready[count++] = current; /* first: a straight run is tried first */
    for (unsigned i = 1; i <= thread_count; i++) {
        alive += threads[i].alive;
        if (i != current && can_run(i)) ready[count++] = i;
    }
    if (!alive) leave(ENDED);
    if (!count) explore_fail("deadlock: %u threads wait for ever", alive);
    if (path_position == path_length) {
        if (scenario->always) scenario->always();
        if (!explore_noting && state_is_known()) leave(KNOWN);
    }
    unsigned before = current, next = ready[choose(count)];
    if (next == before) return;
    if (threads[before].alive && _setjmp(threads[before].here)) return;
    switch_apart(before, next);
    current = next;
    if (threads[next].begun) _longjmp(threads[next].here, 1);
    threads[next].begun = true;
    _longjmp(threads[next].start, 1);
}

void explore_step(void) {
    if (current == 0) return;
    if (++step_count > STEPS_MAX) explore_fail("an execution does not end");
    schedule();
    memory_learn(1); /* a step that changed nothing would look like a state known already */
}

void explore_await(bool (*ready)(const void *argument), const void *argument) {
    EXPLORE_CHECK(current != 0 || ready(argument), "prepare or finally waits for ever");
    if (current == 0) return;
    threads[current].ready = ready;
    threads[current].argument = argument;
    explore_step();
    threads[current].ready = NULL;
}

void explore_stop_others(void) {
    for (unsigned i = 1; i <= thread_count; i++) threads[i].alive = i == current;
}

/* Where every thread begins and ends. Nothing local survives the jumps, so nothing is. */
static void thread_start(void) {
    if (_setjmp(threads[current].start) == 0) swapcontext(&threads[current].context, &maker);
    threads[current].body();
    threads[current].alive = false;
    schedule();
}

static void make_thread(unsigned index) {
    thread_t *thread = &threads[index];
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = stacks[index];
    thread->context.uc_stack.ss_size = STACK_SIZE;
    thread->context.uc_link = NULL;
    makecontext(&thread->context, thread_start, 0);
    current = index;
    swapcontext(&maker, &thread->context);
    current = 0;
}

/* ---- Executions ------------------------------------------------------------------------------ */

static void begin(void) {
    current = step_count = note_count = path_position = 0;
    begin_apart();
    memory_reset();
    scenario->prepare();
    for (thread_count = 0; scenario->bodies[thread_count]; thread_count++) {
        thread_t *thread = &threads[thread_count + 1];
        thread->body = scenario->bodies[thread_count];
        thread->begun = false;
        thread->alive = true;
        thread->ready = NULL;
    }
    schedule();
}

/* One execution. A jump back to the switch carries how it ended. */
static bool execute(void) {
    switch (_setjmp(explorer)) {
    case PREPARING:
        begin();
        return false;
    case ENDED:
        switch_apart(current, 0);
        current = 0;
        memory_join();
        if (scenario->finally) scenario->finally();
        return true;
    case KNOWN:
        return true;
    default:
        return false;
    }
}

static bool next_path(void) {
    while (path_length && ++path[path_length - 1].taken == path[path_length - 1].count)
        path_length--;
    return path_length > 0;
}

void explore_report(void) {
    explore_noting = true;
    execute(); /* the same choices again, this time with notes */
    explore_noting = false;
    printf("VIOLATION in %s: %s\n", scenario->name, failure);
    for (unsigned i = 0; i < note_count; i++) puts(notes[i]);
}

explore_result_t explore(const explore_scenario_t *what, uint64_t limit) {
    explore_result_t result = {0};
    scenario = what;
    for (unsigned i = 1; i < EXPLORE_THREADS_MAX; i++) make_thread(i);
    path_length = 0;
    known_count = 0;
    if (known_states) memset(known_states, 0, known_size * sizeof *known_states);
    make_room();
    do {
        result.executions++;
        if (!execute()) result.failure = failure;
        result.exhausted = !result.failure && !next_path();
    } while (!result.failure && !result.exhausted && result.executions < limit);
    result.states = known_count;
    return result;
}
