/* cpu.h: which CPU a thread runs on, for what goes by the CPU. */
#ifndef TESTS_SUPPORT_CPU_H
#define TESTS_SUPPORT_CPU_H

#include <stdbool.h>

/* Keeps the calling thread on an allowed CPU: the first, or (`other`) one whose number leaves
 * another remainder when divided by `heaps`. Fails where there is none. The first call, by the
 * main thread, takes note of which are allowed. */
void stay_on_cpu(int heaps, bool other);

#endif
