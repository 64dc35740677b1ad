/* stack_chain.c: calls that note their return addresses; built once for each way to lay out frames. */
#include "stack_chain.h"

#include <alloca.h>
#include <string.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(part) JOIN(JOIN(CHAIN, _), part)

/* A frame whose size is known at run time only. */
__attribute__((noinline)) static void NAME(wide)(chain_t *chain, unsigned left) {
    chain->expected[chain->count++] = (uintptr_t)__builtin_return_address(0);
    char *room = alloca(left * 16 + 1);
    memset(room, 1, left * 16 + 1);
    CHAIN(chain, left - 1);
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* A frame that is aligned at run time. */
__attribute__((noinline)) static void NAME(aligned)(chain_t *chain, unsigned left) {
    chain->expected[chain->count++] = (uintptr_t)__builtin_return_address(0);
    _Alignas(256) char room[256];
    memset(room, 1, sizeof room);
    CHAIN(chain, left - 1);
    __asm__ volatile("" : : "r"(room) : "memory");
}

__attribute__((noinline)) void CHAIN(chain_t *chain, unsigned left) {
    chain->expected[chain->count++] = (uintptr_t)__builtin_return_address(0);
    if (left == 0)
        chain->bottom(chain);
    else if (left % 3 == 0)
        NAME(wide)(chain, left);
    else if (left % 3 == 1)
        NAME(aligned)(chain, left);
    else
        CHAIN(chain, left - 1);
    __asm__ volatile("" : : "r"(chain) : "memory"); /* no tail calls */
}
