/* fault.c: the handler of faults, and the handler that it calls next. */
#include "os/fault.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

static hak_os_fault_t looker;      /* constant once the handler is installed */
static struct sigaction before[2]; /* the same: of SIGSEGV, of SIGBUS */

/* After the handler returns, the instruction faults again, and the default action ends the process.
 * A signal that some process has sent is raised again; it stays pending until the return. */
static void take_default(int number, const siginfo_t *info) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    sigaction(number, &action, NULL);
    if (info->si_code <= 0) syscall(SYS_tgkill, hak_os_process_id(), hak_os_thread_id(), number);
}

static void call_next(int number, siginfo_t *info, void *context) {
    const struct sigaction *next = &before[number == SIGBUS];
    sigset_t saved;
    bool has_handler =
        next->sa_flags & SA_SIGINFO || (next->sa_handler != SIG_DFL && next->sa_handler != SIG_IGN);
    if (!has_handler) {
        if (next->sa_handler == SIG_DFL || info->si_code > 0) take_default(number, info);
        return;
    }
    pthread_sigmask(SIG_BLOCK, &next->sa_mask, &saved);
    if (next->sa_flags & SA_SIGINFO)
        next->sa_sigaction(number, info, context);
    else
        next->sa_handler(number);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

static void handle(int number, siginfo_t *info, void *context) {
    HAK_KEEP_ERRNO();
    if (info->si_code > 0) looker((uintptr_t)info->si_addr);
    call_next(number, info, context);
}

static const int numbers[] = {SIGSEGV, SIGBUS};

void hak_os_on_fault(hak_os_fault_t look) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    looker = look;
    for (unsigned i = 0; i < 2; i++) sigaction(numbers[i], &action, &before[i]);
}

HAK_BEHIND void hak_os_leave_faults(void) {
    struct sigaction now;
    for (unsigned i = 0; looker && i < 2; i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
            now.sa_sigaction == handle)
            sigaction(numbers[i], &before[i], NULL);
}
