/* cpu.h: which CPU a thread runs on, for what goes by the CPU. */
#pragma once

/* Keeps the calling thread on one of the allowed CPUs, 0 being the first. Fails where there are
 * not so many. The first call, by the main thread, takes note of which are allowed. */
void stay_on_cpu(int number);
