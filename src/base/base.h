/* base.h: compiler and machine conditionals, small arithmetic, atomics.
 *
 * What depends on the compiler or the machine belongs here. Exceptions: bytes.h beside this file,
 * api/cxx.c, cache/cache.h, os/os_linux.c, and the two unwind files of os/. Every atomic helper
 * carries its memory order in its name. */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* FAST_PATH: inlined into its caller. SLOW_PATH: kept out of line and reached by a tail call,
 * so that the caller saves no registers for it. */
#define HAK_FAST_PATH static inline __attribute__((always_inline))
#define HAK_SLOW_PATH __attribute__((noinline, cold))

#define HAK_OUT_OF_LINE __attribute__((noinline)) /* the same, but not rare */

/* A function that reads what another thread may be writing, and drops what it has read if so. */
#define HAK_RACES __attribute__((noinline, no_sanitize_thread))

#define HAK_EXPORT __attribute__((visibility("default")))
#define HAK_LINE 64 /* bytes of a cache line */
#define HAK_ALIGNED(n) __attribute__((aligned(n)))
/* A zeroed table of which most processes use little. The linker sorts sections by name and
 * puts these tables after all other variables, which then share few pages. */
#define HAK_APART __attribute__((section(".bss.zz_apart")))
/* Zeroed variables that lie before those tables. OWN_LINE: many threads write the variable, so it
 * has a cache line to itself. READ_OFTEN: variables that all threads read and hardly any writes
 * share lines. MAP_LINE: the region's map, a whole line, separates the two groups. */
#define HAK_OWN_LINE __attribute__((section(".bss.zv_line"), aligned(HAK_LINE)))
#define HAK_MAP_LINE __attribute__((section(".bss.zw_map"), aligned(HAK_LINE)))
#define HAK_READ_OFTEN __attribute__((section(".bss.zx_read")))
/* These sections keep the number of resident pages of a small process low. COMMON: code that
 * every process runs, at its start or now and then, lies together at the beginning of the
 * library (src/CMakeLists.txt has the rest of the order). NEAR: constants that every process
 * reads lie among the variables, whose pages are resident anyway. */
#define HAK_COMMON __attribute__((section(".text.startup")))
/* NEXT: code that most long-lived processes run follows COMMON (src/CMakeLists.txt). BEHIND: code
 * that hardly any process runs comes last. OPTIONAL: code that runs where an option is set, or the hardened
 * profile, lies together (optional.ld). */
#define HAK_OPTIONAL __attribute__((noinline, section(".text.optional")))
#define HAK_NEXT __attribute__((noinline, section(".text.0next")))
#define HAK_BEHIND __attribute__((noinline, section(".text.zz_behind")))
#define HAK_NEAR __attribute__((section(".data.near")))
#define HAK_NEAR_CONSTANT __attribute__((section(".data.rel.ro.near"))) /* cannot be written */
#define HAK_NEAR_TEXT(text)                       \
    ({                                            \
        static const char near[] HAK_NEAR = text; \
        near;                                     \
    })
#define HAK_HOT HAK_ALIGNED(HAK_LINE) /* a hot function: its code begins at a cache line */
/* Makes the compiler recompute what it derives from a pointer, where keeping the result would cost
 * a callee-saved register. */
#define HAK_FORGET(pointer) __asm__("" : "+r"(pointer))
#define HAK_ALIAS(name) __attribute__((alias(#name)))

/* The return address of the function that uses the macro: an address in its caller. */
#define HAK_CALLER() __builtin_extract_return_addr(__builtin_return_address(0))

/* At the end of the enclosing block, errno gets the value that it has here. */
#define HAK_KEEP_ERRNO() \
    __attribute__((unused, cleanup(hak_errno_restore))) const int kept_errno = errno
HAK_FAST_PATH void hak_errno_restore(const int *kept) { errno = *kept; }

/* A prefixed build exports hakmem_* only, because the sanitizer provides malloc there. */
#ifndef HAKMEM_PREFIXED_ONLY
#define HAKMEM_PREFIXED_ONLY 0
#endif

/* The default build's checks on the fast path of free: double free, interior pointer. */
#ifndef HAKMEM_CHECKS
#define HAKMEM_CHECKS 1
#endif

#ifndef HAKMEM_DEBUG
#define HAKMEM_DEBUG 0
#endif

/* The lab's machine simulator (bench/scale) sees no memory access of assembly. */
#ifndef HAKMEM_NO_ASM
#define HAKMEM_NO_ASM 0
#endif

/* Checks of lock ranks and invariants: on in debug builds, except those that tests explore
 * step by step. */
#ifndef HAKMEM_VERIFY
#define HAKMEM_VERIFY HAKMEM_DEBUG
#endif

/* assert: debug builds only; a broken invariant stops the program. */
#if HAKMEM_DEBUG
#define HAK_ASSERT(x) ((x) ? (void)0 : __builtin_trap())
#else
#define HAK_ASSERT(x) ((void)0)
#endif

/* The thread sanitizer reserves most of the address space. */
#ifdef __SANITIZE_THREAD__
#define HAK_WINDOW_SHIFT_MAX 36
#else
#define HAK_WINDOW_SHIFT_MAX 44
#endif

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

HAK_FAST_PATH size_t hak_align_up(size_t n, size_t align) { return (n + align - 1) & ~(align - 1); }

/* A character of a text from elsewhere, for a terminal, which would execute a control character. */
HAK_FAST_PATH char hak_printable(char c) { return c >= ' ' && c < 127 ? c : '?'; }

HAK_FAST_PATH bool hak_is_pow2(size_t n) { return n != 0 && (n & (n - 1)) == 0; }
HAK_FAST_PATH size_t hak_min(size_t a, size_t b) { return a < b ? a : b; }
HAK_FAST_PATH size_t hak_max(size_t a, size_t b) { return a > b ? a : b; }

/* Index of the lowest and of the highest set bit (x != 0); the number of set bits. */
HAK_FAST_PATH unsigned hak_lowest_bit(uint64_t x) { return (unsigned)__builtin_ctzll(x); }
HAK_FAST_PATH unsigned hak_highest_bit(uint64_t x) { return 63u - (unsigned)__builtin_clzll(x); }
HAK_FAST_PATH unsigned hak_bit_count(uint64_t x) { return (unsigned)__builtin_popcountll(x); }

/* Two addresses that one vector instruction handles, on machines that have such instructions. */
typedef uintptr_t hak_pair_t __attribute__((vector_size(2 * sizeof(uintptr_t))));

/* Smallest power of two that is >= n; 1 <= n <= 2^63. */
HAK_FAST_PATH size_t hak_ceil_pow2(size_t n) {
    return n <= 1 ? 1 : (size_t)1 << (hak_highest_bit(n - 1) + 1);
}

HAK_FAST_PATH void hak_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* A full fence for a thread that did an atomic read-modify-write after its last store, for
 * instance to release a lock. On x86-64 that operation already is a full fence. */
#if defined(__x86_64__)
#define hak_fence_after_update() atomic_signal_fence(memory_order_seq_cst)
#else
#define hak_fence_after_update() atomic_thread_fence(memory_order_seq_cst)
#endif

/* Moves the pointer `p` up, and the one at `base + offset` down, by the size of a pointer. On
 * x86-64 each is one instruction with a memory operand, which shortens free and malloc. It
 * loads the word that the caller has just loaded; store forwarding serves both loads.
 * HAK_NOT_IN_RAX keeps a value out of the result register, which saves a copy at the end.
 * HAK_OPAQUE hides what a value is computed from, so that the compiler keeps it as it is.
 * HAK_ADD_OWNED_16 is HAK_ADD_OWNED for a counter of 16 bits and a constant. */
#if defined(__x86_64__) && !HAKMEM_NO_ASM
#define HAK_STEP_UP(p) __asm__("addq $8, %0" : "+m"(*(void ***)(void *)&(p)) : : "cc")
#define HAK_STEP_DOWN(base, offset) \
    __asm__ volatile("subq $8, (%0,%1)" : : "r"(base), "r"(offset) : "cc", "memory")
#define HAK_NOT_IN_RAX(value) __asm__("" : "+d"(value))
#define HAK_OPAQUE(value) __asm__("" : "+r"(value))
#define HAK_ADD_OWNED_16(p, n) \
    __asm__("addw %1, %0" : "+m"(*(uint16_t *)(void *)(p)) : "i"(n) : "cc")

/* value < *p, with a relaxed load. One comparison with a memory operand; for an atomic the
 * compiler would emit a separate load. */
HAK_FAST_PATH bool hak_is_below(size_t value, const _Atomic size_t *p) {
    bool below;
    __asm__("cmpq %2, %1" : "=@ccb"(below) : "r"(value), "m"(*p));
    return below;
}
HAK_FAST_PATH bool hak_is_below_32(uint32_t value, const _Atomic uint32_t *p) {
    bool below;
    __asm__("cmpl %2, %1" : "=@ccb"(below) : "r"(value), "m"(*p));
    return below;
}

/* Sets the bit `index` % 64; true when it was set. One instruction, and a flag. */
HAK_FAST_PATH bool hak_set_bit(uint64_t *word, uint64_t index) {
    bool was;
    __asm__("btsq %2, %0" : "+r"(*word), "=@ccc"(was) : "r"(index));
    return was;
}

/* Multiplies *low by `factor`: stores the lower half of the product there, and returns the upper half. Not one variable
 * of 128 bits, whose halves the compiler would copy. */
HAK_FAST_PATH uint64_t hak_multiply(uint64_t *low, uint64_t factor) {
    uint64_t high;
    __asm__("mulq %2" : "+a"(*low), "=d"(high) : "r"(factor) : "cc");
    return high;
}

/* The same with a factor in memory. */
HAK_FAST_PATH uint64_t hak_multiply_by(uint64_t *low, const uint64_t *factor) {
    uint64_t high;
    __asm__("mulq %2" : "+a"(*low), "=d"(high) : "m"(*factor) : "cc");
    return high;
}

/* Shifts *x down by a bit, and subtracts the bit that falls out from *at. */
HAK_FAST_PATH void hak_subtract_bit(uint64_t *x, intptr_t *at) {
    __asm__("shrq %0\n\tsbbq $0, %1" : "+r"(*x), "+r"(*at) : : "cc");
}
#else
#define HAK_STEP_UP(p) hak_store_relaxed(&(p), hak_load_relaxed(&(p)) + 1)
#define HAK_STEP_DOWN(base, offset)                                    \
    do {                                                               \
        _Atomic(void **) *step_ = (void *)((char *)(base) + (offset)); \
        hak_store_relaxed(step_, hak_load_relaxed(step_) - 1);         \
    } while (0)
#define HAK_NOT_IN_RAX(value) ((void)0)
#define HAK_OPAQUE(value) ((void)0)
#define HAK_ADD_OWNED_16(p, n) HAK_ADD_OWNED(p, (uint16_t)(n))
HAK_FAST_PATH bool hak_is_below(size_t value, const _Atomic size_t *p) {
    return value < atomic_load_explicit(p, memory_order_relaxed);
}
HAK_FAST_PATH bool hak_is_below_32(uint32_t value, const _Atomic uint32_t *p) {
    return value < atomic_load_explicit(p, memory_order_relaxed);
}
HAK_FAST_PATH bool hak_set_bit(uint64_t *word, uint64_t index) {
    const uint64_t bit = (uint64_t)1 << (index & 63), before = *word;
    *word = before | bit;
    return (before & bit) != 0;
}
HAK_FAST_PATH uint64_t hak_multiply(uint64_t *low, uint64_t factor) {
    const unsigned __int128 product = (unsigned __int128)*low * factor;
    *low = (uint64_t)product;
    return (uint64_t)(product >> 64);
}
HAK_FAST_PATH uint64_t hak_multiply_by(uint64_t *low, const uint64_t *factor) {
    return hak_multiply(low, *factor);
}
HAK_FAST_PATH void hak_subtract_bit(uint64_t *x, intptr_t *at) {
    *at -= (intptr_t)(*x & 1);
    *x >>= 1;
}
#endif

/* *p, loaded with acquire, by one comparison. */
HAK_FAST_PATH bool hak_is_set(const _Atomic bool *p) {
#if defined(__x86_64__) && !HAKMEM_NO_ASM && !defined(__SANITIZE_THREAD__)
    bool set;
    __asm__ volatile("cmpb $0, %1" : "=@ccne"(set) : "m"(*p) : "memory");
    return set;
#else
    return atomic_load_explicit(p, memory_order_acquire);
#endif
}

/* *p == value, with a relaxed load; `p` is a word of 16 bits, atomic or guarded by the caller. */
HAK_FAST_PATH bool hak_is_equal_16(const void *p, uint16_t value) {
#if defined(__x86_64__) && !HAKMEM_NO_ASM && !defined(__SANITIZE_THREAD__)
    bool equal;
    __asm__("cmpw %2, %1" : "=@ccz"(equal) : "m"(*(const uint16_t *)p), "r"(value));
    return equal;
#else
    return atomic_load_explicit((const _Atomic uint16_t *)p, memory_order_relaxed) == value;
#endif
}

#define hak_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define hak_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define hak_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define hak_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define hak_or_relaxed(p, v) atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define hak_and_relaxed(p, v) atomic_fetch_and_explicit((p), (v), memory_order_relaxed)
#define hak_or_acq_rel(p, v) atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define hak_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define hak_add_release(p, v) atomic_fetch_add_explicit((p), (v), memory_order_release)
#define hak_exchange_acq_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define hak_cas_acquire(p, expected, v)                                                 \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acquire, \
                                            memory_order_relaxed)
#define hak_cas_release(p, expected, v)                                                 \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_release, \
                                            memory_order_relaxed)
#define hak_cas_acq_rel(p, expected, v)                                                 \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel, \
                                            memory_order_relaxed)
#define hak_cas_weak_release(p, expected, v)                                          \
    atomic_compare_exchange_weak_explicit((p), (expected), (v), memory_order_release, \
                                          memory_order_relaxed)

/* Replaces *p, a pointer that only this thread and its signal handlers access, if it is *expected; else stores what it is
 * there. A handler comes before or after an instruction, so on x86-64 one without a bus lock will do. */
#if defined(__x86_64__) && !HAKMEM_NO_ASM && !defined(__SANITIZE_THREAD__)
#define hak_cas_own(p, expected, value)                                  \
    ({                                                                   \
        bool done_;                                                      \
        __asm__ volatile("cmpxchgq %3, %1"                               \
                         : "=@ccz"(done_), "+m"(*(p)), "+a"(*(expected)) \
                         : "r"(value)                                    \
                         : "memory");                                    \
        done_;                                                           \
    })
#else
#define hak_cas_own(p, expected, value) atomic_compare_exchange_strong((p), (expected), (value))
#endif

/* Adds to a counter that one thread at a time writes (its owner, or the holder of its lock)
 * and that any thread may read. */
#define HAK_ADD_OWNED(p, n) hak_store_relaxed((p), hak_load_relaxed(p) + (n))
