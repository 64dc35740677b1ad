/* containers.cpp - hakmem.hpp after [allocator.requirements] and [mem.res]: containers of both kinds.
 *
 * It runs with HAKMEM_HDR_LIGHT=1, so a block of 2 KiB and more that goes back with another size than
 * it was requested with ends the test. */
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "hakmem.hpp"

extern "C" {
/* check.h says _Noreturn, which C++ spells otherwise. */
#define _Noreturn [[noreturn]]
#include "check.h"
#undef _Noreturn
}

namespace {

template <typename T> using hak_vector = std::vector<T, hakmem::allocator<T>>;

struct alignas(256) wide {
    unsigned char bytes[256];
};

std::uint64_t figure(const char *name) {
    std::uint64_t value = 0;
    CHECK(hakmem_stats_get(name, &value) == 0, "there is no figure %s", name);
    return value;
}

std::uint64_t live_bytes() { return figure("total.live_bytes"); }

bool is_aligned(const void *block, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

void container_contents() {
    std::uint64_t before = live_bytes();
    {
        hak_vector<int> numbers;
        for (int i = 0; i < 100000; i++) numbers.push_back(i);
        for (int i = 0; i < 100000; i++) CHECK(numbers[i] == i, "number %d is %d", i, numbers[i]);
        CHECK(live_bytes() >= before + 100000 * sizeof(int), "the vector is not in the heap");

        /* Both rebind the allocator to their nodes. */
        std::map<int, int, std::less<int>, hakmem::allocator<std::pair<const int, int>>> squares;
        std::list<double, hakmem::allocator<double>> halves;
        for (int i = 0; i < 1000; i++) {
            squares[i] = i * i;
            halves.push_back(i / 2.0);
        }
        CHECK(squares[999] == 998001 && halves.back() == 499.5, "a node has changed");

        auto shared = std::allocate_shared<std::string>(hakmem::allocator<std::string>(), "here");
        CHECK(*shared == "here", "the shared string has changed");
    }
    CHECK(live_bytes() == before, "%llu bytes more are alive after all containers are gone",
          static_cast<unsigned long long>(live_bytes() - before));
}

void every_alignment() {
    hak_vector<wide> wides(5);
    CHECK(is_aligned(wides.data(), alignof(wide)), "a vector of alignment 256 is misaligned");
    hak_vector<long double> longs(1);
    CHECK(is_aligned(longs.data(), alignof(long double)), "a long double is misaligned");
}

void allocators_are_equal() {
    hakmem::allocator<int> one;
    hakmem::allocator<double> other(one);
    CHECK(one == other && !(one != other), "two allocators differ");
    using traits = std::allocator_traits<hakmem::allocator<int>>;
    static_assert(traits::is_always_equal::value, "containers may swap their blocks");
    int *block = one.allocate(3);
    hakmem::allocator<int>(other).deallocate(block, 3);
}

/* Counts that overflow, and counts that nothing can serve; volatile, or the compiler warns. */
void too_much_throws() {
    volatile std::size_t counts[] = {SIZE_MAX, SIZE_MAX / sizeof(wide) + 1,
                                     PTRDIFF_MAX / sizeof(wide) + 1, PTRDIFF_MAX / sizeof(wide)};
    for (volatile std::size_t &count : counts) {
        bool thrown = false;
        try {
            hakmem::allocator<wide>().deallocate(hakmem::allocator<wide>().allocate(count), count);
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        CHECK(thrown, "%zu objects of 256 bytes were allocated", static_cast<std::size_t>(count));
    }
}

void heap_contents() {
    std::uint64_t before = live_bytes();
    hakmem::heap heap, other;
    CHECK(heap.handle() != other.handle() && heap.stat().blocks == 0, "a heap is not new");
    using numbers_t = std::vector<int, hakmem::heap_allocator<int>>;
    numbers_t numbers(heap), copies(other);
    for (int i = 0; i < 100000; i++) numbers.push_back(i);
    copies = numbers;
    CHECK(hakmem_heap_of(numbers.data()) == heap.handle(), "the vector is not in its heap");
    CHECK(hakmem_heap_of(copies.data()) == other.handle(), "a copy left its heap");
    copies = numbers_t(numbers);
    CHECK(hakmem_heap_of(copies.data()) == heap.handle(), "what was moved is not where it was");
    CHECK(numbers.get_allocator() == copies.get_allocator() &&
              numbers.get_allocator() != hakmem::heap_allocator<double>(other),
          "allocators of one heap differ, or those of two are equal");
    {
        std::map<int, int, std::less<int>, hakmem::heap_allocator<std::pair<const int, int>>>
            squares(std::less<int>(), other);
        for (int i = 0; i < 1000; i++) squares[i] = i * i;
        CHECK(other.stat().blocks == 1000 && squares[999] == 998001, "nodes are not in the heap");
    }
    CHECK(other.stat().blocks == 0, "a node stays alive");
    std::vector<wide, hakmem::heap_allocator<wide>> wides(5, other);
    CHECK(is_aligned(wides.data(), alignof(wide)), "a vector of alignment 256 is misaligned");
    CHECK(live_bytes() > before + 2 * 100000 * sizeof(int), "the statistics lack the heaps");
}

void heap_is_moved_limited_and_emptied() {
    std::uint64_t before = live_bytes();
    {
        hakmem::heap one(1 << 20), two;
        void *block = one.allocate(1000);
        two = std::move(one);
        hakmem::heap three(std::move(two));
        CHECK(hakmem_heap_of(block) == three.handle() && three.stat().limit == 1 << 20,
              "a heap that was moved is another one");
        CHECK(!three.try_allocate(2 << 20), "a block beyond the limit");
        bool thrown = false;
        try {
            hakmem::heap::deallocate(three.allocate(2 << 20), 2 << 20);
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        CHECK(thrown, "a refused request does not throw");
        three.set_limit(0);
        CHECK(is_aligned(three.allocate(2 << 20, 4096), 4096), "a misaligned block");
        three.free_all();
        CHECK(three.stat().committed_bytes == 0, "memory is left after free_all");
        hakmem::heap::deallocate(three.allocate(100, 64), 100, 64);
        CHECK(three.stat().blocks == 0 && three.try_allocate(5), "no block after free_all");
    }
    CHECK(live_bytes() == before && !hakmem_heap_next(nullptr), "a heap stays alive");
}

#if defined(__cpp_lib_memory_resource)

void heap_resource_containers() {
    hakmem::heap heap, other;
    hakmem::heap_resource resource(heap), same(heap), different(other);
    CHECK(resource == same && resource != different && resource != *hakmem::get_resource(),
          "resources are equal where they should not be, or the other way round");
    std::pmr::vector<std::pmr::string> words(&resource);
    for (int i = 0; i < 1000; i++) words.emplace_back(std::to_string(i) + std::string(100, 'x'));
    CHECK(heap.stat().blocks == 1001 && words[999].compare(0, 4, "999x") == 0,
          "strings are not in the heap, or have changed");
    for (std::size_t size : {0, 1, 8, 9, 100, 3000, 70000, 3000000})
        for (std::size_t alignment = 1; alignment <= 8192; alignment *= 2) {
            void *block = different.allocate(size, alignment);
            CHECK(is_aligned(block, alignment), "%zu bytes are not at a multiple of %zu", size,
                  alignment);
            different.deallocate(block, size, alignment);
        }
    CHECK(other.stat().blocks == 0, "a block of the resource stays alive");
}

void resource_blocks() {
    std::pmr::memory_resource *resource = hakmem::get_resource();
    std::uint64_t before = live_bytes();
    for (std::size_t size : {0, 1, 8, 9, 100, 3000, 70000, 3000000})
        for (std::size_t alignment = 1; alignment <= 8192; alignment *= 2) {
            void *block = resource->allocate(size, alignment);
            CHECK(is_aligned(block, alignment), "%zu bytes are not at a multiple of %zu", size,
                  alignment);
            CHECK(hakmem_malloc_usable_size(block) >= size, "%zu bytes are too few", size);
            resource->deallocate(block, size, alignment);
        }
    CHECK(live_bytes() == before, "a block of the resource stays alive");
}

void resource_containers() {
    hakmem::memory_resource own;
    CHECK(own == *hakmem::get_resource(), "two resources differ");
    CHECK(own != *std::pmr::new_delete_resource(), "the resource equals that of operator new");
    std::pmr::vector<std::pmr::string> words(&own);
    for (int i = 0; i < 1000; i++) words.emplace_back(std::to_string(i) + std::string(100, 'x'));
    CHECK(words[999].get_allocator().resource() == &own, "a string uses another resource");
    CHECK(words[999].compare(0, 4, "999x") == 0, "a string has changed");
    std::pmr::monotonic_buffer_resource buffer(&own);
    std::pmr::list<int> list(1000, 7, &buffer);
    CHECK(list.size() == 1000, "the list lost elements");
}

#else
#error "the tests need <memory_resource>"
#endif

} // namespace

int main() {
    container_contents();
    every_alignment();
    allocators_are_equal();
    too_much_throws();
    heap_contents();
    heap_is_moved_limited_and_emptied();
    heap_resource_containers();
    resource_blocks();
    resource_containers();
}
