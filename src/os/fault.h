/* fault.h: a look at the address of a fault, before the program's own handler gets the signal. */
#pragma once

#include "base/base.h"

/* Called in the handler of SIGSEGV and SIGBUS. Whatever it does, the signal takes its course. */
typedef void (*hak_os_fault_t)(uintptr_t address);

/* Installs the handler, once. The handler that was there before is called after `look`; without one
 * the default action ends the process. A handler that the program installs later takes the place of
 * ours: then nobody looks, unless it calls the handler that it has replaced. */
void hak_os_on_fault(hak_os_fault_t look);
