/* gate_threads.h: what the threads of gate.c's scenarios do: they enter and leave, fork, are interrupted, and report.
 * It stands behind the model, which it uses. */
#pragma once

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

/* A verification closes the gate and holds no lock. A handler that interrupts it forks. */
static void handler_forks_with_streams(void) {
    if (explore_thread() != 1) return; /* the other one has the lock, which is not recursive here */
    EXPLORE_CHECK(hak_gate_close(lock_streams, unlock_streams), "the gate is not the fork's");
    check_closed();
    hak_gate_open();
    unlock_streams();
}
static void verify_interrupted(void) {
    handler = handler_forks_with_streams;
    fork_and_open();
    handler = NULL;
}
