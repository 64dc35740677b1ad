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

enum { POSTS = 3 };

static struct {
    hak_gate_post_t post;
} posts[POSTS] __attribute__((aligned(64)));

/* Of each thread: inside it writes to one, then to the other; in between a fork must not look. */
static struct {
    char first, second;
} shared[EXPLORE_THREADS_MAX] __attribute__((aligned(64)));

static unsigned forkers; /* between close and open */

uintptr_t hak_os_thread(void) { return explore_thread() + 1; }

/* No steps of the explorer: its own look at the state. */
__attribute__((no_sanitize_thread)) static uint32_t noted(void) {
    uint32_t sum = crowd.inside;
    for (unsigned i = 0; i < POSTS; i++) sum += posts[i].post.inside;
    return sum;
}

__attribute__((no_sanitize_thread)) static bool has_fewer_noted(const void *before) {
    return noted() < *(const uint32_t *)before;
}

/* Only a fork that waits for somebody to leave sleeps. */
bool hak_os_sleep_ms(unsigned ms) {
    uint32_t before = noted();
    (void)ms;
    if (before) explore_await(has_fewer_noted, &before);
    return true;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void prepare_posts(unsigned count) {
    memset(&gate, 0, sizeof gate);
    memset(&crowd, 0, sizeof crowd);
    memset(posts, 0, sizeof posts);
    memset(shared, 0, sizeof shared);
    forkers = 0;
    futex_reset(false);
    for (unsigned i = 0; i < count; i++) {
        hak_gate_list(&posts[i].post);
        hak_gate_take(&posts[i].post);
    }
}

static void prepare_crowd(void) { prepare_posts(0); }
static void prepare_one(void) { prepare_posts(1); }
static void prepare_two(void) { prepare_posts(2); }

static void prepare_interrupted(void) {
    prepare_posts(1);
    futex_reset(true);
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
    hak_gate_close();
    EXPLORE_CHECK(++forkers == 1, "two forks at a time");
    check_closed();
}

static void open_gate(void) {
    check_closed();
    forkers--;
    hak_gate_open();
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

/* The child, and a child of that. */
static void fork_twice(void) {
    hak_gate_use(&posts[1].post);
    for (int i = 0; i < 2; i++) {
        close_gate();
        explore_step();
        check_closed();
        explore_stop_others();
        memory_join();
        hak_gate_reset();
        forkers--;
        EXPLORE_CHECK(!hak_gate_is_mine() && !hak_gate_is_lost(&posts[1].post),
                      "the child does not know itself");
        be_inside();
    }
}

/* A fork in a signal handler that interrupted its thread inside. */
static void fork_inside(void) {
    hak_gate_use(&posts[1].post);
    hak_gate_enter();
    hak_gate_close();
    explore_stop_others();
    memory_join();
    hak_gate_reset();
    EXPLORE_CHECK(posts[1].post.inside, "the child's thread is inside no more");
    hak_gate_leave();
    check_closed();
}

static void finally(void) {
    EXPLORE_CHECK(gate.state == 0 && gate.closer == 0, "the gate is left closed");
    for (unsigned i = 0; i < POSTS; i++)
        EXPLORE_CHECK(hak_gate_is_lost(&posts[i].post) || !posts[i].post.inside, "post %u is left",
                      i);
    EXPLORE_CHECK(crowd.inside == 0, "%u of the crowd are left", crowd.inside);
    check_closed();
}

static const char *describe(const volatile void *variable) {
    for (unsigned i = 0; i < POSTS; i++)
        if (variable == &posts[i].post.inside) return "a post";
    return variable == &gate.state     ? "the gate"
           : variable == &gate.closer  ? "its closer"
           : variable == &crowd.inside ? "the crowd"
                                       : NULL;
}

#define RULES .finally = finally, .describe = describe

static const explore_scenario_t scenarios[] = {
    {"a thread and a fork", prepare_one, {first_twice, fork_and_open}, RULES},
    {"one of the crowd and a fork", prepare_crowd, {of_the_crowd, fork_and_open}, RULES},
    {"two of the crowd and a fork",
     prepare_crowd,
     {of_the_crowd, of_the_crowd, fork_and_open},
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
};

int main(int argc, char **argv) {
    explore_keep_apart(&hak_gate_thread, sizeof hak_gate_thread);
    memory_track(&gate, sizeof gate);
    memory_track(&crowd, sizeof crowd);
    memory_track(posts, sizeof posts);
    memory_track(shared, sizeof shared);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
