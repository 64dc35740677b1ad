/* fork_work.c: the child of a fork that a signal handler makes in the midst of its thread's purge work, report or check. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "hardened/verify.h"
#include "os/gate.h"
#include "os/os.h"
#include "pool/purge_budget.h"
#include "shard/sparse.h"
#include "stats/collect.h"
#include "thread/cache_budget.h"
#include "thread/helper_thread.h"
#include "thread/purge_trigger.h"
#include "thread/verify.h"

enum { SECONDS = 60 };

static _Thread_local bool is_child;

/* The parent goes on when the child has ended well. */
static void fork_as_a_handler(void) {
    int status = -1;
    const pid_t pid = fork();
    is_child = pid == 0;
    if (is_child)
        alarm(SECONDS * PATIENCE);
    else
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "a child ended with status %#x",
              status);
}

/* Another thread that is counted, so that the fork closes the gate. */
static atomic_bool has_started, may_end;
static pthread_t other;

static void *be_counted_and_wait(void *unused) {
    hakmem_free(hakmem_malloc(100));
    atomic_store(&has_started, true);
    while (!atomic_load(&may_end)) sched_yield();
    return unused;
}

static void begin_other(void) {
    atomic_store(&may_end, false);
    atomic_store(&has_started, false);
    assert_int_equal(pthread_create(&other, NULL, be_counted_and_wait, NULL), 0);
    while (!atomic_load(&has_started)) sched_yield();
}

static void end_other(void) {
    atomic_store(&may_end, true);
    pthread_join(other, NULL);
}

/* ---- Purge work: a handler that forks in its midst, and may not come back in the child --------------- */

static atomic_uint purging, purged; /* pieces: owners' that are under way; all that ended */
static _Thread_local bool forks_in_purge;
static bool comes_back;

static void *purge_too(void *unused) {
    const unsigned before = atomic_load(&purged);
    hak_purge_round(0);
    CHECK(atomic_load(&purged) > before, "a child purges nothing");
    return unused;
}

static void purge_in_a_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, purge_too, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

size_t __real_hak_large_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget);
size_t __wrap_hak_large_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget);
size_t __wrap_hak_large_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget) {
    bool is_left_behind = false;
    const unsigned here = *at;
    CHECK(atomic_fetch_add(&purging, 1) == 0, "two threads do purge work");
    if (forks_in_purge) {
        forks_in_purge = false;
        fork_as_a_handler();
        is_left_behind = is_child;
    }
    if (is_left_behind) {
        atomic_store(&purging, 0);
        purge_in_a_thread();
        purge_too(NULL);
        if (!comes_back) _exit(0);
        CHECK(*at == here, "another piece has moved this one");
    }
    const size_t bytes = __real_hak_large_purge_piece(at, delay_ms, budget);
    atomic_fetch_add(&purged, 1);
    if (!is_left_behind) atomic_fetch_sub(&purging, 1);
    return bytes;
}

static void purge_and_fork(void) {
    forks_in_purge = true;
    hak_purge_round(0);
    CHECK(!forks_in_purge, "no piece of a large heap");
    if (is_child) {
        purge_in_a_thread();
        /* Once more: the piece that was left behind has ended. */
        is_child = false;
        comes_back = false;
        forks_in_purge = true;
        hak_purge_round(0);
        purge_in_a_thread();
        CHECK(hak_verify() == 0, "violations");
        _exit(0);
    }
}

static void fork_in_a_purge(void) {
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    begin_other();
    purge_and_fork();
    end_other();
}

/* Nobody closes the gate where there is no other thread. */
static void purge_and_fork_alone(const void *unused) {
    (void)unused;
    hakmem_free(hakmem_malloc(100));
    CHECK(!hak_os_knows_threads() || hak_os_is_single_threaded(), "there is another thread");
    comes_back = false;
    purge_and_fork();
    comes_back = true;
    purge_and_fork();
}

static void the_handler_of_a_single_thread_forks_while_it_purges(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it has a thread of its own */
#endif
    unit_child(purge_and_fork_alone, NULL, SECONDS, "a fork in a purge");
}

static void the_handler_forks_while_its_thread_purges(void **state) {
    (void)state;
    comes_back = true;
    fork_in_a_purge();
}

static void the_handler_forks_in_a_purge_and_does_not_come_back(void **state) {
    (void)state;
    comes_back = false;
    fork_in_a_purge();
}

/* What is due stays due in the child: the owner may be another thread, which the child does not have. */
static bool forks_in_growth, forks_in_visit;
static bool pays_in_handler;
static _Atomic uint32_t *more; /* what becomes due in the child then */

static void *settle_too(void *unused) {
    hak_purge_settle();
    return unused;
}

static void fork_while_due(_Atomic uint32_t *sum, uint32_t note, const char *what) {
    forks_in_growth &= sum != &hak_shard_grown;
    forks_in_visit &= sum != &hak_shard_visits_due;
    fork_as_a_handler();
    if (!is_child) return;
    forks_in_growth = forks_in_visit = false;
    CHECK(hak_load_relaxed(sum) >= 3, "of 3 %s that are due the child knows %u", what,
          hak_load_relaxed(sum));
    CHECK(hak_load_relaxed(&hak_budget_notes) & note, "nobody in the child is told of %s", what);
    if (!pays_in_handler) return;
    /* Another owner does the work, then more is due: what was left behind is not done for that. */
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, settle_too, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(hak_load_relaxed(sum) == 0, "%u %s are still due", hak_load_relaxed(sum), what);
    more = sum;
    hak_store_relaxed(sum, 5);
    hak_budget_note(note);
}

size_t __real_hak_shard_purge_grown(size_t bytes, hak_budget_t *budget);
size_t __wrap_hak_shard_purge_grown(size_t bytes, hak_budget_t *budget);
size_t __wrap_hak_shard_purge_grown(size_t bytes, hak_budget_t *budget) {
    if (forks_in_growth) fork_while_due(&hak_shard_grown, HAK_NOTE_GROWN, "units");
    return __real_hak_shard_purge_grown(bytes, budget);
}

size_t __real_hak_shard_visit(hak_budget_t *budget);
size_t __wrap_hak_shard_visit(hak_budget_t *budget);
size_t __wrap_hak_shard_visit(hak_budget_t *budget) {
    if (forks_in_visit) fork_while_due(&hak_shard_visits_due, HAK_NOTE_VISIT, "visits");
    return __real_hak_shard_visit(budget);
}

static void fork_while_much_is_due(void) {
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    begin_other();
    hak_store_relaxed(&hak_shard_grown, 3);
    hak_store_relaxed(&hak_shard_visits_due, 3);
    hak_budget_note(HAK_NOTE_GROWN | HAK_NOTE_VISIT);
    forks_in_growth = forks_in_visit = true;
    hak_purge_settle();
    assert_false(forks_in_growth);
    assert_false(forks_in_visit);
    if (is_child) { /* the piece that was left behind has ended */
        CHECK(!more || hak_load_relaxed(more) == 5, "of 5 that are due the child knows %u",
              hak_load_relaxed(more));
        hak_purge_settle();
        CHECK(hak_load_relaxed(&hak_shard_grown) == 0, "%u units are still due",
              hak_load_relaxed(&hak_shard_grown));
        CHECK(hak_verify() == 0, "violations");
        _exit(0);
    }
    end_other();
}

static void a_child_knows_what_is_due(void **state) {
    (void)state;
    fork_while_much_is_due();
}

static void what_was_left_behind_pays_for_nothing_new(void **state) {
    (void)state;
    pays_in_handler = true;
    fork_while_much_is_due();
    pays_in_handler = false;
}

/* ---- A fork in the midst of a report ---------------------------------------------------------------- */

static void *report_too(void *unused) {
    const hak_stats_t *stats = hak_stats_copy();
    CHECK(stats != NULL, "no statistics");
    hak_stats_copy_end(stats);
    return unused;
}

static void report_in_a_thread(void) {
    pthread_t reporting;
    CHECK(pthread_create(&reporting, NULL, report_too, NULL) == 0, "no thread");
    pthread_join(reporting, NULL);
}

static void end_report(void) {
    if (is_child) {
        report_too(NULL);
        CHECK(hak_verify() == 0, "violations");
        _exit(0);
    }
    end_other();
}

/* The child resets the locks of the report, and its thread releases them later. */
static void fork_in_a_report(bool copies) {
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    begin_other();
    const hak_stats_t *stats = copies ? hak_stats_copy() : hak_stats_begin();
    fork_as_a_handler();
    if (is_child) {
        CHECK(!hak_stats_copy() && !hak_stats_begin(), "statistics in the midst of others");
        report_in_a_thread();
    }
    if (copies)
        hak_stats_copy_end(stats);
    else
        hak_stats_end(stats);
    end_report();
}

static void the_handler_forks_while_its_thread_reports(void **state) {
    (void)state;
    fork_in_a_report(true);
}

static void the_handler_forks_while_its_thread_collects(void **state) {
    (void)state;
    fork_in_a_report(false);
}

/* The same in a fork handler, while the gate is closed: its thread took no lock, and the child releases none. */
static void the_handler_forks_while_a_fork_handler_reports(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    begin_other();
    assert_true(hak_gate_close(NULL, NULL));
    const hak_stats_t *copy = hak_stats_copy();
    fork_as_a_handler();
    if (is_child) report_in_a_thread();
    hak_stats_copy_end(copy);
    hak_gate_open_mine();
    end_report();
}

/* ---- A fork in the midst of hakmem_verify ----------------------------------------------------------- */

static bool forks_in_verify;
static atomic_bool is_closed, is_verified;

static void *close_gate(void *unused) {
    CHECK(hak_gate_close(NULL, NULL), "another process");
    atomic_store(&is_closed, true);
    while (!atomic_load(&is_verified)) sched_yield();
    CHECK(hak_gate_is_mine(), "another thread has opened the gate");
    hak_gate_open();
    return unused;
}

static pthread_t closing;

void __real_hak_hardened_check(hak_check_t *check);
void __wrap_hak_hardened_check(hak_check_t *check); /* the last one */
void __wrap_hak_hardened_check(hak_check_t *check) {
    __real_hak_hardened_check(check);
    if (!forks_in_verify) return;
    forks_in_verify = false;
    fork_as_a_handler();
    if (!is_child) return;
    CHECK(pthread_create(&closing, NULL, close_gate, NULL) == 0, "no thread");
    while (!atomic_load(&is_closed)) sched_yield();
}

static void the_handler_forks_while_its_thread_verifies(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    begin_other();
    forks_in_verify = true;
    const size_t violations = hak_verify();
    if (is_child) {
        atomic_store(&is_verified, true);
        pthread_join(closing, NULL);
        CHECK(violations + hak_verify() == 0, "violations");
        _exit(0);
    }
    assert_int_equal(violations, 0);
    end_other();
}

/* ---- The helper ------------------------------------------------------------------------------------ */

/* In a child whose thread has not settled, and in the last thread's destructors, nobody counts: a helper
 * would end at once, and the next slow call would start one more. */
static void count_nobody(const void *unused) {
    (void)unused;
    hakmem_free(hakmem_malloc(100));
    hak_thread_recount(0);
    hak_helper_start_early();
    CHECK(hak_load_relaxed(&hak_helper_state) == 0, "a helper starts for no thread");
    hak_thread_recount(1);
    hak_helper_start_early();
    CHECK(hak_load_relaxed(&hak_helper_state) != 0, "no helper starts");
}

static void no_helper_starts_for_no_thread(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    unit_child(count_nobody, NULL, SECONDS, "a helper");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* first: no thread was there yet */
        cmocka_unit_test(the_handler_of_a_single_thread_forks_while_it_purges),
        cmocka_unit_test(the_handler_forks_while_its_thread_purges),
        cmocka_unit_test(the_handler_forks_in_a_purge_and_does_not_come_back),
        cmocka_unit_test(a_child_knows_what_is_due),
        cmocka_unit_test(what_was_left_behind_pays_for_nothing_new),
        cmocka_unit_test(the_handler_forks_while_its_thread_reports),
        cmocka_unit_test(the_handler_forks_while_its_thread_collects),
        cmocka_unit_test(the_handler_forks_while_a_fork_handler_reports),
        cmocka_unit_test(the_handler_forks_while_its_thread_verifies),
        cmocka_unit_test(no_helper_starts_for_no_thread),
    };
    watchdog(110, "a fork test hangs");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
