/* probe.h: points that tracers can attach to (USDT, as SystemTap, perf, bpftrace and gdb read
 * them). A probe is a nop, and a note in a section that is not loaded: the nop's address, the
 * probe's name, and where its two arguments are. Probes stay off the fast paths.
 *
 * The note has the form of <sys/sdt.h>, version 3: address, address of .stapsdt.base (which gives
 * the load offset), a semaphore (none), provider, name, arguments as size@operand. */
#pragma once

#include "base/base.h"

#if HAKMEM_NO_ASM
#define HAK_PROBE(name, first, second) ((void)(first), (void)(second))
#else
#define HAK_PROBE(name, first, second)                                                     \
    __asm__ volatile("990: nop\n"                                                          \
                     ".pushsection .note.stapsdt,\"\",%%note\n"                            \
                     ".balign 4\n"                                                         \
                     ".4byte 992f-991f, 994f-993f, 3\n"                                    \
                     "991: .asciz \"stapsdt\"\n"                                           \
                     "992: .balign 4\n"                                                    \
                     "993: .8byte 990b, _.stapsdt.base, 0\n"                               \
                     ".asciz \"hakmem\"\n"                                                 \
                     ".asciz \"" #name "\"\n"                                              \
                     ".asciz \"8@%0 8@%1\"\n"                                              \
                     "994: .balign 4\n"                                                    \
                     ".popsection\n"                                                       \
                     ".ifndef _.stapsdt.base\n"                                            \
                     ".pushsection .stapsdt.base,\"aG\",%%progbits,.stapsdt.base,comdat\n" \
                     ".weak _.stapsdt.base\n"                                              \
                     ".hidden _.stapsdt.base\n"                                            \
                     "_.stapsdt.base: .space 1\n"                                          \
                     ".size _.stapsdt.base, 1\n"                                           \
                     ".popsection\n"                                                       \
                     ".endif\n"                                                            \
                     :                                                                     \
                     : "r"((uint64_t)(first)), "r"((uint64_t)(second)))
#endif
