/* hakmem.hpp - HAKMEM for C++ containers: an allocator (C++11), and a memory resource (C++17).
 *
 * SPDX-License-Identifier: MIT
 *
 * A program that is linked with libhakmem, or runs with it preloaded, allocates from it with every
 * plain container already. This header is for programs that ask for it by name: where the library is
 * built with HAKMEM_PREFIXED_ONLY, or where only some containers shall use it.
 *
 *     std::vector<int, hakmem::allocator<int>> numbers;
 *     std::pmr::string text("...", hakmem::get_resource());
 *
 * hakmem_new.hpp makes operator new and operator delete of a program use the library. */
#ifndef HAKMEM_HPP
#define HAKMEM_HPP

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include "hakmem.h"

#if __cplusplus >= 201703L && defined(__has_include)
#if __has_include(<memory_resource>)
#include <memory_resource>
#endif
#endif

namespace hakmem {

namespace detail {

/* What the C functions promise: 8 for a block of up to 8 bytes, 16 for a larger one. */
inline bool is_plain(std::size_t size, std::size_t alignment) noexcept {
    return alignment <= 8 || (alignment <= 16 && size > 8);
}

inline void *try_allocate(std::size_t size, std::size_t alignment) noexcept {
    return is_plain(size, alignment) ? hakmem_malloc(size) : hakmem_aligned_alloc(alignment, size);
}

[[noreturn]] inline void throw_bad_alloc() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    __builtin_trap();
#endif
}

inline void *allocate(std::size_t size, std::size_t alignment) {
    void *block = try_allocate(size, alignment);
    if (!block) throw_bad_alloc();
    return block;
}

/* size and alignment are those of the request. */
inline void release(void *block, std::size_t size, std::size_t alignment) noexcept {
    if (is_plain(size, alignment))
        hakmem_free_sized(block, size);
    else
        hakmem_free_aligned_sized(block, alignment, size);
}

} // namespace detail

/* The Allocator of the C++ standard: [allocator.requirements]. It has no state: any two are equal. A
 * request that cannot be served throws std::bad_alloc; without exceptions the program ends. */
template <typename T> class allocator {
  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using is_always_equal = std::true_type;

    allocator() noexcept = default;
    template <typename U> allocator(const allocator<U> &) noexcept {}

    /* Memory for count objects. */
    HAKMEM_ATTR(warn_unused_result) T *allocate(std::size_t count) {
        if (count > PTRDIFF_MAX / sizeof(T)) detail::throw_bad_alloc();
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
    }

    /* block is from allocate with the same count. */
    void deallocate(T *block, std::size_t count) noexcept {
        detail::release(block, count * sizeof(T), alignof(T));
    }
};

template <typename T, typename U>
bool operator==(const allocator<T> &, const allocator<U> &) noexcept {
    return true;
}

template <typename T, typename U>
bool operator!=(const allocator<T> &, const allocator<U> &) noexcept {
    return false;
}

#if defined(__cpp_lib_memory_resource)

/* The memory resource of the C++ standard: [mem.res.class]. All of them are equal. */
class memory_resource : public std::pmr::memory_resource {
    void *do_allocate(std::size_t size, std::size_t alignment) override {
        return detail::allocate(size, alignment);
    }
    void do_deallocate(void *block, std::size_t size, std::size_t alignment) override {
        detail::release(block, size, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
        return dynamic_cast<const memory_resource *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};

/* The one of the program. It is never destroyed, so containers with static storage may use it. */
inline std::pmr::memory_resource *get_resource() noexcept {
    alignas(memory_resource) static unsigned char place[sizeof(memory_resource)];
    static memory_resource *const resource = new (place) memory_resource;
    return resource;
}

#endif

} // namespace hakmem

#endif
