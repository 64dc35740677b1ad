/* futex.c: a model of the kernel's futex. */
#include "futex.h"

#include "explore.h"
#include "memory.h"
#include "os/os.h"

static bool asleep[EXPLORE_THREADS_MAX], interrupted[EXPLORE_THREADS_MAX];
static bool may_interrupt;

void futex_reset(bool sleeps_are_interrupted) {
    may_interrupt = sleeps_are_interrupted;
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) asleep[i] = interrupted[i] = false;
}

bool futex_is_asleep(unsigned thread) { return asleep[thread]; }

static bool is_awake(const void *thread) { return !asleep[*(const unsigned *)thread]; }

/* The look at the word and falling asleep are one step. A sleep may end without a reason; once for
 * each thread is enough to see that. It orders no memory: the lock must not rely on the kernel. */
void hak_os_futex_wait(_Atomic uint32_t *word, uint32_t value) {
    unsigned thread = explore_thread();
    memory_atomic_begin(word, sizeof *word);
    uint32_t found = *(volatile uint32_t *)word;
    memory_atomic_end(word, "futex wait", true, false, __ATOMIC_RELAXED, found, found);
    if (found != value) return;
    if (may_interrupt && !interrupted[thread] && explore_choose(2)) {
        interrupted[thread] = true;
        return;
    }
    asleep[thread] = true;
    explore_await(is_awake, &thread);
}

void hak_os_futex_wake(_Atomic uint32_t *word, bool all) {
    unsigned sleepers[EXPLORE_THREADS_MAX], count = 0;
    memory_atomic_begin(word, sizeof *word);
    memory_atomic_end(word, all ? "futex wake all" : "futex wake one", true, false,
                      __ATOMIC_RELAXED, 0, 0);
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        if (asleep[i]) sleepers[count++] = i;
    if (!count) return;
    unsigned chosen = explore_choose(count);
    for (unsigned i = 0; i < count; i++)
        if (all || i == chosen) asleep[sleepers[i]] = false;
}
