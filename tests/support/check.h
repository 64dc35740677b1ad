/* check.h - a fact that must hold, and a bound on how long a test may take. */
#pragma once

/* Fails the whole process with one line, "FAIL file:line: text", unless the condition holds. */
#define CHECK(condition, ...)                                            \
    do {                                                                 \
        if (!(condition)) check_failed(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

_Noreturn void check_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Bounds on time find what hangs. They are said for an idle machine, and so many times as long are given:
 * on a loaded one everything takes longer. */
enum { PATIENCE = 4 };

/* Ends the process with a FAIL line when it is still running after so many seconds, times PATIENCE. */
void watchdog(unsigned seconds, const char *what);

/* The number in argument index, or otherwise when there is no such argument. */
unsigned long argument(int argc, char **argv, int index, unsigned long otherwise);
