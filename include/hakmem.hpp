/* hakmem.hpp - HAKMEM for C++ containers: allocators (C++11), memory resources (C++17), and heaps of the
 * program's own.
 *
 * SPDX-License-Identifier: MIT
 *
 * A program that is linked with libhakmem, or runs with it preloaded, allocates from it with every
 * plain container already. This header is for programs that ask for it by name: when the library is
 * built with HAKMEM_PREFIXED_ONLY, or when only some containers are to use it.
 *
 *     std::vector<int, hakmem::allocator<int>> numbers;
 *     std::pmr::string text("...", hakmem::get_resource());
 *
 *     hakmem::heap heap(64 << 20);                                      // at most 64 MiB
 *     std::vector<int, hakmem::heap_allocator<int>> others(heap);
 *     hakmem::heap_resource resource(heap);
 *     std::pmr::string words("...", &resource);
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

inline void *try_allocate_in(hakmem_heap_t *heap, std::size_t size,
                             std::size_t alignment) noexcept {
    return is_plain(size, alignment) ? hakmem_heap_malloc(heap, size)
                                     : hakmem_heap_aligned_alloc(heap, alignment, size);
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
    HAKMEM_ATTR((__warn_unused_result__)) T *allocate(std::size_t count) {
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

/* A heap of the program's own (hakmem_heap_new in hakmem.h). The heap is destroyed with this
 * object; its blocks, and containers that still hold any, must not be used after that. The object
 * can be moved, not copied: move construction leaves the source without a heap, move assignment
 * swaps the two heaps. Any thread may call the functions, as hakmem.h says. */
class heap {
    hakmem_heap_t *handle_;

  public:
    /* At most `limit` bytes of memory, 0 for no limit. Throws std::bad_alloc. */
    explicit heap(std::size_t limit = 0) : handle_(hakmem_heap_new(limit)) {
        if (!handle_) detail::throw_bad_alloc();
    }
    heap(heap &&other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
    heap &operator=(heap &&other) noexcept {
        hakmem_heap_t *mine = handle_;
        handle_ = other.handle_;
        other.handle_ = mine;
        return *this;
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    ~heap() { hakmem_heap_destroy(handle_); }

    hakmem_heap_t *handle() const noexcept { return handle_; }

    /* Memory at a multiple of alignment, a power of two. The first throws std::bad_alloc, the
     * second returns a null pointer. The memory is freed by deallocate, hakmem_free or free. */
    HAKMEM_ATTR((__warn_unused_result__))
    void *allocate(std::size_t size, std::size_t alignment = 16) {
        void *block = try_allocate(size, alignment);
        if (!block) detail::throw_bad_alloc();
        return block;
    }
    HAKMEM_ATTR((__warn_unused_result__))
    void *try_allocate(std::size_t size, std::size_t alignment = 16) noexcept {
        return detail::try_allocate_in(handle_, size, alignment);
    }

    /* size and alignment are those of the request. */
    static void deallocate(void *block, std::size_t size, std::size_t alignment = 16) noexcept {
        detail::release(block, size, alignment);
    }

    /* Frees all blocks at once; no destructor runs. */
    void free_all() noexcept { hakmem_heap_free_all(handle_); }

    void set_limit(std::size_t limit) noexcept { hakmem_heap_set_limit(handle_, limit); }

    /* All 0 for an object without a heap. */
    hakmem_heap_stat stat() const noexcept {
        hakmem_heap_stat found = hakmem_heap_stat();
        hakmem_heap_stats(handle_, &found, sizeof found);
        return found;
    }
};

/* An Allocator over a heap, which must outlive it. Two are equal if they have the same heap. It
 * moves with the contents when containers are moved or swapped; copy assignment does not change
 * it. */
template <typename T> class heap_allocator {
    hakmem_heap_t *handle_;

  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;
    using is_always_equal = std::false_type;

    heap_allocator(const heap &of) noexcept : handle_(of.handle()) {}
    template <typename U>
    heap_allocator(const heap_allocator<U> &other) noexcept : handle_(other.handle()) {}

    hakmem_heap_t *handle() const noexcept { return handle_; }

    /* Memory for count objects. */
    HAKMEM_ATTR((__warn_unused_result__)) T *allocate(std::size_t count) {
        if (count > PTRDIFF_MAX / sizeof(T)) detail::throw_bad_alloc();
        void *block = detail::try_allocate_in(handle_, count * sizeof(T), alignof(T));
        if (!block) detail::throw_bad_alloc();
        return static_cast<T *>(block);
    }

    /* block is from allocate with the same count. */
    void deallocate(T *block, std::size_t count) noexcept {
        detail::release(block, count * sizeof(T), alignof(T));
    }
};

template <typename T, typename U>
bool operator==(const heap_allocator<T> &one, const heap_allocator<U> &other) noexcept {
    return one.handle() == other.handle();
}

template <typename T, typename U>
bool operator!=(const heap_allocator<T> &one, const heap_allocator<U> &other) noexcept {
    return !(one == other);
}

#if defined(__cpp_lib_memory_resource)

/* A memory resource over a heap, which must outlive it. Two are equal if they have the same
 * heap; with -fno-rtti, which cannot tell what another resource is, one equals only itself. */
class heap_resource : public std::pmr::memory_resource {
    hakmem_heap_t *handle_;

    void *do_allocate(std::size_t size, std::size_t alignment) override {
        void *block = detail::try_allocate_in(handle_, size, alignment);
        if (!block) detail::throw_bad_alloc();
        return block;
    }
    void do_deallocate(void *block, std::size_t size, std::size_t alignment) override {
        detail::release(block, size, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#if defined(__cpp_rtti)
        const heap_resource *same = dynamic_cast<const heap_resource *>(&other);
        return same && same->handle_ == handle_;
#else
        return this == &other;
#endif
    }

  public:
    explicit heap_resource(const heap &of) noexcept : handle_(of.handle()) {}
    heap_resource(const heap_resource &) = default;
    heap_resource &operator=(const heap_resource &) = default;
};

/* The memory resource of the C++ standard: [mem.res.class]. All of them are equal;
 * with -fno-rtti one equals only itself. */
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

/* The resource of the program. It is never destroyed, so containers with static storage may use
 * it. */
inline std::pmr::memory_resource *get_resource() noexcept {
    alignas(memory_resource) static unsigned char place[sizeof(memory_resource)];
    static memory_resource *const resource = new (place) memory_resource;
    return resource;
}

#endif

} // namespace hakmem

#endif
