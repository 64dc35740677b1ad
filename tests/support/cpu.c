/* cpu.c: a thread kept on a CPU. */
#define _GNU_SOURCE
#include "cpu.h"

#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SKIPPED = 77 };

bool lacks_cpus(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED; }

void stay_on_cpu(int number) {
    static cpu_set_t allowed;
    int cpu = 0;
    cpu_set_t one;
    if (CPU_COUNT(&allowed) == 0)
        CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "no list of CPUs");
    if (CPU_COUNT(&allowed) <= number) {
        fprintf(stderr, "left out: this needs %d CPUs\n", number + 1);
        _exit(SKIPPED);
    }
    while (!CPU_ISSET(cpu, &allowed) || number-- > 0) cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "cannot stay on CPU %d", cpu);
}
