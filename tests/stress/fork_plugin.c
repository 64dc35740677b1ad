/* fork_plugin.c - a library whose constructor registers fork handlers, before the program has
 * allocated anything. The handlers allocate and free blocks of all tiers. During the fork they hold a mutex
 * that other threads hold while they allocate, as libraries with shared state do. */
#include "fork_plugin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {24, 200, 1000, 3000, 20000, 60000, 200000, 900000, 3000000};
enum { SIZES = sizeof sizes / sizeof *sizes, ROUNDS = 70 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *kept[SIZES];
static unsigned long calls;

/* Enough of each size that caches are refilled and flushed. */
static void allocate(void) {
    for (size_t i = 0; i < SIZES; i++) {
        void *blocks[ROUNDS];
        size_t count = sizes[i] < 100000 ? ROUNDS : 3;
        for (size_t k = 0; k < count; k++) {
            blocks[k] = malloc(sizes[i]);
            if (!blocks[k]) abort();
            memset(blocks[k], 1, 16);
        }
        for (size_t k = 0; k < count; k++) free(blocks[k]);
        free(kept[i]); /* a block of the handler before */
        kept[i] = malloc(sizes[i]);
    }
    calls++;
}

static bool with_mutex;
static void (*extra)(void);

static void before(void) {
    if (with_mutex) pthread_mutex_lock(&mutex);
    allocate();
    if (extra) extra();
}

static void after(void) {
    allocate();
    if (extra) extra();
    if (with_mutex) pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) static void start(void) { pthread_atfork(before, after, after); }

void plugin_hold_mutex(void) { with_mutex = true; }

void plugin_set_extra(void (*function)(void)) { extra = function; }

unsigned long plugin_calls(void) { return calls; }

void plugin_work(void) {
    if (with_mutex) pthread_mutex_lock(&mutex);
    void *blocks[ROUNDS];
    for (size_t i = 0; i < ROUNDS; i++) blocks[i] = malloc(70000 + 1000 * i);
    for (size_t i = 0; i < ROUNDS; i++) free(blocks[i]);
    if (with_mutex) pthread_mutex_unlock(&mutex);
}
