/* gate.c: explores the gate of src/os/gate.h, on the real gate.h and os/gate.c.
 *
 *   gate             every scenario must hold
 *   gate --broken    the sources were broken on purpose: some scenario must fail */
#include "os/gate.c"

#include <string.h>

#include "explore.h"
#include "futex.h"
#include "memory.h"
#include "scenarios.h"

#include "gate_model.h"

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare_posts(unsigned count) {
    memset(&hak_gate, 0, sizeof hak_gate);
    hak_gate.state = FENCED;
    hak_gate_posts = NULL;
    moving = 0;
    alone = in_sleep = gives_up = second_is_in = false;
    memory_signal = NULL;
    memset(cpu, 0, sizeof cpu);
    has_barrier = true;
    for (unsigned i = 0; i < TESTED_CROWDS; i++) memset(crowd_at(tested[i]), 0, sizeof(crowd_t));
    memset(posts, 0, sizeof posts);
    memset(shared, 0, sizeof shared);
    forkers = 0;
    handler = NULL;
    in_child.is_so = 0;
    streams.holder = 0;
    first_waits_for_streams = false;
    futex_reset(false);
    for (unsigned i = 0; i < count; i++) {
        hak_gate_list(&posts[i].post);
        hak_gate_take(&posts[i].post);
    }
}

/* With the barrier, as most processes are. */
static void prepare_registered(unsigned count) {
    prepare_posts(count);
    hak_gate_prepare();
}

static void prepare_fenced(void) { prepare_posts(1); }
static void prepare_refused(void) {
    prepare_registered(1);
    has_barrier = false;
}
static void prepare_crowd(void) { prepare_registered(0); }
static void prepare_moving(void) {
    prepare_crowd();
    moving = 1;
    cpu[0] = moving; /* the first thread begins in the first crowd, the second in the other one */
}
static void prepare_two_words(void) {
    prepare_crowd();
    moving = TESTED_WORD;
    cpu[0] = moving;
}
static void prepare_two_moving(void) {
    prepare_registered(2);
    moving = 1;
}
/* A signal handler may come at any access, on another CPU than the step that it interrupts. */
static void prepare_interrupted_crowd(void) {
    prepare_moving();
    memory_signal = interrupt_anywhere;
    alone = true;
}
/* The same, and all are of one crowd; a fork of a thread outside gives up. */
static void prepare_interrupted_pair(void) {
    prepare_crowd();
    memory_signal = interrupt_anywhere;
    alone = true;
}
static void prepare_interrupted_rounds(void) {
    prepare_crowd();
    memory_signal = interrupt_anywhere;
    gives_up = true;
}
static void prepare_interrupted_wait(void) {
    prepare_registered(1);
    memory_signal = interrupt_while_closed;
}
static void prepare_rounds(void) {
    prepare_registered(1);
    gives_up = true;
}
static void prepare_one(void) { prepare_registered(1); }
static void prepare_two(void) { prepare_registered(2); }

static void prepare_interrupted(void) {
    prepare_registered(1);
    futex_reset(true);
}

static void prepare_interrupted_sleep(void) {
    prepare_registered(2);
    in_sleep = true;
}

static void work(void) {
    shared[explore_thread()].first++;
    explore_step();
    shared[explore_thread()].second++;
}

static void be_inside(void) {
    hak_gate_enter();
    work();
    hak_gate_leave();
}

static void once_with(unsigned post) {
    hak_gate_use(&posts[post].post);
    be_inside();
}
static void first(void) { once_with(0); }
static void second(void) { once_with(1); }
static void of_the_crowd(void) { be_inside(); }

static void second_of_the_crowd(void) {
    second_is_in = true;
    be_inside();
    second_is_in = false;
}

static void twice_of_crowds(void) {
    be_inside();
    be_inside();
}

static void first_twice(void) {
    first();
    be_inside();
}

static void nested(void) {
    hak_gate_use(&posts[0].post);
    hak_gate_enter();
    be_inside();
    work();
    hak_gate_leave();
}

static void try_once(void) {
    hak_gate_use(&posts[0].post);
    if (!hak_gate_try_enter()) return;
    work();
    hak_gate_leave();
}

/* A thread gets its cache, and works with it. */
static void get_a_post(void) {
    hak_gate_enter();
    hak_gate_list(&posts[2].post);
    hak_gate_take(&posts[2].post);
    hak_gate_leave();
    once_with(2);
}

static void check_closed(void) {
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        EXPLORE_CHECK(shared[i].first == shared[i].second, "a fork finds thread %u inside", i);
}

static void close_gate(void) {
    hak_gate_close(NULL, NULL);
    EXPLORE_CHECK(++forkers == 1, "two forks at a time");
    check_closed();
}

static void open_gate(void) {
    check_closed();
    forkers--;
    hak_gate_open();
}

static void register_and_enter(void) {
    hak_gate_prepare();
    first();
}

/* The parent. */
static void fork_and_open(void) {
    close_gate();
    explore_step();
    open_gate();
}

/* With a handler of another library that allocates. */
static void fork_and_allocate(void) {
    close_gate();
    EXPLORE_CHECK(hak_gate_is_mine() && !hak_gate_is_awaited(), "the gate is not the fork's");
    be_inside();
    open_gate();
    be_inside();
}

static void begin_child(void) {
    hak_gate_reset();
    hak_gate_open();
}

/* The child, and a child of that. */
static void fork_twice(void) {
    hak_gate_use(&posts[1].post);
    for (int i = 0; i < 2; i++) {
        close_gate();
        explore_step();
        check_closed();
        explore_stop_others();
        memory_join();
        begin_child();
        forkers--;
        EXPLORE_CHECK(!hak_gate_is_mine() && !hak_gate_is_lost(&posts[1].post),
                      "the child does not know itself");
        be_inside();
    }
}

/* A handler of another library starts a thread in the child before the allocator's own handler. */
static void fork_and_start(void) {
    hak_gate_use(&posts[0].post);
    hak_gate_close(NULL, NULL);
    atomic_store(&in_child.is_so, 1);
    explore_step();
    begin_child();
    fork_and_open();
}

__attribute__((no_sanitize_thread)) static bool is_in_child(const void *unused) {
    (void)unused;
    return in_child.is_so;
}

static void started_in_child(void) {
    explore_await(is_in_child, NULL);
    be_inside();
}

/* A fork in a signal handler that interrupts a fork of its thread. */
static void handler_forks(void) {
    hak_gate_close(NULL, NULL);
    check_closed();
    explore_step();
    check_closed();
    hak_gate_open();
}
static void fork_and_fork(void) {
    close_gate();
    handler_forks();
    check_closed();
    explore_step();
    open_gate();
}
static void fork_interrupted(void) {
    handler = handler_forks;
    fork_and_open();
}

/* The same, and the child of the handler's fork returns from the handler. */
static void handler_returns_in_child(void) {
    hak_gate_close(NULL, NULL);
    explore_step();
    check_closed();
    explore_stop_others();
    memory_join();
    begin_child();
}
static void fork_interrupted_in_child(void) {
    hak_gate_use(&posts[1].post);
    handler = handler_returns_in_child;
    hak_gate_close(NULL, NULL);
    if (hak_gate_is_mine()) hak_gate_open();
    handler = NULL;
    fork_and_allocate();
}

/* A signal handler interrupts one of a crowd anywhere on its way in and out: it allocates, or it forks
 * and returns in the parent, or in the child. */
static void crowd_with(void (*run)(void)) {
    handler = run;
    be_inside();
    handler = NULL;
}
static void crowd_and_handler(void) { crowd_with(be_inside); }
static void crowd_and_fork(void) { crowd_with(handler_forks); }
static void crowd_and_child(void) { crowd_with(handler_returns_in_child); }

/* The same, where another handler interrupts the first one inside, and forks there. */
static void handler_is_inside_in_child(void) {
    hak_gate_enter();
    handler_returns_in_child();
    EXPLORE_CHECK(hak_gate_thread.noted_at, "a handler is inside no more");
    hak_gate_leave();
}
static void crowd_and_handlers_child(void) { crowd_with(handler_is_inside_in_child); }

/* The same, where the handler starts a thread in the child before it returns. */
static void handler_starts_in_child(void) {
    hak_gate_close(NULL, NULL);
    explore_step();
    begin_child();
    atomic_store(&in_child.is_so, 1);
}
static void crowd_and_started(void) {
    crowd_with(handler_starts_in_child);
    atomic_store(&in_child.is_so, 1);
    fork_and_open();
}
static void second_started_in_child(void) {
    explore_await(is_in_child, NULL);
    second_of_the_crowd();
}

/* A fork in a signal handler that interrupted its thread inside. */
static void fork_inside(void) {
    hak_gate_use(&posts[1].post);
    hak_gate_enter();
    hak_gate_close(NULL, NULL);
    explore_stop_others();
    memory_join();
    begin_child();
    EXPLORE_CHECK(posts[1].post.inside, "the child's thread is inside no more");
    hak_gate_leave();
    check_closed();
}

/* The same, where the thread had no post when it entered, and got one in the handler. */
static void fork_inside_with_a_new_post(void) {
    hak_gate_enter();
    hak_gate_use(&posts[1].post);
    be_inside();
    hak_gate_close(NULL, NULL);
    explore_stop_others();
    memory_join();
    begin_child();
    hak_gate_leave();
}

/* A fork in a signal handler that came between the first step of enter and the next. */
static void fork_on_the_way_in(void) {
    hak_gate_post_t *post = &posts[1].post;
    hak_gate_use(post);
    hak_gate_thread.depth++;
    hak_store_relaxed(&post->inside, 1);
    hak_gate_close(NULL, NULL);
    explore_stop_others();
    memory_join();
    begin_child();
    EXPLORE_CHECK(posts[1].post.inside, "the child's thread is inside no more");
    if (hak_load_acquire(&hak_gate.state)) hak_gate_note();
    hak_store_relaxed(&hak_gate_thread.noted_at, post);
    hak_gate_leave();
    check_closed();
}

/* A report at exit: all others are outside, or it gives up. */
static void report_within(unsigned ms) {
    if (!hak_gate_close_within(ms)) return;
    EXPLORE_CHECK(++forkers == 1, "a report beside a fork");
    check_closed();
    be_inside();
    open_gate();
}
static void report(void) { report_within(2); }
static void report_at_once(void) { report_within(0); }

/* In a signal handler that interrupted its thread inside. */
static void report_inside(void) {
    hak_gate_use(&posts[1].post);
    hak_gate_enter();
    shared[explore_thread()].first++;
    report_within(2);
    shared[explore_thread()].second++;
    hak_gate_leave();
}

static void enter_and_leave(void) {
    hak_gate_enter();
    explore_step();
    hak_gate_leave();
}

static void first_and_handler(void) {
    hak_gate_use(&posts[0].post);
    crowd_with(enter_and_leave);
}

static void fork_and_open_twice(void) {
    fork_and_open();
    fork_and_open();
}

/* ---- Forks that hold a lock besides, as libc's of its streams ---- */

__attribute__((no_sanitize_thread)) static bool streams_are_free(const void *unused) {
    (void)unused;
    return !streams.holder;
}

static void lock_streams(void) {
    unsigned none = 0;
    while (!atomic_compare_exchange_strong(&streams.holder, &none, explore_thread())) {
        first_waits_for_streams |= explore_thread() == 1;
        explore_await(streams_are_free, NULL);
        first_waits_for_streams &= explore_thread() != 1;
        none = 0;
    }
}

static void unlock_streams(void) { atomic_store(&streams.holder, 0); }

static void fork_with_streams(void) {
    EXPLORE_CHECK(hak_gate_close(lock_streams, unlock_streams), "the gate is not the fork's");
    EXPLORE_CHECK(++forkers == 1, "two forks at a time");
    explore_step();
    forkers--;
    hak_gate_open();
    unlock_streams();
}

/* Interrupts its thread inside. */
static void fork_with_streams_inside(void) {
    hak_gate_use(&posts[0].post);
    hak_gate_enter();
    fork_with_streams();
    hak_gate_leave();
}

static void finally(void) {
    EXPLORE_CHECK(!streams.holder, "the lock of the streams is left");
    EXPLORE_CHECK(!(hak_gate.state & CLOSED), "the gate is left closed");
    for (unsigned i = 0; i < POSTS; i++)
        EXPLORE_CHECK(hak_gate_is_lost(&posts[i].post) || !posts[i].post.inside, "post %u is left",
                      i);
    for (unsigned i = 0; i < TESTED_CROWDS; i++)
        EXPLORE_CHECK((crowd_at(tested[i])->inside & COUNT_MASK) == 0, "%u of crowd %u are left",
                      crowd_at(tested[i])->inside & COUNT_MASK, tested[i]);
    check_closed();
}

static const char *describe(const volatile void *variable) {
    for (unsigned i = 0; i < POSTS; i++)
        if (variable == &posts[i].post.inside) return "a post";
    for (unsigned i = 0; i < TESTED_CROWDS; i++)
        if (variable == &crowd_at(tested[i])->inside) return "a crowd";
    return variable == &hak_gate.state       ? "the gate"
           : variable == &hak_gate.crowds[0] ? "the crowds' bits"
                                             : NULL;
}

#define RULES .finally = finally, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"a thread and a fork", prepare_one, {first_twice, fork_and_open}, RULES},
    {"a thread that fences and a fork", prepare_fenced, {first_twice, fork_and_open}, RULES},
    {"a fork that gets no barrier", prepare_refused, {first_twice, fork_and_open}, RULES},
    {"one of the crowd and a fork", prepare_crowd, {of_the_crowd, fork_and_open}, RULES},
    {"two of the crowd and a fork",
     prepare_crowd,
     {of_the_crowd, of_the_crowd, fork_and_open},
     RULES},
    {"two crowds and a fork", prepare_moving, {of_the_crowd, of_the_crowd, fork_and_open}, RULES},
    {"crowds of two words and a fork",
     prepare_two_words,
     {of_the_crowd, of_the_crowd, fork_and_open},
     RULES},
    {"a thread from crowd to crowd, and a fork",
     prepare_moving,
     {twice_of_crowds, fork_and_open},
     RULES},
    {"a child forks again, with two crowds",
     prepare_two_moving,
     {twice_of_crowds, fork_twice},
     RULES},
    {"two threads and a fork", prepare_one, {first, of_the_crowd, fork_and_open}, RULES},
    {"a fork that allocates", prepare_one, {first, fork_and_allocate}, RULES},
    {"two forks", prepare_one, {fork_and_open, fork_and_open}, RULES},
    {"a thread that is inside twice, and a fork", prepare_one, {nested, fork_and_open}, RULES},
    {"one that tries, and a fork", prepare_one, {try_once, fork_and_open}, RULES},
    {"a thread that gets a post, and a fork", prepare_crowd, {get_a_post, fork_and_open}, RULES},
    {"a thread and a fork, sleeps are interrupted",
     prepare_interrupted,
     {first, fork_and_open},
     RULES},
    {"a child forks again", prepare_two, {first, fork_twice}, RULES},
    {"a child forks again, with a crowd", prepare_two, {of_the_crowd, fork_twice}, RULES},
    {"a fork of a thread that is inside", prepare_two, {first, fork_inside}, RULES},
    {"a fork of a thread that is inside and has a new post",
     prepare_two,
     {first, fork_inside_with_a_new_post},
     RULES},
    {"a fork of a thread on its way in", prepare_two, {first, fork_on_the_way_in}, RULES},
    {"a thread that a handler starts in the child",
     prepare_one,
     {started_in_child, fork_and_start},
     RULES},
    {"a fork in a fork", prepare_one, {first, fork_and_fork}, RULES},
    {"a fork that is interrupted by one", prepare_one, {first_twice, fork_interrupted}, RULES},
    {"one that is interrupted, without the barrier",
     prepare_refused,
     {first_twice, fork_interrupted},
     RULES},
    {"a fork that waits, and that a child goes on with",
     prepare_interrupted_sleep,
     {first_twice, fork_interrupted_in_child},
     RULES},
    {"a fork that a child goes on with",
     prepare_two,
     {first_twice, fork_interrupted_in_child},
     RULES},
    {"one of the crowd and a handler", prepare_interrupted_crowd, {crowd_and_handler}, RULES},
    {"one of the crowd whose handler forks", prepare_interrupted_crowd, {crowd_and_fork}, RULES},
    {"one of the crowd in the child of its handler",
     prepare_interrupted_crowd,
     {crowd_and_child},
     RULES},
    {"one of the crowd in the child of a handler that is inside",
     prepare_interrupted_crowd,
     {crowd_and_handlers_child},
     RULES},
    {"one of a crowd of two whose handler forks",
     prepare_interrupted_pair,
     {crowd_and_fork, second_of_the_crowd},
     RULES},
    {"one of a crowd of two in the child of its handler",
     prepare_interrupted_pair,
     {crowd_and_child, second_of_the_crowd},
     RULES},
    {"one of the crowd whose handler starts a thread in the child",
     prepare_interrupted_pair,
     {crowd_and_started, second_started_in_child},
     RULES},
    {"one of the crowd and a handler, and a fork",
     prepare_interrupted_rounds,
     {crowd_and_handler, fork_and_open},
     RULES},
    {"one of the crowd and a handler, and two forks",
     prepare_interrupted_rounds,
     {crowd_and_handler, fork_and_open_twice},
     RULES},
    {"a first cache and a fork", prepare_fenced, {register_and_enter, fork_and_open}, RULES},
    {"a thread and a report", prepare_one, {first_twice, report}, RULES},
    {"a thread, one of the crowd, and a report", prepare_one, {first, of_the_crowd, report}, RULES},
    {"a thread and a report that gives up", prepare_one, {first_twice, report_at_once}, RULES},
    {"a fork and a report", prepare_one, {fork_and_open, report}, RULES},
    {"a fork and a report that gives up", prepare_one, {fork_and_open, report_at_once}, RULES},
    {"a thread and a report that is inside", prepare_two, {first, report_inside}, RULES},
    {"a handler while its thread waits at the gate, and two forks",
     prepare_interrupted_wait,
     {first_and_handler, fork_and_open_twice},
     RULES},
    {"a fork in a handler meets a fork",
     prepare_rounds,
     {fork_with_streams_inside, fork_with_streams},
     RULES},
};

int main(int argc, char **argv) {
    explore_keep_apart(&hak_gate_thread, sizeof hak_gate_thread);
    memory_track(&hak_gate, sizeof hak_gate);
    memory_track(&hak_gate_posts, sizeof hak_gate_posts);
    for (unsigned i = 0; i < TESTED_CROWDS; i++) memory_track(crowd_at(tested[i]), sizeof(crowd_t));
    memory_track(posts, sizeof posts);
    memory_delay(posts, sizeof posts);
    memory_track(shared, sizeof shared);
    memory_track(&in_child, sizeof in_child);
    memory_track(&streams, sizeof streams);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
