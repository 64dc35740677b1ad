/* lock.c: the lock under load; tests/interleave/ explores every order of its steps. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "os/lock.h"

enum { THREADS = 4, TURNS = 40000 };

static struct {
    hak_lock_t lock;
    unsigned long counters[4]; /* under the lock, always equal */
    unsigned long tries;       /* under the lock */
} shared;

static hak_lock_t lock;

/* The program allocates while a test holds one. */
HAK_LOCK_RANK(REFRESH, shared, NULL);
HAK_LOCK_RANK(REFRESH, lock, NULL);

static void count_once(void) {
    for (unsigned i = 0; i < 4; i++) shared.counters[i]++;
    CHECK(shared.counters[0] == shared.counters[3], "two threads hold the lock");
}

static void *count(void *unused) {
    (void)unused;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        if (turn % 8 == 0) {
            if (!hak_lock_try(&shared.lock)) continue;
            shared.tries++;
        } else {
            hak_lock_acquire(&shared.lock);
        }
        count_once();
        hak_lock_release(&shared.lock);
    }
    return NULL;
}

static void threads_exclude_each_other(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    unsigned long waits = THREADS * (TURNS - TURNS / 8);
    for (unsigned i = 0; i < 4; i++) assert_int_equal(shared.counters[i], waits + shared.tries);
    assert_int_equal(shared.lock.state, 0);
}

static void a_held_lock_refuses_a_try(void **state) {
    (void)state;
    assert_true(hak_lock_try(&lock));
    assert_false(hak_lock_try(&lock));
    hak_lock_release(&lock);
    assert_true(hak_lock_try(&lock));
    hak_lock_reset(&lock);
    assert_true(hak_lock_try(&lock));
    hak_lock_release(&lock);
}

static _Atomic unsigned passed;

static void *pass(void *unused) {
    (void)unused;
    hak_lock_acquire(&lock);
    passed++;
    hak_lock_release(&lock);
    return NULL;
}

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* They sleep, all of them, and the release wakes one after the other. */
static void waiters_sleep_and_are_woken(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    hak_lock_acquire(&lock);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pass, NULL), 0);
    usleep(50000);
    double before = cpu_seconds();
    usleep(300000);
    double used = cpu_seconds() - before;
    assert_int_equal(passed, 0);
    hak_lock_release(&lock);
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(passed, THREADS);
    REQUIRE(used < 0.15, "waiting for 0.3 s used %.2f s of CPU time", used);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_lock_refuses_a_try),
        cmocka_unit_test(threads_exclude_each_other),
        cmocka_unit_test(waiters_sleep_and_are_woken),
    };
    watchdog(60, "a thread waits for ever for the lock");
    return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
