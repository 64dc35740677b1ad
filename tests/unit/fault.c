/* fault.c: the look at a fault, and the handlers that were there before. */
#include "unit.h"

#include "os/fault.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE_MOST = 65536 };

static struct {
    volatile uintptr_t looked; /* the address that the look has seen */
    volatile int looks, handled;
    volatile uintptr_t handled_address;
} *seen; /* shared with the children */

static char *forbidden;
static sigjmp_buf back;

static void look(uintptr_t address) {
    seen->looked = address;
    seen->looks++;
}
static void handle(int number) {
    seen->handled = number;
    siglongjmp(back, 1);
}
static void handle_with_info(int number, siginfo_t *info, void *context) {
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    seen->handled = context && sigismember(&blocked, SIGUSR1) ? number : 0;
    seen->handled_address = (uintptr_t)info->si_addr;
    siglongjmp(back, 1);
}

static void set_handler(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler};
    assert_int_equal(sigaction(number, &action, NULL), 0);
}

/* Runs `body` in a child; returns its status. */
static int run(void (*body)(void)) {
    memset((void *)seen, 0, sizeof *seen);
    pid_t child = fork();
    if (child == 0) {
        set_handler(SIGSEGV, SIG_DFL); /* cmocka has its own */
        set_handler(SIGBUS, SIG_DFL);
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void fault(void) {
    if (sigsetjmp(back, 1) == 0) *(volatile char *)(forbidden + 123) = 1;
}

static void without_a_handler(void) {
    hak_os_on_fault(look);
    fault();
}
static void with_a_handler(void) {
    set_handler(SIGSEGV, handle);
    without_a_handler();
}
static void with_a_handler_with_info(void) {
    struct sigaction action = {.sa_sigaction = handle_with_info, .sa_flags = SA_SIGINFO};
    sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &action, NULL);
    without_a_handler();
}
static void ignored(void) {
    set_handler(SIGSEGV, SIG_IGN);
    without_a_handler();
}
static void sent(void) {
    hak_os_on_fault(look);
    raise(SIGSEGV);
}
static void sent_and_ignored(void) {
    set_handler(SIGSEGV, SIG_IGN);
    sent();
}
static void sent_with_a_handler(void) {
    set_handler(SIGBUS, handle);
    hak_os_on_fault(look);
    if (sigsetjmp(back, 1) == 0) raise(SIGBUS);
}

static void each_handler_gets_its_signal(void **state) {
    static const struct {
        void (*body)(void);
        int ends_by, looks, handled;
    } rows[] = {
        {without_a_handler, SIGSEGV, 1, 0},
        {with_a_handler, 0, 1, SIGSEGV},
        {with_a_handler_with_info, 0, 1, SIGSEGV},
        {ignored, SIGSEGV, 1, 0},
        {sent, SIGSEGV, 0, 0},
        {sent_and_ignored, 0, 0, 0},
        {sent_with_a_handler, 0, 0, SIGBUS},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status = run(rows[i].body), ended = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        REQUIRE(ended == rows[i].ends_by, "row %u ends with %#x", i, status);
        REQUIRE(seen->looks == rows[i].looks, "row %u: %d looks", i, seen->looks);
        REQUIRE(seen->handled == rows[i].handled, "row %u: handler got %d", i, seen->handled);
        if (rows[i].looks) assert_int_equal(seen->looked, (uintptr_t)forbidden + 123);
    }
}

static void the_handler_sees_the_address(void **state) {
    (void)state;
    assert_int_equal(run(with_a_handler_with_info), 0);
    assert_int_equal(seen->handled_address, (uintptr_t)forbidden + 123);
}

int main(void) {
    seen = mmap(NULL, PAGE_MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    forbidden = mmap(NULL, PAGE_MOST, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_handler_gets_its_signal),
        cmocka_unit_test(the_handler_sees_the_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
