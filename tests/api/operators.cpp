/* operators.cpp - every replaceable form of operator new and delete, after [new.delete] of C++20. */
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <stdexcept>
#include <vector>

extern "C" {
/* check.h says _Noreturn, which C++ spells otherwise. */
#define _Noreturn [[noreturn]]
#include "alloc_names.h"
#include "check.h"
#undef _Noreturn
}

namespace {

const std::size_t sizes[] = {0,   1,    8,    9,    16,   24,    64,    100,   256,     512,
                             777, 1024, 2048, 2049, 4096, 14336, 65536, 65537, 1 << 20, 3000000};
const std::size_t alignments[] = {1, 8, 16, 32, 64, 128, 1024, 4096, 65536, 1 << 20};

/* Sizes that nothing can serve; volatile, or the compiler would refuse them. */
volatile std::size_t absurd_sizes[] = {SIZE_MAX, SIZE_MAX - 64, SIZE_MAX / 2 + 1, SIZE_MAX / 2};

void check_block(void *block, std::size_t size, std::size_t alignment, const char *form) {
    CHECK(block != nullptr, "%s of %zu bytes gave null", form, size);
    std::uintptr_t place = reinterpret_cast<std::uintptr_t>(block);
    CHECK(place % alignment == 0, "%s of %zu bytes is not at a multiple of %zu", form, size,
          alignment);
    CHECK(place % (size > 8 ? 16 : 8) == 0, "%s of %zu bytes is misaligned", form, size);
    CHECK(malloc_usable_size(block) >= size, "%s of %zu bytes is too short", form, size);
    std::memset(block, 0x77, size);
}

void plain_forms() {
    for (std::size_t size : sizes) {
        void *blocks[8];
        for (int i = 0; i < 8; i += 4) {
            blocks[i] = ::operator new(size);
            blocks[i + 1] = ::operator new[](size);
            blocks[i + 2] = ::operator new(size, std::nothrow);
            blocks[i + 3] = ::operator new[](size, std::nothrow);
        }
        for (void *block : blocks) check_block(block, size, 1, "operator new");
        ::operator delete(blocks[0]);
        ::operator delete[](blocks[1]);
        ::operator delete(blocks[2], std::nothrow);
        ::operator delete[](blocks[3], std::nothrow);
        ::operator delete(blocks[4], size);
        ::operator delete[](blocks[5], size);
        ::operator delete(blocks[6], size);
        ::operator delete[](blocks[7], size);
    }
}

void aligned_forms() {
    for (std::size_t size : sizes)
        for (std::size_t alignment : alignments) {
            std::align_val_t at{alignment};
            void *blocks[8];
            for (int i = 0; i < 8; i += 4) {
                blocks[i] = ::operator new(size, at);
                blocks[i + 1] = ::operator new[](size, at);
                blocks[i + 2] = ::operator new(size, at, std::nothrow);
                blocks[i + 3] = ::operator new[](size, at, std::nothrow);
            }
            for (void *block : blocks) check_block(block, size, alignment, "aligned operator new");
            ::operator delete(blocks[0], at);
            ::operator delete[](blocks[1], at);
            ::operator delete(blocks[2], at, std::nothrow);
            ::operator delete[](blocks[3], at, std::nothrow);
            ::operator delete(blocks[4], size, at);
            ::operator delete[](blocks[5], size, at);
            ::operator delete(blocks[6], size, at);
            ::operator delete[](blocks[7], size, at);
        }
}

void delete_of_null_does_nothing() {
    std::align_val_t at{64};
    void *none = nullptr;
    ::operator delete(none);
    ::operator delete[](none);
    ::operator delete(none, std::nothrow);
    ::operator delete[](none, std::nothrow);
    ::operator delete(none, 10);
    ::operator delete[](none, 10);
    ::operator delete(none, at);
    ::operator delete[](none, at);
    ::operator delete(none, at, std::nothrow);
    ::operator delete[](none, at, std::nothrow);
    ::operator delete(none, 10, at);
    ::operator delete[](none, 10, at);
}

/* Results go here, so that no call can be optimised away. */
void *volatile sink;

template <typename Function> bool throws_bad_alloc(Function function) {
    try {
        function();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

void absurd_sizes_throw() {
    std::align_val_t at{64};
    for (volatile std::size_t &volatile_size : absurd_sizes) {
        std::size_t size = volatile_size;
        CHECK(throws_bad_alloc([&] { sink = ::operator new(size); }), "new(%zu) did not throw",
              size);
        CHECK(throws_bad_alloc([&] { sink = ::operator new[](size); }), "new[](%zu) did not throw",
              size);
        CHECK(throws_bad_alloc([&] { sink = ::operator new(size, at); }),
              "aligned new(%zu) did not throw", size);
        CHECK(throws_bad_alloc([&] { sink = ::operator new[](size, at); }),
              "aligned new[](%zu) did not throw", size);
        CHECK(::operator new(size, std::nothrow) == nullptr, "nothrow new(%zu) is not null", size);
        CHECK(::operator new[](size, std::nothrow) == nullptr, "nothrow new[](%zu) is not null",
              size);
        CHECK(::operator new(size, at, std::nothrow) == nullptr, "nothrow aligned new(%zu)", size);
        CHECK(::operator new[](size, at, std::nothrow) == nullptr, "nothrow aligned new[](%zu)",
              size);
    }
}

int handler_calls;

/* Gives up at the third call, as a handler does that has nothing left to release. */
void counting_handler() {
    if (++handler_calls == 3) std::set_new_handler(nullptr);
}

void throwing_handler() {
    handler_calls++;
    throw std::bad_alloc();
}

void new_handler_is_called() {
    std::size_t size = absurd_sizes[0];
    handler_calls = 0;
    std::set_new_handler(counting_handler);
    CHECK(throws_bad_alloc([&] { sink = ::operator new(size); }), "no throw after the handler");
    CHECK(handler_calls == 3, "the new handler was called %d times, not 3", handler_calls);

    handler_calls = 0;
    std::set_new_handler(counting_handler);
    CHECK(::operator new(size, std::nothrow) == nullptr, "nothrow new did not give null");
    CHECK(handler_calls == 3, "nothrow new called the handler %d times, not 3", handler_calls);

    handler_calls = 0;
    std::set_new_handler(throwing_handler);
    CHECK(throws_bad_alloc([&] { sink = ::operator new[](size, std::align_val_t{64}); }),
          "what the handler throws does not come out of new");
    CHECK(::operator new(size, std::nothrow) == nullptr,
          "nothrow new did not turn the handler's throw into null");
    CHECK(handler_calls == 2, "the throwing handler was called %d times, not 2", handler_calls);
    std::set_new_handler(nullptr);
}

struct throws_when_made {
    char room[1000];
    throws_when_made() { throw std::runtime_error("expected"); }
};

void constructor_that_throws_gives_its_memory_back() {
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 10000; i++) {
        try {
            delete new throws_when_made;
        } catch (const std::runtime_error &) {
        }
    }
    struct mallinfo2 after = mallinfo2();
    CHECK(after.uordblks < before.uordblks + 100000, "%zu bytes leaked by throwing constructors",
          after.uordblks - before.uordblks);
}

void forms_are_ours() {
    /* libstdc++'s forms would work too, through malloc; ours must take their place: those of the
     * library, or those that hakmem_new.hpp puts into the program. */
    static const char *const names[] = {
        "_Znwm",   "_Znam",   "_ZnwmRKSt9nothrow_t",   "_ZnwmSt11align_val_t",  "_ZdlPv", "_ZdaPv",
        "_ZdlPvm", "_ZdaPvm", "_ZdlPvSt11align_val_t", "_ZdlPvmSt11align_val_t"};
#if defined(OPERATORS_OF_PROGRAM)
    const char *neighbour = "main";
#else
    const char *neighbour = "malloc";
#endif
    Dl_info ours;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, neighbour), &ours) != 0, "%s has no address", neighbour);
    for (const char *name : names) {
        Dl_info info;
        void *address = dlsym(RTLD_DEFAULT, name);
        CHECK(address != nullptr && dladdr(address, &info) != 0, "no symbol %s", name);
        CHECK(info.dli_fbase == ours.dli_fbase, "%s comes from %s", name, info.dli_fname);
    }
}

void containers_work() {
    struct alignas(256) wide {
        char bytes[300];
    };
    std::vector<wide> list;
    for (int i = 0; i < 2000; i++) list.emplace_back();
    CHECK(reinterpret_cast<std::uintptr_t>(list.data()) % 256 == 0, "a vector is misaligned");
}

} // namespace

int main() {
    watchdog(120, "C++ operators");
    require_hakmem();
    plain_forms();
    aligned_forms();
    delete_of_null_does_nothing();
    absurd_sizes_throw();
    new_handler_is_called();
    constructor_that_throws_gives_its_memory_back();
    forms_are_ours();
    containers_work();
    return 0;
}
