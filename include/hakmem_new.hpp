/* hakmem_new.hpp - makes operator new and operator delete of a program use HAKMEM.
 *
 * SPDX-License-Identifier: MIT
 *
 * Include it in exactly one source file of a program that is linked with a HAKMEM_PREFIXED_ONLY
 * library. Every other libhakmem has these operators itself: the shared one needs no header, and with
 * the static one the linker would find them defined twice. */
#ifndef HAKMEM_NEW_HPP
#define HAKMEM_NEW_HPP

#include <new>

#include "hakmem.hpp"

namespace hakmem {
namespace detail {

/* As [new.delete.single] requires: calls the new handler and tries again while there is one. */
inline void *operator_new(std::size_t size, std::size_t alignment) {
    for (;;) {
        void *block = try_allocate(size, alignment);
        if (block) return block;
        std::new_handler handler = std::get_new_handler();
        if (!handler) throw_bad_alloc();
        handler();
    }
}

/* The handler may throw; then there is no block. */
inline void *operator_new_nothrow(std::size_t size, std::size_t alignment) noexcept {
#if defined(__cpp_exceptions)
    try {
        return operator_new(size, alignment);
    } catch (...) {
        return nullptr;
    }
#else
    return try_allocate(size, alignment);
#endif
}

} // namespace detail
} // namespace hakmem

/* C++11 has no sized delete, and clang declares it on demand only; code that was compiled otherwise may call it. */
#if !defined(__cpp_sized_deallocation)
void operator delete(void *block, std::size_t size) noexcept;
void operator delete[](void *block, std::size_t size) noexcept;
#if defined(__cpp_aligned_new)
void operator delete(void *block, std::size_t size, std::align_val_t alignment) noexcept;
void operator delete[](void *block, std::size_t size, std::align_val_t alignment) noexcept;
#endif
#endif

/* A plain operator new does not know of an alignment; blocks have that of any fundamental type. */
#define HAKMEM_PLAIN 8

void *operator new(std::size_t size) { return hakmem::detail::operator_new(size, HAKMEM_PLAIN); }
void *operator new[](std::size_t size) { return hakmem::detail::operator_new(size, HAKMEM_PLAIN); }
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return hakmem::detail::operator_new_nothrow(size, HAKMEM_PLAIN);
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
    return hakmem::detail::operator_new_nothrow(size, HAKMEM_PLAIN);
}
void operator delete(void *block) noexcept { hakmem_free(block); }
void operator delete[](void *block) noexcept { hakmem_free(block); }
void operator delete(void *block, const std::nothrow_t &) noexcept { hakmem_free(block); }
void operator delete[](void *block, const std::nothrow_t &) noexcept { hakmem_free(block); }
void operator delete(void *block, std::size_t size) noexcept { hakmem_free_sized(block, size); }
void operator delete[](void *block, std::size_t size) noexcept { hakmem_free_sized(block, size); }

#undef HAKMEM_PLAIN

#if defined(__cpp_aligned_new)

void *operator new(std::size_t size, std::align_val_t alignment) {
    return hakmem::detail::operator_new(size, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t size, std::align_val_t alignment) {
    return hakmem::detail::operator_new(size, static_cast<std::size_t>(alignment));
}
void *operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
    return hakmem::detail::operator_new_nothrow(size, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t size, std::align_val_t alignment,
                     const std::nothrow_t &) noexcept {
    return hakmem::detail::operator_new_nothrow(size, static_cast<std::size_t>(alignment));
}
void operator delete(void *block, std::align_val_t) noexcept { hakmem_free(block); }
void operator delete[](void *block, std::align_val_t) noexcept { hakmem_free(block); }
void operator delete(void *block, std::align_val_t, const std::nothrow_t &) noexcept {
    hakmem_free(block);
}
void operator delete[](void *block, std::align_val_t, const std::nothrow_t &) noexcept {
    hakmem_free(block);
}
void operator delete(void *block, std::size_t size, std::align_val_t alignment) noexcept {
    hakmem::detail::release(block, size, static_cast<std::size_t>(alignment));
}
void operator delete[](void *block, std::size_t size, std::align_val_t alignment) noexcept {
    hakmem::detail::release(block, size, static_cast<std::size_t>(alignment));
}

#endif

#endif
