/*
 * linedist - how far apart two CPUs are: the round trip of one cache line.
 *
 *   linedist [cpu_a] [cpu_b] [rounds]
 *
 * Prints "round_trip_ns=N", the median of several batches. On a virtual machine this flips
 * between a near and a far value, and threaded rows move with it; only runs of one kind are
 * comparable.
 */
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>

#define BATCHES 21

enum { CPU_A, CPU_B, ROUNDS, ARGUMENTS };

static _Alignas(BENCH_LINE) atomic_uint turn;
static uint32_t batch_rounds;

static void pin(uint64_t cpu) {
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        bench_fail(1, "cannot run on CPU %llu: %s", (unsigned long long)cpu, strerror(errno));
}

/* Waits for `mine` and hands over `other`; gives up the CPU when the partner is late. */
static void bounce(unsigned mine, unsigned other, uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; i++) {
        unsigned spins = 0;

        while (atomic_load_explicit(&turn, memory_order_acquire) != mine)
            if (++spins % 100000 == 0) sched_yield();
        atomic_store_explicit(&turn, other, memory_order_release);
    }
}

static void *partner(void *cpu) {
    pin(*(uint64_t *)cpu);
    bounce(1, 0, BATCHES * batch_rounds);
    return NULL;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    struct bench_arg args[ARGUMENTS] = {
        [CPU_A] = {"cpu_a", 0, CPU_SETSIZE - 1, 0, 0},
        [CPU_B] = {"cpu_b", 0, CPU_SETSIZE - 1, 1, 0},
        [ROUNDS] = {"rounds", BATCHES, 100000000, 20000, 0},
    };
    double trip_ns[BATCHES];
    pthread_t thread;

    bench_start();
    bench_arguments(args, ARGUMENTS, argc, argv);
    batch_rounds = (uint32_t)args[ROUNDS].value / BATCHES;
    pin(args[CPU_A].value);
    thread = bench_thread(partner, &args[CPU_B].value);
    for (int i = 0; i < BATCHES; i++) {
        uint64_t start = bench_now_ns();

        bounce(0, 1, batch_rounds);
        trip_ns[i] = (double)(bench_now_ns() - start) / batch_rounds;
    }
    pthread_join(thread, NULL);
    qsort(trip_ns, BATCHES, sizeof trip_ns[0], compare);
    printf("round_trip_ns=%.1f\n", trip_ns[BATCHES / 2]);
    bench_flush();
    return 0;
}
