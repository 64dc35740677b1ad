/* open_files.c: explores the notes of open files (src/os/open_files.h has the protocol), on the real source.
 *
 *   open_files             every scenario must hold
 *   open_files --broken    the source was broken on purpose: some scenario must fail */
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "explore.h"
#include "gates.h"
#include "memory.h"
#include "scenarios.h"

/* The kernel's table of descriptors, in a line of its own. */
static struct {
    _Atomic unsigned open; /* a bit for each */
} world __attribute__((aligned(64)));

static long open_lowest(void) {
    unsigned now = atomic_load(&world.open);
    while (!atomic_compare_exchange_strong(&world.open, &now, now | (now + 1))) continue;
    return __builtin_ctz(~now);
}

static long model_syscall(long number, ...) {
    va_list arguments;
    if (number == SYS_openat) return open_lowest();
    EXPLORE_CHECK(number == SYS_close, "another call");
    va_start(arguments, number);
    const unsigned bit = 1u << va_arg(arguments, int);
    va_end(arguments);
    EXPLORE_CHECK(atomic_fetch_and(&world.open, ~bit) & bit, "a file is closed twice");
    return 0;
}

#define syscall model_syscall
#include "os/open_files.c" /* its places are its own, and have to be tracked */
#undef syscall

hak_os_file_id_t hak_os_file_id(int file) { return (hak_os_file_id_t){1, (uint64_t)file + 1, 1}; }
bool hak_os_is_file(int file, const hak_os_file_id_t *id) {
    return id->inode == (uint64_t)file + 1;
}
uintptr_t hak_os_thread(void) { return explore_thread() + 1; }

/* ---- Threads --------------------------------------------------------------------------------- */

static void begin(bool forks) {
    gates_reset(forks);
    atomic_store(&world.open, 0);
    for (unsigned i = 0; i < PLACES; i++)
        atomic_store_explicit(&places[i].thread, 0, memory_order_relaxed);
}
static void prepare_alone(void) { begin(false); }
static void prepare_fork(void) { begin(true); }

static void open_and_close(void) { hak_os_close(hak_os_open_own("maps")); }

static void nothing_is_left(void) {
    EXPLORE_CHECK(atomic_load(&world.open) == 0, "open files: %#x", atomic_load(&world.open));
    for (unsigned i = 0; i < PLACES; i++)
        EXPLORE_CHECK(atomic_load(&places[i].thread) == 0, "place %u is taken", i);
}

static void fork_beside(void) {
    gates_fork();
    hak_open_files_close_lost();
    nothing_is_left();
    open_and_close();
    nothing_is_left();
}

/* As in a signal handler. */
static void fork_with_a_file(void) {
    const int file = hak_os_open_own("maps");
    gates_fork();
    hak_open_files_close_lost();
    EXPLORE_CHECK(atomic_load(&world.open) == 1u << file,
                  "%#x are open, and %d is the thread's own", atomic_load(&world.open), file);
    hak_os_close(file);
    nothing_is_left();
}

static const char *describe(const volatile void *variable) {
    return variable == &world.open         ? "the open files"
           : variable == &places[0].thread ? "the first place"
           : variable == &places[1].thread ? "the second place"
                                           : NULL;
}

static const explore_scenario_t scenarios[] = {
    {"two threads have files",
     prepare_alone,
     {open_and_close, open_and_close},
     .finally = nothing_is_left,
     .describe = describe},
    {"three threads have files",
     prepare_alone,
     {open_and_close, open_and_close, open_and_close},
     .finally = nothing_is_left,
     .describe = describe},
    {"a file and a fork", prepare_fork, {open_and_close, fork_beside}, .describe = describe},
    {"two files and a fork",
     prepare_fork,
     {open_and_close, open_and_close, fork_beside},
     .describe = describe},
    {"a fork of a thread with a file",
     prepare_fork,
     {open_and_close, fork_with_a_file},
     .describe = describe},
};

int main(int argc, char **argv) {
    memory_track(places, sizeof places);
    memory_track(&world, sizeof world);
    return scenarios_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
