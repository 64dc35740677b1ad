/* memory_delayed.c: the store buffer of each CPU: stores that the other threads do not see yet. */
#include "memory.h"

#include <string.h>

#include "explore.h"

/* The range of memory_delay, and each thread's delayed store. */
static struct {
    uintptr_t start, end;
    struct {
        volatile uint32_t *address; /* NULL: none */
        uint32_t value;
    } of[EXPLORE_THREADS_MAX];
} delayed;

void memory_forget_delayed(void) { memset(delayed.of, 0, sizeof delayed.of); }

void memory_delay(const volatile void *start, size_t size) {
    delayed.start = (uintptr_t)start;
    delayed.end = (uintptr_t)start + size;
}

static void carry_out(unsigned thread) {
    volatile uint32_t *address = delayed.of[thread].address;
    if (!address) return;
    memory_atomic_begin(address, sizeof *address);
    if (!delayed.of[thread].address) return; /* another's fence has come first */
    delayed.of[thread].address = NULL;
    uint32_t before = *address;
    *address = delayed.of[thread].value;
    memory_atomic_end(address, "delayed store", false, true, __ATOMIC_RELAXED, before, *address);
}

bool memory_delays(volatile void *address, uint64_t value, int order) {
    unsigned thread = explore_thread();
    bool is_there = (uintptr_t)address - delayed.start < delayed.end - delayed.start;
    if (thread == 0 || order != __ATOMIC_RELAXED || !is_there) {
        memory_fence();
        return false;
    }
    explore_step();
    if (delayed.of[thread].address != address) memory_fence();
    delayed.of[thread].address = address;
    delayed.of[thread].value = (uint32_t)value;
    explore_note("store %s: %#x, delayed", explore_name(address), (unsigned)value);
    memory_learn((uintptr_t)address + value);
    return true;
}

bool memory_forwards(const volatile void *address) {
    unsigned thread = explore_thread();
    if (!delayed.of[thread].address) return false;
    if (delayed.of[thread].address == address) return true;
    if (explore_choose(2)) memory_fence();
    return false;
}

uint32_t memory_forwarded(void) { return delayed.of[explore_thread()].value; }

void memory_fence(void) { carry_out(explore_thread()); }

void memory_fence_all(void) {
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) carry_out(i);
}
