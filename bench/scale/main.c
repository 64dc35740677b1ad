/* scale: runs a workload on the preloaded, instrumented allocator, on a simulated machine.
 *
 *     scale NAME=VALUE ...      prints one JSON document
 *     scale --list              names the workloads, what an operation is, and what they do
 *
 * Status 2: a bad argument; 3: no memory or threads; 4: deadlock; 5: the allocator misbehaved. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include "load.h"
#include "machine.h"
#include "report.h"
#include "sched.h"

static unsigned seed = 1;

static const struct {
    const char *name;
    unsigned *value, least, most, plain;
} numbers[] = {
    {"cpus", &machine_options.cpus, 1, 192, 2},
    {"node", &machine_options.node_cpus, 1, CPUS_MOST, 64},
    {"cache-kib", &machine_options.cache_kib, 16, 65536, 1024},
    {"ways", &machine_options.ways, 1, 64, 16},
    {"hit-ns", &machine_options.hit_ns, 0, 1000, 1},
    {"fetch-ns", &machine_options.fetch_ns, 0, 10000, 20},
    {"near-ns", &machine_options.near_ns, 0, 100000, 45},
    {"far-ns", &machine_options.far_ns, 0, 100000, 320},
    {"quantum-ns", &sched_options.quantum_ns, 1, 1000000, 100},
    {"slice-ns", &sched_options.slice_ns, 100, 100000000, 100000},
    {"ops", &load_options.ops, 1, 100000000, 1000},
    {"warm", &load_options.warm, 0, 100000000, 2000},
    {"seats", &load_options.seats, 1, 1000, 40},
    {"seed", &seed, 1, 1000000, 1},
};

enum { NUMBERS = sizeof numbers / sizeof *numbers };

static int refuse(const char *word) {
    fprintf(stderr, "scale: '%s' is no NAME=VALUE that is known, or out of its range\n", word);
    return 2;
}

static bool read_word(const char *word) {
    const char *equals = strchr(word, '=');
    if (!equals) return false;
    size_t length = (size_t)(equals - word);
    if (length == 4 && strncmp(word, "load", 4) == 0)
        return (load_options.load = load_find(equals + 1)) != NULL;
    for (size_t i = 0; i < NUMBERS; i++) {
        if (strlen(numbers[i].name) != length || strncmp(word, numbers[i].name, length) != 0)
            continue;
        char *end;
        long value = strtol(equals + 1, &end, 10);
        if (*end || end == equals + 1) return false;
        if (value < (long)numbers[i].least || value > (long)numbers[i].most) return false;
        *numbers[i].value = (unsigned)value;
        return true;
    }
    return false;
}

/* The same addresses in each run, and one real CPU: then the baton goes on at once. */
static void settle(char **words) {
    int kind = personality(0xFFFFFFFF);
    if (kind != -1 && !(kind & ADDR_NO_RANDOMIZE)) {
        char path[4096] = "";
        if (readlink("/proc/self/exe", path, sizeof path - 1) > 0 &&
            personality((unsigned long)kind | ADDR_NO_RANDOMIZE) != -1)
            execv(path, words);
        fputs("scale: addresses stay random: figures may differ from run to run\n", stderr);
    }
    cpu_set_t one;
    int cpu = sched_getcpu();
    CPU_ZERO(&one);
    CPU_SET(cpu < 0 ? 0 : cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

int main(int count, char **words) {
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        load_list();
        return 0;
    }
    for (size_t i = 0; i < NUMBERS; i++) *numbers[i].value = numbers[i].plain;
    for (int i = 1; i < count; i++)
        if (!read_word(words[i])) return refuse(words[i]);
    if (!load_options.load) return refuse("load=");
    settle(words);
    static char buffer[1 << 16];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    load_options.workers = machine_options.cpus;
    load_options.seed = sched_options.seed = seed;
    machine_start();
    sched_start();
    load_run();
    sched_self = NULL;
    report_print();
    fflush(stdout);
    _Exit(0);
}
