/*
 * linedist - how far apart two CPUs are: the round trip of one cache line.
 *
 *   linedist [cpu_a] [cpu_b] [rounds]
 *
 * Prints "round_trip_ns=N". On a virtual machine this flips between a near and a far
 * value, and threaded rows move with it; only runs of one kind are comparable.
 */
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>

enum { CPU_A, CPU_B, ROUNDS, ARGUMENTS };

static _Alignas(BENCH_LINE) atomic_uint turn;
static uint32_t rounds;

static void pin(uint64_t cpu) {
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        bench_fail(1, "cannot run on CPU %llu: %s", (unsigned long long)cpu, strerror(errno));
}

/* Waits for `mine` and hands over `other`; gives up the CPU when the partner is late. */
static void bounce(unsigned mine, unsigned other) {
    for (uint32_t i = 0; i < rounds; i++) {
        unsigned spins = 0;

        while (atomic_load_explicit(&turn, memory_order_acquire) != mine)
            if (++spins % 100000 == 0) sched_yield();
        atomic_store_explicit(&turn, other, memory_order_release);
    }
}

static void *partner(void *cpu) {
    pin(*(uint64_t *)cpu);
    bounce(1, 0);
    return NULL;
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [CPU_A] = {"cpu_a", 0, CPU_SETSIZE - 1, 0, 0},
        [CPU_B] = {"cpu_b", 0, CPU_SETSIZE - 1, 1, 0},
        [ROUNDS] = {"rounds", 1, 100000000, 20000, 0},
    };
    pthread_t thread;
    uint64_t start, ns;

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    rounds = (uint32_t)args[ROUNDS].value;
    pin(args[CPU_A].value);
    thread = bench_thread(partner, &args[CPU_B].value);
    start = bench_now_ns();
    bounce(0, 1);
    pthread_join(thread, NULL);
    ns = bench_now_ns() - start;
    printf("round_trip_ns=%.1f\n", (double)ns / rounds);
    return 0;
}
