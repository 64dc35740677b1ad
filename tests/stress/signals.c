/* signals.c - signals that arrive at any instruction of malloc and free, with a handler that does not
 * allocate.
 *
 *     signals [signals to take]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "proc.h"

#define THREADS 3

static atomic_ulong taken;
static atomic_bool stop;

static void handler(int signal_number) {
    (void)signal_number;
    int saved = errno;
    atomic_fetch_add(&taken, 1);
    errno = saved;
}

static void *allocate_on(void *argument) {
    struct load load = {.rng = rng_make((uint64_t)(uintptr_t)argument), .most = 300000};
    while (!atomic_load(&stop)) load_run(&load, 50);
    load_end(&load);
    return NULL;
}

int main(int argc, char **argv) {
    unsigned long wanted = argument(argc, argv, 1, 20000);
    pthread_t threads[THREADS];
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    const unsigned seconds = 60 + (unsigned)(wanted / 2000);
    watchdog(seconds, "signals");
    require_hakmem();
    sigaction(SIGUSR1, &action, NULL);
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_on, (void *)(i + 1)) == 0, "no thread");
    /* A thread takes one at a time: where it waits for a CPU, the others are one with it. */
    const time_t end = time(NULL) + seconds;
    for (unsigned long i = 0; atomic_load(&taken) < wanted && time(NULL) < end; i++) {
        pthread_kill(threads[i % THREADS], SIGUSR1);
        if (i % THREADS == 0) usleep(20);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(atomic_load(&taken) > 0, "no signal was taken");
    printf("%lu signals taken\n", atomic_load(&taken));
    return 0;
}
