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

#include "bounded.h"
#include "memory.h"
#include "trace.h"

enum {
    STACK_SIZE = 256 * 1024,
    STEPS_MAX = 20000,           /* of one execution; more is an endless loop */
    BOUNDED_STEPS_MAX = 1000000, /* the same of a whole engine */
    NAPS_MOST = 3,               /* of a daemon, after which an execution may end */
};

typedef struct {
    jmp_buf start, here; /* of an execution that has not begun; of one that waits for its turn */
    bool begun, alive, sleeps;
    unsigned naps;                       /* sleeps so far */
    bool (*ready)(const void *argument); /* NULL: it can go on in any state */
    const void *argument;
    void (*body)(void);
    ucontext_t context;
} thread_t;

typedef enum { PREPARING, ENDED, KNOWN, FAILED } outcome_t;

static thread_t threads[EXPLORE_THREADS_MAX];
static char stacks[EXPLORE_THREADS_MAX][STACK_SIZE] __attribute__((aligned(64)));
static ucontext_t maker;
static jmp_buf explorer;
static const explore_scenario_t *scenario;
static unsigned thread_count, step_count;

static bounded_run_t own_run, *run = &own_run; /* the search's; of a bounded one, all processes' */
static unsigned path_position;                 /* choices below the path's length are repeated */
static unsigned order;                         /* in which the choices are taken; 0: as they come */

static uint64_t *known_states; /* open addressing; 0 is free */
static size_t known_size, known_count;

bool explore_noting;

unsigned explore_current;
extern inline unsigned explore_thread(void);

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
    if (run->note_count == BOUNDED_NOTES_MAX) return;
    va_list list;
    va_start(list, format);
    char *note = run->notes[run->note_count++];
    int head = snprintf(note, BOUNDED_NOTE_SIZE, "  thread %u: ", explore_current);
    vsnprintf(note + head, (size_t)(BOUNDED_NOTE_SIZE - head), format, list);
    va_end(list);
}

void explore_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(run->failure, sizeof run->failure, format, list);
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

enum { APART_MAX = 1024 };
static struct {
    void *variable;
    size_t size;
    char first[APART_MAX], contents[EXPLORE_THREADS_MAX][APART_MAX];
} apart;

void explore_keep_apart(void *variable, size_t size) {
    if (size > APART_MAX || apart.variable) abort();
    apart.variable = variable;
    apart.size = size;
    memcpy(apart.first, variable, size);
}

static void begin_apart(void) {
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        memcpy(apart.contents[i], apart.first, apart.size);
    if (apart.variable) memcpy(apart.variable, apart.first, apart.size);
}

static void begin_apart_of(unsigned thread) {
    memcpy(apart.contents[thread], apart.first, apart.size);
}

static void switch_apart(unsigned before, unsigned next) {
    if (!apart.variable) return;
    memcpy(apart.contents[before], apart.variable, apart.size);
    memcpy(apart.variable, apart.contents[next], apart.size);
}

/* ---- Choices and switches -------------------------------------------------------------------- */

/* The choice that is tried first here: in odd orders any, in even ones mostly that of order 0. */
static unsigned first_by_chance(unsigned count) {
    if (order == 0) return 0;
    uint64_t chance = memory_mix(order, path_position) >> 8;
    return order % 2 || chance % 8 == 0 ? (unsigned)((chance >> 8) % count) : 0;
}

static unsigned choose(unsigned count, bool is_preemption) {
    if (count <= 1) return 0;
    if (path_position == run->path_length) {
        if (run->path_length == BOUNDED_CHOICES_MAX) explore_fail("an execution does not end");
        unsigned first = scenario->bounds ? bounded_choose(count, is_preemption) : 0;
        run->path[run->path_length++] =
            (bounded_choice_t){.taken = (uint8_t)first, .count = (uint8_t)count};
    }
    bounded_choice_t *choice = &run->path[path_position++];
    if (choice->count != count) explore_fail("the checked code is not deterministic");
    return (choice->taken + first_by_chance(count)) % count;
}

unsigned explore_choose(unsigned count) {
    unsigned taken = choose(count, false);
    memory_learn(taken);
    return taken;
}

static bool can_run(unsigned index) {
    const thread_t *thread = &threads[index];
    return thread->alive && (!thread->ready || thread->ready(thread->argument));
}

/* The threads that may go on, the running one first: a straight run is tried first. */
static unsigned find_ready(unsigned ready[EXPLORE_THREADS_MAX], bool can_stay) {
    unsigned count = 0, sleepers = 0, sleeping[EXPLORE_THREADS_MAX];
    if (can_stay) ready[count++] = explore_current;
    for (unsigned i = 1; i <= thread_count; i++) {
        if ((i == explore_current && can_stay) || !can_run(i)) continue;
        if (threads[i].sleeps)
            sleeping[sleepers++] = i;
        else
            ready[count++] = i;
    }
    if (count > 0 && !can_stay) return count;
    for (unsigned i = 0; i < sleepers; i++) {
        bool is_over =
            (scenario->daemons >> sleeping[i] & 1) && threads[sleeping[i]].naps >= NAPS_MOST;
        if (!is_over) ready[count++] = sleeping[i];
    }
    return count;
}

/* Nobody can go on. */
static _Noreturn void end(void) {
    unsigned alive = 0;
    for (unsigned i = 1; i <= thread_count; i++)
        alive += threads[i].alive && !(scenario->daemons >> i & 1);
    if (!alive) leave(ENDED);
    explore_fail("deadlock: %u threads wait for ever", alive);
}

/* The running thread stops here until it is chosen; for ever when it has ended. `address`: what it
 * goes on with, or NULL. */
static void schedule(const volatile void *address) {
    unsigned ready[EXPLORE_THREADS_MAX];
    bool can_stay = can_run(explore_current) && !threads[explore_current].sleeps;
    unsigned count = find_ready(ready, can_stay);
    if (!count) end();
    if (scenario->bounds) {
        if (can_stay && !bounded_may_preempt(address)) count = 1;
    } else if (path_position == run->path_length) {
        if (scenario->always) scenario->always();
        if (!explore_noting && state_is_known()) leave(KNOWN);
    }
    unsigned before = explore_current, next = ready[choose(count, can_stay)];
    if (next == before) return;
    if (can_stay) bounded_preempted();
    if (threads[before].alive && _setjmp(threads[before].here)) return;
    switch_apart(before, next);
    explore_current = next;
    if (threads[next].begun) _longjmp(threads[next].here, 1);
    threads[next].begun = true;
    _longjmp(threads[next].start, 1);
}

void explore_step_at(const volatile void *address) {
    if (explore_current == 0) return;
    if (++step_count > (scenario->bounds ? BOUNDED_STEPS_MAX : STEPS_MAX))
        explore_fail("an execution does not end");
    schedule(address);
    memory_learn(1); /* a step that changed nothing would look like a state known already */
}

void explore_step(void) { explore_step_at(NULL); }

void explore_await(bool (*ready)(const void *argument), const void *argument) {
    EXPLORE_CHECK(explore_current != 0 || ready(argument), "prepare or finally waits for ever");
    if (explore_current == 0) return;
    threads[explore_current].ready = ready;
    threads[explore_current].argument = argument;
    explore_step();
    threads[explore_current].ready = NULL;
}

void explore_start(unsigned thread) {
    begin_apart_of(thread);
    memory_start(thread);
    threads[thread].begun = false;
    threads[thread].alive = true;
}

static bool has_ended(const void *thread) {
    const thread_t *other = &threads[*(const unsigned *)thread];
    return other->begun && !other->alive;
}

void explore_join(unsigned thread) {
    explore_await(has_ended, &thread);
    memory_joined(thread);
}

void explore_sleep(void) {
    if (explore_current == 0) return;
    threads[explore_current].sleeps = true;
    threads[explore_current].naps++;
    explore_step();
    threads[explore_current].sleeps = false;
}

void explore_stop_others(void) {
    for (unsigned i = 1; i <= thread_count; i++) threads[i].alive = i == explore_current;
}

/* Where every thread begins and ends. Nothing local survives the jumps, so nothing is. */
static void thread_start(void) {
    if (_setjmp(threads[explore_current].start) == 0)
        swapcontext(&threads[explore_current].context, &maker);
    threads[explore_current].body();
    threads[explore_current].alive = false;
    schedule(NULL);
}

static void make_thread(unsigned index) {
    thread_t *thread = &threads[index];
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = stacks[index];
    thread->context.uc_stack.ss_size = STACK_SIZE;
    thread->context.uc_link = NULL;
    makecontext(&thread->context, thread_start, 0);
    explore_current = index;
    swapcontext(&maker, &thread->context);
    explore_current = 0;
}

/* ---- Executions ------------------------------------------------------------------------------ */

static void begin(void) {
    explore_current = step_count = run->note_count = path_position = 0;
    begin_apart();
    memory_reset();
    if (scenario->bounds) bounded_begin();
    scenario->prepare();
    for (thread_count = 0; scenario->bodies[thread_count]; thread_count++) {
        thread_t *thread = &threads[thread_count + 1];
        thread->body = scenario->bodies[thread_count];
        thread->begun = false;
        thread->alive = !(scenario->later >> (thread_count + 1) & 1);
        thread->ready = NULL;
        thread->sleeps = false;
        thread->naps = 0;
    }
    schedule(NULL);
}

/* What two threads had in common, for the search and for the table of coverage. */
static void note_shared(const volatile void *address) {
    if (scenario->bounds) bounded_note_shared(address);
    trace_shared(address);
}

/* One execution. A jump back to the switch carries how it ended; also one out of `finally`. */
bool explore_execute(void) {
    switch (_setjmp(explorer)) {
    case PREPARING:
        begin();
        return false;
    case ENDED:
        switch_apart(explore_current, 0);
        explore_current = 0;
        memory_join();
        if (scenario->finally) scenario->finally();
        memory_each_shared(note_shared);
        return true;
    case KNOWN:
        memory_each_shared(note_shared);
        return true;
    default:
        return false;
    }
}

static bool next_path(void) {
    bounded_choice_t *path = run->path;
    while (run->path_length &&
           ++path[run->path_length - 1].taken == path[run->path_length - 1].count)
        run->path_length--;
    return run->path_length > 0;
}

void explore_report(void) {
    enum { SHOWN_MOST = 3000 };
    explore_noting = true; /* the same choices again, this time with notes */
    if (scenario->bounds)
        bounded_execute();
    else
        explore_execute();
    explore_noting = false;
    printf("VIOLATION in %s: %s\n", scenario->name, run->failure);
    unsigned first = run->note_count > SHOWN_MOST ? run->note_count - SHOWN_MOST : 0;
    for (unsigned i = first; i < run->note_count; i++) puts(run->notes[i]);
}

explore_result_t explore(const explore_scenario_t *what, unsigned in_order, uint64_t limit) {
    explore_result_t result = {0};
    scenario = what;
    order = in_order;
    for (unsigned i = 1; i < EXPLORE_THREADS_MAX; i++) make_thread(i);
    if (what->bounds) {
        run = bounded_run();
        memory_leave_out(stacks, sizeof stacks);
        if (apart.variable) memory_leave_out(apart.variable, apart.size);
        return bounded_explore(what->bounds, limit, next_path);
    }
    run->path_length = 0;
    known_count = 0;
    if (known_states) memset(known_states, 0, known_size * sizeof *known_states);
    make_room();
    do {
        result.executions++;
        if (!explore_execute()) result.failure = run->failure;
        result.exhausted = !result.failure && !next_path();
    } while (!result.failure && !result.exhausted && result.executions < limit);
    result.states = known_count;
    return result;
}
