/* abort_handler.c - HAKMEM finds a double free while it empties the cache of a thread that has ended.
 * The handler of SIGABRT then starts a thread that allocates, so no lock may be held. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"

static void *volatile twice;

/* The second free is not of the block that was freed last, so the call itself cannot detect it. */
static void *free_twice(void *unused) {
    twice = API(malloc)(320);
    void *other = API(malloc)(320);
    API(free)(twice);
    API(free)(other);
    API(free)(twice);
    return unused;
}

static void *allocate(void *unused) {
    CHECK(API(malloc)(1000) != NULL, "malloc(1000) gave NULL");
    return unused;
}

static void on_abort(int signal_number) {
    pthread_t thread;
    (void)signal_number;
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    _exit(0);
}

int main(void) {
    pthread_t thread;
    watchdog(20, "a handler of SIGABRT that allocates in a new thread");
    require_hakmem();
    proc_no_core_files();
    signal(SIGABRT, on_abort);
    CHECK(pthread_create(&thread, NULL, free_twice, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    API(malloc_trim)(0);
    CHECK(false, "the double free was not found");
}
