/* single_step.h: calls a function of the test after each instruction of a piece of code, as a signal handler may come there. */
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_STEPS

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

static bool (*steps_each)(void);

static inline void steps_trap(int number, siginfo_t *info, void *context) {
    enum { TRAP_FLAG = 0x100 };
    greg_t *const flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];
    (void)info;
    *flags |= TRAP_FLAG;
    if (number == SIGTRAP && !steps_each()) *flags &= ~(greg_t)TRAP_FLAG;
}

/* From the return of this function on, `each` is called after each instruction, until it returns false. */
static inline void steps_begin(bool (*each)(void)) {
    const struct sigaction trap = {.sa_sigaction = steps_trap, .sa_flags = SA_SIGINFO};
    steps_each = each;
    sigaction(SIGUSR1, &trap, NULL);
    sigaction(SIGTRAP, &trap, NULL);
    raise(SIGUSR1);
}
#endif
