/* cpu.c: a thread kept on a CPU. */
#define _GNU_SOURCE
#include "cpu.h"

#include <sched.h>

#include "check.h"

void stay_on_cpu(int heaps, bool other) {
    static cpu_set_t allowed;
    int first = 0, cpu;
    cpu_set_t one;
    if (CPU_COUNT(&allowed) == 0)
        CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "no list of CPUs");
    while (!CPU_ISSET(first, &allowed)) first++;
    for (cpu = first; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && (cpu % heaps != first % heaps) == other) break;
    CHECK(cpu < CPU_SETSIZE, "this needs two CPUs whose numbers differ modulo %d", heaps);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot stay on CPU %d", cpu);
}
