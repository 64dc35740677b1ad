/* soak.c - all functions of the allocator at once, for a long time; every byte that is written is
 * checked later.
 *
 *     soak [operations [threads [seed [word...]]]]
 *
 * Words: tiny mid large huge (each thread is busy with this tier), limit (requests may be refused,
 * and some must be: the environment sets HAKMEM_LIMIT), plain (no heaps of the program's own).
 *
 * Threads come and go in their places. Each takes over the blocks of its predecessor and trades blocks
 * with the others. Besides it forks, trims, reads statistics, and maps and unmaps memory of its own. The long doses of the four builds add up to 10^9 operations; they may as well be run
 * in parts, each with a seed of its own:
 *
 *     for seed in 1 2 3; do LD_PRELOAD=libhakmem.so test_soak 100000000 8 $seed || break; done
 *
 * 40 million operations take 27 s of CPU on a release build. Sanitizer builds run the same program
 * without LD_PRELOAD, on the hakmem_* functions.
 *
 * The first violation ends the program with one line. The seed gives the same requests in each
 * place; the order among the threads is the machine's. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "alloc_names.h"
#include "check.h"
#include "proc.h"
#include "worker.h"

#define SILENT_SECONDS 300           /* without a thread that ends its life: the run hangs */
#define STACK_SIZE ((size_t)4 << 20) /* room for a sanitizer */
#define SLACK ((size_t)1 << 20)

static sem_t ended; /* counts the lives that have ended and are not joined yet */

static struct {
    pthread_t thread;
    atomic_bool has_ended;
} lives[THREADS_MOST];

/* The program's own memory never comes from the allocator under test. */
static void *own_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory for the soak itself");
    return memory;
}

static void *live(void *argument) {
    size_t index = (size_t)argument;
    worker_live(&places[index]);
    atomic_store(&lives[index].has_ended, true);
    sem_post(&ended);
    return NULL;
}

/* ThreadSanitizer sees neither that libc unmaps a dead thread's stack nor that mremap moves a block
 * to its address, and would take old accesses to the stack for accesses to the block. */
static void set_stack(pthread_attr_t *attributes, size_t index) {
#if defined(__SANITIZE_THREAD__)
    static void *stacks[THREADS_MOST];
    if (stacks[index] == NULL) stacks[index] = own_memory(STACK_SIZE);
    pthread_attr_setstack(attributes, stacks[index], STACK_SIZE);
#else
    (void)index;
    pthread_attr_setstacksize(attributes, STACK_SIZE);
#endif
}

static void start(size_t index) {
    pthread_attr_t attributes;
    int error;
    pthread_attr_init(&attributes);
    set_stack(&attributes, index);
    atomic_store(&lives[index].has_ended, false);
    do /* A thread's first memory may be refused as well. */
        error = pthread_create(&lives[index].thread, &attributes, live, (void *)index);
    while (error == EAGAIN && settings.has_limit);
    CHECK(error == 0, "no thread: error %d", error);
    pthread_attr_destroy(&attributes);
}

/* The place of a life that has ended, joined. */
static size_t wait_for_end(void) {
    watchdog(SILENT_SECONDS, "no thread has ended since");
    while (sem_wait(&ended) != 0) continue;
    size_t index = 0;
    while (!atomic_load(&lives[index].has_ended)) index++;
    pthread_join(lives[index].thread, NULL);
    atomic_store(&lives[index].has_ended, false);
    return index;
}

static void run(void) {
    unsigned running = settings.thread_count;
    for (size_t i = 0; i < settings.thread_count; i++) start(i);
    while (running > 0) {
        size_t index = wait_for_end();
        if (atomic_load(&operations_left) > 0)
            start(index);
        else
            running--;
    }
}

static void read_words(int argc, char **argv) {
    for (int i = 4; i < argc; i++) {
        const struct character *character = worker_find_character(argv[i]);
        if (strcmp(argv[i], "limit") == 0)
            settings.has_limit = true;
        else if (strcmp(argv[i], "plain") == 0)
            settings.is_plain = true;
        else if (character != NULL)
            settings.character = character;
        else
            check_failed(__FILE__, __LINE__, "\"%s\" is no word of the soak", argv[i]);
    }
}

static void prepare(int argc, char **argv) {
    settings.operations = argument(argc, argv, 1, 1000000);
    operations_left = settings.operations;
    settings.thread_count = (unsigned)argument(argc, argv, 2, 4);
    settings.seed = argument(argc, argv, 3, (unsigned long)time(NULL) ^ (unsigned long)getpid());
    read_words(argc, argv);
    CHECK(settings.thread_count >= 2 && settings.thread_count <= THREADS_MOST, "2 to %d threads",
          THREADS_MOST);
    require_hakmem();
    proc_no_core_files();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* whose reports say more */
    worker_report_crashes();
#endif
    printf("soak: %llu operations, %u threads, seed %" PRIu64 "\n", settings.operations,
           settings.thread_count, settings.seed);
    fflush(stdout);
    places = own_memory(settings.thread_count * sizeof *places);
    for (size_t i = 0; i < settings.thread_count; i++) {
        queue_make(&places[i].queue);
        places[i].foreign.most = (size_t)2 << 20;
    }
    sem_init(&ended, 0, 0);
}

static size_t live_bytes(void) {
    api_mallinfo2 info = API(mallinfo2)();
    return info.uordblks + info.hblkhd;
}

int main(int argc, char **argv) {
    static struct tally sum;
    prepare(argc, argv);
    size_t live_before = live_bytes();
    run();
    for (size_t i = 0; i < settings.thread_count; i++) {
        worker_clear(&places[i]);
        tally_add(&sum, &places[i].tally);
    }
    for (size_t i = 0; i < settings.thread_count; i++) heaps_clear(&places[i].heap);
    size_t live_after = live_bytes();
    CHECK(live_after <= live_before + SLACK, "%zu bytes live at the end, %zu at the start",
          live_after, live_before);
    tally_report(&sum, !settings.is_plain);
    CHECK(sum.operations >= settings.operations, "too few operations");
    CHECK(!settings.has_limit || sum.refused > 0, "no request was refused");
    puts("soak: no violation");
    return 0;
}
