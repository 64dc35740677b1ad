/* helper_cpus.c - the helper thread has the CPUs and the scheduling policy of the process, whichever thread made the call
 * that started it.
 *
 *     helper_cpus idle|fifo
 *
 * A thread with that policy, which may run on one CPU, starts it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

enum { BLOCK_SIZE = 65000, BLOCKS = 900, NOT_HERE = 77 };

static int policy;
static _Atomic long starter;
static atomic_bool is_permitted, is_done;

static void allocate(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char *block = API(malloc)(BLOCK_SIZE);
        CHECK(block != NULL, "malloc(%d) gave NULL", BLOCK_SIZE);
        memset(block, 1, BLOCK_SIZE);
    }
}

/* True when the thread may leave that policy, too: an unprivileged one may not leave SCHED_IDLE. */
static bool takes(int wanted) {
    const struct sched_param priority = {.sched_priority = wanted == SCHED_FIFO};
    const struct sched_param none = {.sched_priority = 0};
    return sched_setscheduler(0, wanted, &priority) == 0 &&
           sched_setscheduler(0, SCHED_OTHER, &none) == 0 &&
           sched_setscheduler(0, wanted, &priority) == 0;
}

static void *work(void *first_cpu) {
    atomic_store(&starter, syscall(SYS_gettid));
    CHECK(sched_setaffinity(0, sizeof(cpu_set_t), first_cpu) == 0, "no affinity");
    atomic_store(&is_permitted, takes(policy));
    if (atomic_load(&is_permitted)) allocate(BLOCKS);
    atomic_store(&is_done, true);
    for (;;) proc_sleep_ms(1000);
}

/* The number of the thread that the program has not started; 0: none. */
static pid_t helper(void) {
    pid_t found = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "no /proc/self/task");
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        const pid_t thread = atoi(task->d_name);
        if (thread && thread != getpid() && thread != atomic_load(&starter)) found = thread;
    }
    closedir(tasks);
    return found;
}

static bool is_right(pid_t thread, const cpu_set_t *all) {
    cpu_set_t now;
    return sched_getscheduler(thread) == SCHED_OTHER &&
           sched_getaffinity(thread, sizeof now, &now) == 0 && CPU_EQUAL(&now, all);
}

int main(int argc, char **argv) {
    CHECK(argc > 1, "usage: helper_cpus idle|fifo");
    policy = strcmp(argv[1], "fifo") == 0 ? SCHED_FIFO : SCHED_IDLE;
    watchdog(50, "the helper's start");
    require_hakmem();
    cpu_set_t all, one;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0, "no affinity");
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, &one) == 0, "no thread");
    while (!atomic_load(&is_done)) proc_sleep_ms(10);
    if (!atomic_load(&is_permitted)) {
        printf("helper_cpus: skipped, the policy is not permitted\n");
        return NOT_HERE;
    }
    pid_t found = 0;
    for (unsigned i = 0; i < 500 && !(found && is_right(found, &all)); i++) {
        proc_sleep_ms(10);
        found = helper();
    }
    cpu_set_t now;
    CHECK(found != 0, "no helper");
    CHECK(sched_getaffinity(found, sizeof now, &now) == 0, "no affinity of the helper");
    CHECK(is_right(found, &all), "the helper has policy %d and %d of %d CPUs",
          sched_getscheduler(found), CPU_COUNT(&now), CPU_COUNT(&all));
    return 0;
}
