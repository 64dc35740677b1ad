/* plugin.cpp - the library of plugin_new.c: it asks for too much and catches the exception. */
#include <cstddef>
#include <new>

extern "C" int catch_bad_alloc();

int catch_bad_alloc() {
    volatile std::size_t huge = std::size_t{1} << 62;
    try {
        char *volatile block = new char[huge];
        delete[] block;
        return 0;
    } catch (const std::bad_alloc &) {
        return 42;
    }
}
