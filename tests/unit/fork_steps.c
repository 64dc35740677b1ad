/* fork_steps.c: a signal handler forks after each instruction of some calls. In its child the heap is sound once the
 * interrupted call has ended; before that hakmem_verify() says that it cannot tell, or is right.
 * With an argument the dose is long. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "shard/flush.h"
#include "single_step.h"

/* The clock stands: no purge is due, however slow the machine is. */
uint64_t __wrap_hak_os_now_ms(void);
uint64_t __wrap_hak_os_now_ms(void) { return 1000000; }

/* ---- In the midst of a flush, as a handler may come there ----------------------------------------- */

static bool asks;
static size_t told_inside;

unsigned __real_hak_shard_flush_inside(unsigned home, unsigned class_index, void *const *blocks,
                                       unsigned count, hak_twice_t *twice);
unsigned __wrap_hak_shard_flush_inside(unsigned home, unsigned class_index, void *const *blocks,
                                       unsigned count, hak_twice_t *twice);
unsigned __wrap_hak_shard_flush_inside(unsigned home, unsigned class_index, void *const *blocks,
                                       unsigned count, hak_twice_t *twice) {
    const unsigned done = __real_hak_shard_flush_inside(home, class_index, blocks, count, twice);
    if (asks) told_inside = hakmem_verify();
    asks = false;
    return done;
}

/* The blocks are in their slabs, and still in the magazine. */
static void a_flush_is_half_done(void **state) {
    enum { BLOCKS = 60 };
    void *blocks[BLOCKS];
    (void)state;
    for (unsigned i = 0; i < BLOCKS; i++) blocks[i] = hakmem_malloc(30000);
    asks = true;
    for (unsigned i = 0; i < BLOCKS; i++) hakmem_free(blocks[i]);
    assert_false(asks);
    assert_int_equal(told_inside, SIZE_MAX);
    assert_int_equal(hakmem_verify(), 0);
}

#ifdef HAS_STEPS

enum { SECONDS = 60, ROUNDS = 3, TOLD = 77, FORKS_OF_LONG = 80, BLOCKS_MOST = 300 };

static long forks_wanted = 20; /* of each call */
static unsigned block_count = 60;
static long until_fork, forks, made, steps;
static volatile bool steps_on, is_child;
static size_t asked;  /* what hakmem_verify() has said in the handler */
static unsigned told; /* children in whose handler it could tell */

/* In the child this returns to the interrupted call. */
static void fork_here(void) {
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(SECONDS * PATIENCE);
        asked = hakmem_verify();
        is_child = true;
        return;
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
              (status == 0 || WEXITSTATUS(status) == TOLD),
          "a child at step %ld ended with status %#x", steps, (unsigned)status);
    told += status != 0;
}

static bool step(void) {
    if (!steps_on || is_child) return false;
    steps++;
    if (until_fork-- > 0) return true;
    until_fork = forks;
    made++;
    fork_here();
    return !is_child;
}

static void end_child(void) {
    CHECK(asked == 0 || asked == SIZE_MAX, "%zu violations in the handler, step %ld", asked, steps);
    const size_t violations = hakmem_verify();
    CHECK(violations == 0, "%zu violations behind the call, step %ld", violations, steps);
    _exit(asked == 0 ? TOLD : 0);
}

/* The first rounds make what later ones find; the last but one counts the steps. */
static void step_through(void (*calls)(void)) {
    long all = 0;
    for (unsigned round = 0; round <= ROUNDS; round++) {
        const bool counts = round + 1 == ROUNDS, is_last = round == ROUNDS;
        steps = made = 0;
        until_fork = forks = is_last ? all / forks_wanted : 1000000;
        steps_on = counts || is_last;
        if (steps_on) steps_begin(step);
        calls();
        steps_on = false;
        if (is_child) end_child();
        all = steps;
    }
    CHECK(made >= forks_wanted / 2, "only %ld forks", made);
}

static void resize_huge(void) {
    char *block = hakmem_malloc((size_t)3 << 20);
    block = hakmem_realloc(block, (size_t)5 << 20);
    block = hakmem_realloc(block, (size_t)2 << 20);
    char *other = hakmem_malloc((size_t)50 << 20);
    hakmem_free(other);
    hakmem_free(block);
    hakmem_malloc_trim(0);
}

static void allocate_large(void) {
    void *blocks[8];
    for (unsigned i = 0; i < 8; i++) blocks[i] = hakmem_malloc((size_t)(i + 1) * 100000);
    for (unsigned i = 0; i < 8; i++) hakmem_free(blocks[i]);
}

static void fill_slabs(void) {
    static void *blocks[BLOCKS_MOST];
    for (unsigned i = 0; i < block_count; i++) blocks[i] = hakmem_malloc(i % 2 ? 1500 : 30000);
    for (unsigned i = 0; i < block_count; i++) hakmem_free(blocks[i]);
}

static atomic_bool has_started, may_end;

static void *be_there(void *unused) {
    hakmem_free(hakmem_malloc(100));
    atomic_store(&has_started, true);
    while (!atomic_load(&may_end)) usleep(1000);
    return unused;
}

static void a_child_ends_the_interrupted_call(void **state) {
    static void (*const calls[])(void) = {resize_huge, allocate_large, fill_slabs};
    (void)state;
    for (int threaded = 0; threaded < 2; threaded++) {
        pthread_t other;
        if (threaded) {
            pthread_create(&other, NULL, be_there, NULL);
            while (!atomic_load(&has_started)) sched_yield();
        }
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            step_through(calls[i]);
            REQUIRE(told > 0, "hakmem_verify() never tells");
            told = 0;
        }
        if (!threaded) continue;
        atomic_store(&may_end, true);
        pthread_join(other, NULL);
    }
}
#endif

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flush_is_half_done),
#ifdef HAS_STEPS
        cmocka_unit_test(a_child_ends_the_interrupted_call),
#endif
    };
    (void)argv;
#ifdef HAS_STEPS
    if (argc > 1) {
        forks_wanted = FORKS_OF_LONG;
        block_count = BLOCKS_MOST;
    }
#else
    (void)argc;
#endif
    watchdog(110, "a fork test hangs");
    return cmocka_run_group_tests_name("fork_steps", tests, NULL, NULL);
}
