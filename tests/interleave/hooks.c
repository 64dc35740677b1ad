/* hooks.c: the entry points of the compiler's thread instrumentation (-fsanitize=thread).
 *
 * The checked sources are compiled with it, so that every access to memory calls one of these
 * functions, with the memory order of atomic ones; but the program is linked with this file in
 * place of the sanitizer's library. So the code is checked as it stands: no macro of it is
 * replaced, and an atomic operation written in any other way is seen as well.
 *
 * The names are the compiler's. Threads cooperate, so the operations need not be atomic here. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "memory.h"

/* The declaration that -Wmissing-prototypes asks for, and the definition. */
#define ENTRY(result, name, arguments) \
    result name arguments;             \
    result name arguments

ENTRY(void, __tsan_init, (void)) {}
ENTRY(void, __tsan_func_entry, (void *caller)) { (void)caller; }
ENTRY(void, __tsan_func_exit, (void)) {}

/* Steps are sequentially consistent but for stores that are delayed and variables with old values
 * (memory.h): a fence has nothing else to add. */
ENTRY(void, __tsan_atomic_thread_fence, (int order)) {
    if (order == __ATOMIC_SEQ_CST) memory_fence();
    memory_order_fence(order);
}
ENTRY(void, __tsan_atomic_signal_fence, (int order)) { (void)order; }

#define PLAIN(size)                                                                           \
    ENTRY(void, __tsan_read##size, (void *address)) { memory_read(address, size); }           \
    ENTRY(void, __tsan_write##size, (void *address)) { memory_write(address, size); }         \
    ENTRY(void, __tsan_unaligned_read##size, (void *address)) { memory_read(address, size); } \
    ENTRY(void, __tsan_unaligned_write##size, (void *address)) { memory_write(address, size); }

PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

ENTRY(void, __tsan_read_range, (void *address, size_t size)) { memory_read(address, size); }
ENTRY(void, __tsan_write_range, (void *address, size_t size)) { memory_write(address, size); }

ENTRY(void *, __tsan_memset, (void *to, int value, size_t size)) {
    memory_write(to, size);
    return memset(to, value, size);
}
ENTRY(void *, __tsan_memcpy, (void *to, const void *from, size_t size)) {
    memory_read(from, size);
    memory_write(to, size);
    return memcpy(to, from, size);
}
ENTRY(void *, __tsan_memmove, (void *to, const void *from, size_t size)) {
    memory_read(from, size);
    memory_write(to, size);
    return memmove(to, from, size);
}

/* An operation that replaces *p by `next`, which may use `old` and `value`. */
#define UPDATE(bits, name, next)                                              \
    ENTRY(uint##bits##_t, __tsan_atomic##bits##_##name,                       \
          (volatile uint##bits##_t * p, uint##bits##_t value, int order)) {   \
        bool tracked = memory_is_tracked(p);                                  \
        if (tracked) memory_fence();                                          \
        tracked ? memory_atomic_begin(p, sizeof *p) : memory_interrupt();     \
        uint##bits##_t old = *p;                                              \
        *p = (uint##bits##_t)(next);                                          \
        if (tracked) memory_atomic_end(p, #name, true, true, order, old, *p); \
        return old;                                                           \
    }

#define ATOMIC(bits)                                                                              \
    ENTRY(uint##bits##_t, __tsan_atomic##bits##_load,                                             \
          (const volatile uint##bits##_t *p, int order)) {                                        \
        if (memory_is_tracked(p)) {                                                               \
            if (memory_forwards(p)) return (uint##bits##_t)memory_forwarded();                    \
            memory_atomic_begin(p, sizeof *p);                                                    \
            uint##bits##_t seen = (uint##bits##_t)memory_choose_old(p, *p, order);                \
            memory_atomic_end(p, "load", true, false, order, seen, seen);                         \
            return seen;                                                                          \
        }                                                                                         \
        return *p;                                                                                \
    }                                                                                             \
    ENTRY(void, __tsan_atomic##bits##_store,                                                      \
          (volatile uint##bits##_t * p, uint##bits##_t value, int order)) {                       \
        bool tracked = memory_is_tracked(p);                                                      \
        if (tracked && memory_delays(p, value, order)) return;                                    \
        tracked ? memory_atomic_begin(p, sizeof *p) : memory_interrupt();                         \
        uint##bits##_t old = *p;                                                                  \
        *p = value;                                                                               \
        if (tracked) memory_atomic_end(p, "store", false, true, order, old, value);               \
    }                                                                                             \
    UPDATE(bits, exchange, value)                                                                 \
    UPDATE(bits, fetch_add, old + value)                                                          \
    UPDATE(bits, fetch_sub, old - value)                                                          \
    UPDATE(bits, fetch_or, old | value)                                                           \
    UPDATE(bits, fetch_and, old &value)                                                           \
    UPDATE(bits, fetch_xor, old ^ value)                                                          \
    static bool compare##bits(volatile uint##bits##_t *p, uint##bits##_t *expected,               \
                              uint##bits##_t value, int order, int failure_order) {               \
        bool tracked = memory_is_tracked(p);                                                      \
        if (tracked) memory_fence();                                                              \
        tracked ? memory_atomic_begin(p, sizeof *p) : memory_interrupt();                         \
        uint##bits##_t old = *p;                                                                  \
        bool equal = old == *expected;                                                            \
        if (equal) *p = value;                                                                    \
        *expected = old;                                                                          \
        if (tracked)                                                                              \
            memory_atomic_end(p, equal ? "compare_exchange" : "compare_exchange (failed)", true,  \
                              equal, equal ? order : failure_order, old, *p);                     \
        return equal;                                                                             \
    }                                                                                             \
    ENTRY(int, __tsan_atomic##bits##_compare_exchange_strong,                                     \
          (volatile uint##bits##_t * p, uint##bits##_t * expected, uint##bits##_t value,          \
           int order, int failure_order)) {                                                       \
        return compare##bits(p, expected, value, order, failure_order);                           \
    }                                                                                             \
    ENTRY(int, __tsan_atomic##bits##_compare_exchange_weak,                                       \
          (volatile uint##bits##_t * p, uint##bits##_t * expected, uint##bits##_t value,          \
           int order, int failure_order)) {                                                       \
        return compare##bits(p, expected, value, order, failure_order);                           \
    }                                                                                             \
    ENTRY(uint##bits##_t, __tsan_atomic##bits##_compare_exchange_val,                             \
          (volatile uint##bits##_t * p, uint##bits##_t expected, uint##bits##_t value, int order, \
           int failure_order)) {                                                                  \
        compare##bits(p, &expected, value, order, failure_order);                                 \
        return expected;                                                                          \
    }

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

/* What the sources tell ThreadSanitizer about mappings that the kernel moves. The explorer follows no
 * order of the kernel's. */
ENTRY(void, __tsan_acquire, (void *address)) { (void)address; }
ENTRY(void, __tsan_release, (void *address)) { (void)address; }
