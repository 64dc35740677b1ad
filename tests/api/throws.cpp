/* throws.cpp - a failing operator new in programs that link as little of the C++ runtime as possible.
 *
 * The names that a program uses decide what a static runtime contains. So each KIND is its own program
 * and uses only what it needs. Each is linked in every way; see CMakeLists.txt.
 *
 *   TYPED    catches std::bad_alloc
 *   ANY      catches whatever comes, and names no type
 *   BASE     catches std::exception, and asks what it is
 *   HANDLER  sets a new-handler: one that frees memory, one that throws; plain and nothrow forms */
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#if defined(KIND_BASE)
#include <exception>
#endif
#include <unistd.h>

#if defined(PRELOADED)
#include <dlfcn.h>
static bool is_served() { return dlsym(RTLD_DEFAULT, "hakmem_version") != nullptr; }
#else
extern "C" int hakmem_version();
static bool is_served() { return hakmem_version() > 0; }
#endif

namespace {

/* No program can have that much; volatile, or the compiler would refuse it. */
volatile std::size_t too_much = std::size_t{1} << 62;

/* No stream and no string: those would bring more of the runtime. */
void must(bool fact, const char *text) {
    if (fact) return;
    if (write(STDERR_FILENO, "FAIL: ", 6) + write(STDERR_FILENO, text, std::strlen(text)) +
            write(STDERR_FILENO, "\n", 1) <
        0)
        std::abort();
    _exit(1);
}

struct noted {
    int *count;
    ~noted() { ++*count; }
};

#if defined(KIND_TYPED)
bool is_caught() {
    try {
        char *volatile block = new char[too_much];
        delete[] block;
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}
#elif defined(KIND_ANY)
bool is_caught() {
    try {
        char *volatile block = new char[too_much];
        delete[] block;
    } catch (...) {
        return true;
    }
    return false;
}
#elif defined(KIND_BASE)
bool is_caught() {
    try {
        void *volatile block = ::operator new(too_much, std::align_val_t{64});
        ::operator delete(block, std::align_val_t{64});
    } catch (const std::exception &exception) {
        return std::strcmp(exception.what(), "std::bad_alloc") == 0;
    }
    return false;
}
#elif defined(KIND_HANDLER)
int handler_calls;

void gives_up_at_third() {
    if (++handler_calls == 3) std::set_new_handler(nullptr);
}

void throws() {
    handler_calls++;
    throw 7;
}

bool is_caught() {
    int destroyed = 0;
    std::set_new_handler(gives_up_at_third);
    char *volatile block = new (std::nothrow) char[too_much];
    must(!block && handler_calls == 3, "nothrow new does not call a handler until there is none");
    std::set_new_handler(throws);
    for (int i = 1; i <= 3; i++) {
        const noted note{&destroyed};
        block = static_cast<char *>(::operator new(too_much, std::nothrow));
        must(!block && handler_calls == 3 + i, "nothrow new lets a handler's exception out");
        block = static_cast<char *>(::operator new(too_much, std::align_val_t{128}, std::nothrow));
        must(!block && handler_calls-- == 4 + i, "aligned nothrow new lets one out");
    }
    must(destroyed == 3, "a frame was left out");
    try {
        const noted note{&destroyed};
        block = new char[too_much];
    } catch (int number) {
        return number == 7 && destroyed == 4 && handler_calls == 7;
    }
    return false;
}
#endif

bool frames_are_left() {
    int destroyed = 0;
#if !defined(KIND_HANDLER)
    try {
        const noted note{&destroyed};
        char *volatile block = new char[too_much];
        delete[] block;
    } catch (...) {
    }
    return destroyed == 1;
#else
    return destroyed == 0;
#endif
}

} // namespace

int main() {
    must(is_served(), "HAKMEM does not serve this program");
    for (int i = 0; i < 3; i++) {
#if defined(KIND_HANDLER)
        handler_calls = 0;
#endif
        must(is_caught(), "std::bad_alloc was not caught");
        must(frames_are_left(), "a destructor was not called");
    }
    char *volatile block = new char[100];
    delete[] block;
    return 0;
}
