/* tsan.c: the calls that -fsanitize=thread puts before each access, in place of libtsan's.
 *
 * Atomic operations are done here, too: the compiler leaves them to the runtime. */
#include <stdbool.h>
#include <stdint.h>

#include "machine.h"
#include "memory.h"
#include "sched.h"
#include "sites.h"

#define PC __builtin_return_address(0)
#define CALL(type) __attribute__((visibility("default"))) type
typedef unsigned __int128 uint128_t;

void scale_access(const void *addr, size_t size, access_t kind, const void *pc) {
    if (!sched_self) return;
    machine_access(sched_cpu(), addr, size, kind, pc);
    sched_tick();
}

#define SIZED(size)                                                                               \
    CALL(void) __tsan_read##size(void *p);                                                        \
    CALL(void) __tsan_write##size(void *p);                                                       \
    CALL(void) __tsan_unaligned_read##size(void *p);                                              \
    CALL(void) __tsan_unaligned_write##size(void *p);                                             \
    CALL(void) __tsan_volatile_read##size(void *p);                                               \
    CALL(void) __tsan_volatile_write##size(void *p);                                              \
    CALL(void) __tsan_read##size(void *p) { scale_access(p, size, ACCESS_READ, PC); }             \
    CALL(void) __tsan_write##size(void *p) { scale_access(p, size, ACCESS_WRITE, PC); }           \
    CALL(void) __tsan_unaligned_read##size(void *p) { scale_access(p, size, ACCESS_READ, PC); }   \
    CALL(void) __tsan_unaligned_write##size(void *p) { scale_access(p, size, ACCESS_WRITE, PC); } \
    CALL(void) __tsan_volatile_read##size(void *p) { scale_access(p, size, ACCESS_READ, PC); }    \
    CALL(void) __tsan_volatile_write##size(void *p) { scale_access(p, size, ACCESS_WRITE, PC); }

SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)

CALL(void) __tsan_init(void);
CALL(void) __tsan_func_entry(void *pc);
CALL(void) __tsan_func_exit(void);
CALL(void) __tsan_read_range(void *p, long size);
CALL(void) __tsan_write_range(void *p, long size);
CALL(void) __tsan_vptr_update(void **p, void *value);
CALL(void) __tsan_vptr_read(void **p);
CALL(void) __tsan_atomic_thread_fence(int order);
CALL(void) __tsan_atomic_signal_fence(int order);

CALL(void) __tsan_init(void) {}
CALL(void) __tsan_func_entry(void *pc) { (void)pc; }
CALL(void) __tsan_func_exit(void) {}
CALL(void) __tsan_read_range(void *p, long size) { scale_access(p, (size_t)size, ACCESS_READ, PC); }
CALL(void) __tsan_write_range(void *p, long size) {
    scale_access(p, (size_t)size, ACCESS_WRITE, PC);
}
CALL(void) __tsan_vptr_update(void **p, void *value) {
    (void)value;
    scale_access(p, sizeof *p, ACCESS_WRITE, PC);
}
CALL(void) __tsan_vptr_read(void **p) { scale_access(p, sizeof *p, ACCESS_READ, PC); }
CALL(void) __tsan_atomic_thread_fence(int order) {
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
CALL(void) __tsan_atomic_signal_fence(int order) { (void)order; }

/* The access is told first: the baton may go on before the operation, never within it. */
#define FETCH(bits, name, operation)                                                            \
    CALL(uint##bits##_t)                                                                        \
    __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t value, int order);  \
    CALL(uint##bits##_t)                                                                        \
    __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t value, int order) { \
        (void)order;                                                                            \
        scale_access((void *)p, bits / 8, ACCESS_UPDATE, PC);                                   \
        return operation(p, value, __ATOMIC_SEQ_CST);                                           \
    }

#define EXCHANGE_IF(bits, name, compare)                                                          \
    CALL(int)                                                                                     \
    __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *p,                     \
                                                  uint##bits##_t *expected, uint##bits##_t value, \
                                                  int order, int failed);                         \
    CALL(int)                                                                                     \
    __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *p,                     \
                                                  uint##bits##_t *expected, uint##bits##_t value, \
                                                  int order, int failed) {                        \
        (void)order, (void)failed;                                                                \
        scale_access((void *)p, bits / 8, ACCESS_UPDATE, PC);                                     \
        bool done = compare(p, expected, value);                                                  \
        if (!done && sched_self) sites_of(PC)->failed++;                                          \
        return done;                                                                              \
    }

#define COMPARE(p, expected, value) \
    __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

#define ATOMIC(bits)                                                                               \
    CALL(uint##bits##_t) __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order);  \
    CALL(uint##bits##_t) __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order) { \
        (void)order;                                                                               \
        scale_access((const void *)p, bits / 8, ACCESS_READ, PC);                                  \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                               \
    }                                                                                              \
    CALL(void)                                                                                     \
    __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t value, int order);      \
    CALL(void)                                                                                     \
    __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t value, int order) {     \
        (void)order;                                                                               \
        scale_access((void *)p, bits / 8, ACCESS_WRITE, PC);                                       \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                              \
    }                                                                                              \
    FETCH(bits, exchange, __atomic_exchange_n)                                                     \
    FETCH(bits, fetch_add, __atomic_fetch_add)                                                     \
    FETCH(bits, fetch_sub, __atomic_fetch_sub)                                                     \
    FETCH(bits, fetch_and, __atomic_fetch_and)                                                     \
    FETCH(bits, fetch_or, __atomic_fetch_or)                                                       \
    FETCH(bits, fetch_xor, __atomic_fetch_xor)                                                     \
    FETCH(bits, fetch_nand, __atomic_fetch_nand)                                                   \
    EXCHANGE_IF(bits, strong, COMPARE)                                                             \
    EXCHANGE_IF(bits, weak, COMPARE)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

/* Only the thread with the baton runs, so plain operations do. */
static bool compare_128(volatile uint128_t *p, uint128_t *expected, uint128_t value) {
    uint128_t seen = *p;
    if (seen == *expected) {
        *p = value;
        return true;
    }
    *expected = seen;
    return false;
}
EXCHANGE_IF(128, strong, compare_128)
EXCHANGE_IF(128, weak, compare_128)

CALL(uint128_t) __tsan_atomic128_load(const volatile uint128_t *p, int order);
CALL(uint128_t) __tsan_atomic128_load(const volatile uint128_t *p, int order) {
    (void)order;
    scale_access((const void *)p, 16, ACCESS_READ, PC);
    return *p;
}
CALL(void) __tsan_atomic128_store(volatile uint128_t *p, uint128_t value, int order);
CALL(void) __tsan_atomic128_store(volatile uint128_t *p, uint128_t value, int order) {
    (void)order;
    scale_access((void *)p, 16, ACCESS_WRITE, PC);
    *p = value;
}
CALL(uint128_t) __tsan_atomic128_exchange(volatile uint128_t *p, uint128_t value, int order);
CALL(uint128_t) __tsan_atomic128_exchange(volatile uint128_t *p, uint128_t value, int order) {
    (void)order;
    scale_access((void *)p, 16, ACCESS_UPDATE, PC);
    uint128_t seen = *p;
    *p = value;
    return seen;
}

/* In place of the processor's pause; cc makes instrumented code call it. */
CALL(void) scale_pause(void);
CALL(void) scale_pause(void) {
    if (!sched_self) return;
    sites_of(PC)->wait_ns += PAUSE_NS;
    sched_pass(PAUSE_NS);
    sched_tick();
}
