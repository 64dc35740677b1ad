/* cpu.h: which CPU a thread runs on, for what goes by the CPU. */
#pragma once

#include <stdbool.h>

/* Keeps the calling thread on one of the allowed CPUs, 0 being the first. Where there are not so many the
 * process ends. The first call, by the main thread, takes note of which are allowed. */
void stay_on_cpu(int number);

/* Has a process ended so, as waitpid tells it? */
bool lacks_cpus(int status);
