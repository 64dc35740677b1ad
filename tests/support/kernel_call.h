/* kernel_call.h: a system call by the processor's instruction, for programs that replace libc's syscall(). */
#pragma once

#include <errno.h>

/* The words beyond the call's own ones do not matter. Returns what syscall() does; -1 with errno. */
static inline long kernel_call(long number, const long words[6]) {
#if defined(__x86_64__)
    register long r10 __asm__("r10") = words[3], r8 __asm__("r8") = words[4],
                      r9 __asm__("r9") = words[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(words[0]), "S"(words[1]), "d"(words[2]), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number, result __asm__("x0") = words[0],
                     x1 __asm__("x1") = words[1], x2 __asm__("x2") = words[2],
                     x3 __asm__("x3") = words[3], x4 __asm__("x4") = words[4],
                     x5 __asm__("x5") = words[5];
    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
#else
#error "no system calls for this machine"
#endif
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}
