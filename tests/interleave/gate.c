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

#include "gate_threads.h"

/* ---- What there is at the beginning ----------------------------------------------------------- */

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

/* ---- What must hold at the end, and the scenarios ---------------------------------------------- */

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
    {"a fork in a handler that interrupts a verification, and a fork",
     prepare_one,
     {verify_interrupted, fork_with_streams},
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
