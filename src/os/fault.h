/* fault.h: a look at the address of a fault, before the program's own handler gets the signal. */
#pragma once

#include "base/base.h"

/* Called in the handler of SIGSEGV and SIGBUS, before the signal is passed on. */
typedef void (*hak_os_fault_t)(uintptr_t address);

/* Installs the handler, once. It calls `look`, then the handler that was there before; if there was
 * none, the default action ends the process. A handler that the program installs later replaces
 * ours; then `look` runs only if that handler calls the one it has replaced. */
void hak_os_on_fault(hak_os_fault_t look);

/* Puts the handlers back that were there before, where the process still has ours. */
void hak_os_leave_faults(void);
