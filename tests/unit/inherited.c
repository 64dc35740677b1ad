/* inherited.c: what a child has of a helper thread that a fork or a clone without fork handlers stopped between two steps. */
#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hakmem.h"
#include "large/huge.h"
#include "os/gate.h"
#include "pool/purge_budget.h"
#include "thread/helper_thread.h"
#include "thread/purge_trigger.h"

enum { SECONDS = 5, NOTES = HAK_NOTE_HUGE | HAK_NOTE_ROUND | HAK_NOTE_SPARSE | HAK_NOTE_PRESSURE };

static const char *const variables[] = {"HAKMEM_PURGE_THREAD=2", "HAKMEM_PURGE_DELAY_MS=50",
                                        "HAKMEM_LIMIT_SOFT=1M", NULL};

/* ---- Where the helper stops ----------------------------------------------------------------------- */

typedef enum { NOWHERE, LISTED, INSIDE, NOTED } place_t;
static _Atomic place_t stops;
static atomic_bool has_stopped;

static void stop_at(place_t place) {
    const bool is_helper = (pid_t)syscall(SYS_gettid) != getpid();
    if (!is_helper || atomic_load(&stops) != place) return;
    atomic_store(&has_stopped, true);
    while (atomic_load(&stops) == place) usleep(1000);
}

/* The post that it has listed is not noted as listed yet. */
void __real_hak_gate_list(hak_gate_post_t *post);
void __wrap_hak_gate_list(hak_gate_post_t *post);
void __wrap_hak_gate_list(hak_gate_post_t *post) {
    __real_hak_gate_list(post);
    stop_at(LISTED);
}

/* It is inside the gate; or it has taken notes, and not done what they stand for. */
bool __real_hak_huge_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget,
                                 size_t *bytes);
bool __wrap_hak_huge_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget,
                                 size_t *bytes);
bool __wrap_hak_huge_purge_piece(unsigned *at, uint32_t delay_ms, hak_budget_t *budget,
                                 size_t *bytes) {
    stop_at(NOTED);
    hak_gate_enter();
    stop_at(INSIDE);
    hak_gate_leave();
    return __real_hak_huge_purge_piece(at, delay_ms, budget, bytes);
}

static void stop_helper(place_t place) {
    hakmem_free(hakmem_malloc(100));
    atomic_store(&stops, place);
    hak_helper_start_early();
    while (!atomic_load(&has_stopped)) {
        if (place == NOTED) hak_budget_note(NOTES);
        hak_helper_urge();
        usleep(1000);
    }
    hak_store_relaxed(&hak_budget_notes, 0); /* it has taken all of them */
}

/* Runs in the child of a clone without fork handlers. */
static void in_a_clone(void (*body)(void)) {
    int status;
    const pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        alarm(SECONDS * PATIENCE);
        atomic_store(&stops, NOWHERE);
        body();
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child: %#x",
          (unsigned)status);
    _exit(0); /* the helper is where it is */
}

static void fork_once(void) {
    int status;
    const pid_t pid = fork();
    if (pid == 0) _exit(hakmem_verify() != 0);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a child of the child: %#x",
          (unsigned)status);
}

/* ---- It has listed its post ------------------------------------------------------------------------- */

/* A fork looks at each post: a list with the same one twice has no end. */
static void start_and_fork(void) {
    hak_helper_look_whose();
    hak_helper_start_early();
    while (!hak_helper_runs()) usleep(1000);
    fork_once();
}

static void clone_at_the_list(const void *unused) {
    (void)unused;
    stop_helper(LISTED);
    in_a_clone(start_and_fork);
}

/* ---- It is inside the gate, and a signal handler forks while the child forgets it -------------------- */

static bool raises;
static volatile sig_atomic_t has_forked;

void __real_hak_purge_disown(uintptr_t thread);
void __wrap_hak_purge_disown(uintptr_t thread);
void __wrap_hak_purge_disown(uintptr_t thread) {
    if (raises) raise(SIGUSR1);
    __real_hak_purge_disown(thread);
}

static void fork_in_handler(int number) {
    (void)number;
    fork_once();
    has_forked = 1;
}

static void forget_it(void) {
    raises = true;
    signal(SIGUSR1, fork_in_handler);
    hak_helper_look_whose();
    CHECK(has_forked, "the helper was not forgotten");
}

static void clone_inside(const void *unused) {
    (void)unused;
    stop_helper(INSIDE);
    in_a_clone(forget_it);
}

/* ---- It has taken notes ------------------------------------------------------------------------------ */

static void check_notes(void) {
    const unsigned notes = hak_load_relaxed(&hak_budget_notes);
    CHECK((notes & NOTES) == NOTES, "of the notes %#x the child has %#x", NOTES, notes);
}

static void note_and_stop(void) {
    CHECK(hakmem_malloc((size_t)8 << 20) != NULL, "no memory"); /* more than the soft limit */
    stop_helper(NOTED);
}

static void fork_behind_notes(const void *unused) {
    int status;
    (void)unused;
    note_and_stop();
    const pid_t pid = fork();
    if (pid == 0) {
        check_notes();
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child of a fork: %#x",
          (unsigned)status);
    _exit(0);
}

static void look_at_notes(void) {
    hak_helper_look_whose();
    check_notes();
}

static void clone_behind_notes(const void *unused) {
    (void)unused;
    note_and_stop();
    in_a_clone(look_at_notes);
}

static void run(void (*body)(const void *), const char *what) {
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in such a child */
#endif
    unit_child(body, NULL, 2 * SECONDS, what);
}

static void a_post_is_listed_once(void **state) {
    (void)state;
    run(clone_at_the_list, "a clone while the helper lists its post");
}

static void a_handler_forks_while_a_child_forgets(void **state) {
    (void)state;
    run(clone_inside, "a clone while the helper is inside the gate");
}

static void notes_are_noted_again(void **state) {
    (void)state;
    run(fork_behind_notes, "a fork behind notes");
    run(clone_behind_notes, "a clone behind notes");
}

int main(int argc, char **argv) {
    (void)argc;
    unit_need_environment(argv, variables);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_post_is_listed_once),
        cmocka_unit_test(a_handler_forks_while_a_child_forgets),
        cmocka_unit_test(notes_are_noted_again),
    };
    return cmocka_run_group_tests_name("inherited", tests, NULL, NULL);
}
