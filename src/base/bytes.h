/* bytes.h: copies and zeroes blocks and compares them with zero, 16 or 32 bytes an instruction.
 *
 * The address and the size of a block are multiples of 16. Some bytes are read or written twice
 * where that saves a loop. On machines with AVX2, a block of HAK_WIDE_LEAST bytes or more is
 * handled 32 bytes at a time. */
#pragma once

#include "base/base.h"

/* 16 bytes of a block. */
#define HAK_PAIR(at, index) ((hak_shared_pair_t *)(void *)(uintptr_t)(at))[index]
typedef hak_pair_t hak_shared_pair_t __attribute__((may_alias));
typedef uintptr_t hak_word_t __attribute__((may_alias));

/* Calls `part` for all pairs of a block of more than 32 bytes. */
#define HAK_EACH_PAIR(block, size, part)                                \
    do {                                                                \
        char *at_ = (block), *end_ = at_ + (size);                      \
        part(at_, 0) part(end_, -1) part(at_, 1) part(end_, -2);        \
        if ((size) <= 64) break;                                        \
        part(end_, -3) part(end_, -4);                                  \
        for (at_ += 32; at_ < end_ - 64; at_ += 64) {                   \
            part(at_, 0) part(at_, 1) part(at_, 2) part(at_, 3);        \
            __asm__ volatile("" : "+r"(at_)); /* else this is memset */ \
        }                                                               \
    } while (0)

HAK_FAST_PATH bool hak_pairs_are_zero(void *block, size_t size) {
    hak_pair_t any = {0, 0};
#define HAK_COLLECT(at, index) any |= HAK_PAIR(at, index);
    HAK_EACH_PAIR(block, size, HAK_COLLECT);
    return (any[0] | any[1]) == 0;
}

HAK_FAST_PATH void hak_zero_pairs(void *block, size_t size) {
    const hak_pair_t none = {0, 0};
#define HAK_CLEAR(at, index) HAK_PAIR(at, index) = none;
    HAK_EACH_PAIR(block, size, HAK_CLEAR);
}

/* 16 bytes at any address. */
typedef hak_pair_t hak_loose_pair_t __attribute__((may_alias, aligned(1)));
#define HAK_LOOSE_PAIR(at, offset) (*(hak_loose_pair_t *)((uintptr_t)(at) + (offset)))

/* So many bytes are copied by hak_copy_few. */
HAK_FAST_PATH bool hak_are_few(size_t bytes) { return bytes - 16 <= 64 - 16; }
HAK_FAST_PATH void hak_copy_few(void *to, const void *from, size_t bytes) {
    hak_pair_t first = HAK_PAIR(from, 0), last = HAK_LOOSE_PAIR(from, bytes - 16);
    HAK_PAIR(to, 0) = first;
    HAK_LOOSE_PAIR(to, bytes - 16) = last;
    if (bytes <= 32) return;
    HAK_OPAQUE(bytes); /* else its sums with both addresses are kept, in vain where this ends */
    first = HAK_PAIR(from, 1), last = HAK_LOOSE_PAIR(from, bytes - 32);
    HAK_PAIR(to, 1) = first;
    HAK_LOOSE_PAIR(to, bytes - 32) = last;
}

/* Smallest block for hak_wide_is_zero and hak_zero_wide. hak_wide_least returns it, or SIZE_MAX
 * where the machine lacks the instructions. */
enum { HAK_WIDE_LEAST = 65 };

#if defined(__x86_64__) && !HAKMEM_NO_ASM
#include <cpuid.h>

/* Uses cpuid, not __builtin_cpu_supports: that would run a constructor of the compiler's library in
 * each process, and its many cpuid instructions are slow on virtual machines. */
HAK_FAST_PATH size_t hak_wide_least(void) {
    const unsigned avx = bit_OSXSAVE | bit_AVX, saved = 6; /* the kernel saves wide registers */
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & avx) != avx) return SIZE_MAX;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    if ((a & saved) != saved || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return SIZE_MAX;
    return b & bit_AVX2 ? HAK_WIDE_LEAST : SIZE_MAX;
}

/* vzeroupper clears the upper halves of all wide registers; the compiler uses these only with
 * AVX. */
#ifdef __AVX__
#define HAK_WIDE_CLOBBERED                                                                   \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#else
#define HAK_WIDE_CLOBBERED "xmm0"
#endif

/* Passes over a block of more than 64 bytes, 32 bytes at a time; up to 256 bytes without a loop. A longer one is
 * handled from its end, 256 bytes a turn, and then what is left at its beginning: 128 bytes, or 256.
 * `begin` handles the first 32 bytes; `part` is the instruction for 32 bytes at an address; `last` counts the bytes that
 * are left, less 256. */
#define HAK_WIDE_3(part, from) part(32, from) part(64, from) part(96, from)
#define HAK_WIDE_4(part, from, a, b, c, d) part(a, from) part(b, from) part(c, from) part(d, from)
#define HAK_WIDE_HIGH(part, from) HAK_WIDE_4(part, from, 128, 160, 192, 224)
#define HAK_WIDE_TAIL(part) HAK_WIDE_4(part, "%[at], %[size]", -128, -96, -64, -32)
/* clang-format off */
#define HAK_WIDE_PASS(begin, part)                                                        \
    begin "cmpq $128, %[size]\n\t"                                                        \
          "jbe 2f\n\t"                                                                    \
          "cmpq $256, %[size]\n\t"                                                        \
          "ja 3f\n\t" HAK_WIDE_3(part, "%[at]") HAK_WIDE_TAIL(part) "jmp 9f\n"            \
          "3:\tleaq -256(%[size]), %[last]\n"                                             \
          "1:\t" part(0, "%[at], %[last]") HAK_WIDE_3(part, "%[at], %[last]")             \
          HAK_WIDE_HIGH(part, "%[at], %[last]")                                           \
          "subq $256, %[last]\n\t"                                                        \
          "ja 1b\n\t"                                                                     \
          "cmpq $-128, %[last]\n\t"                                                       \
          "jle 4f\n\t" HAK_WIDE_HIGH(part, "%[at]")                                      \
          "4:\t" HAK_WIDE_3(part, "%[at]")                                                \
          "jmp 9f\n"                                                                      \
          "2:\t" part(32, "%[at]") part(-64, "%[at], %[size]")                            \
          part(-32, "%[at], %[size]") "9:\t"
/* clang-format on */

HAK_FAST_PATH bool hak_wide_is_zero(const void *block, size_t size) {
    size_t last;
    bool is_zero;
#define HAK_WIDE_READ(at, from) "vpor " #at "(" from "), %%ymm0, %%ymm0\n\t"
    __asm__(HAK_WIDE_PASS("vmovdqu (%[at]), %%ymm0\n\t",
                          HAK_WIDE_READ) "vptest %%ymm0, %%ymm0\n\tvzeroupper"
            : [last] "=&r"(last), "=@ccz"(is_zero)
            : [at] "r"(block), [size] "r"(size), "m"(*(const char(*)[size])block)
            : HAK_WIDE_CLOBBERED);
    return is_zero;
}

HAK_FAST_PATH void hak_zero_wide(void *block, size_t size) {
    size_t last;
#define HAK_WIDE_CLEAR(at, from) "vmovdqu %%ymm0, " #at "(" from ")\n\t"
    __asm__ volatile(HAK_WIDE_PASS("vpxor %%xmm0, %%xmm0, %%xmm0\n\t" HAK_WIDE_CLEAR(0, "%[at]"),
                                   HAK_WIDE_CLEAR) "vzeroupper"
                     : [last] "=&r"(last)
                     : [at] "r"(block), [size] "r"(size)
                     : HAK_WIDE_CLOBBERED, "cc", "memory");
}
#else
HAK_FAST_PATH size_t hak_wide_least(void) { return SIZE_MAX; }
#define hak_wide_is_zero hak_pairs_are_zero
#define hak_zero_wide hak_zero_pairs
#endif

/* `wide`: where the result of hak_wide_least is kept; it is read only for blocks above 32 bytes. */
HAK_FAST_PATH bool hak_is_zero(void *block, size_t size, const size_t *wide) {
    if (size <= 32) { /* the four words need fewer instructions than the pairs */
        const hak_word_t *words = block, *end = (void *)((char *)block + size);
        return (words[0] | words[1] | end[-2] | end[-1]) == 0;
    }
    return size < *wide ? hak_pairs_are_zero(block, size) : hak_wide_is_zero(block, size);
}

HAK_FAST_PATH void hak_zero(void *block, size_t size, const size_t *wide) {
    if (size <= 32) {
        const hak_pair_t none = {0, 0};
        HAK_PAIR(block, 0) = HAK_PAIR((char *)block + size, -1) = none;
    } else if (size < *wide) {
        hak_zero_pairs(block, size);
    } else {
        hak_zero_wide(block, size);
    }
}
