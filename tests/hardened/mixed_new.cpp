/* mixed_new.cpp - a block of malloc is freed by operator delete: a mistake, unless a library has operators of its own.
 *
 *     mixed_new LIBRARY
 *
 * The library is own_new.cpp. This program has the shared C++ runtime, whose operators are no reason: it calls those of
 * HAKMEM, too. */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>
#include <sys/wait.h>

extern "C" {
/* check.h says _Noreturn, which C++ spells otherwise. */
#define _Noreturn [[noreturn]]
#include "check.h"
#include "child.h"
#include "proc.h"
#undef _Noreturn
}

namespace {

void delete_malloced(const void *) {
    proc_no_core_files();
    void *volatile block = std::malloc(24); /* else the compiler objects */
    ::operator delete(block);
}

void free_new(const void *) {
    proc_no_core_files();
    void *volatile block = ::operator new(24);
    std::free(block);
}

void *own(void *library, const char *name) {
    void *function = dlsym(library, name);
    CHECK(function != nullptr, "the library has no %s", name);
    return function;
}

void use_library(const void *path) {
    proc_no_core_files();
    void *library = dlopen(static_cast<const char *>(path), RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr, "dlopen: %s", dlerror());
    auto make = reinterpret_cast<long *(*)()>(own(library, "own_make"));
    auto drop = reinterpret_cast<void (*)(long *)>(own(library, "own_drop"));
    for (int i = 0; i < 100; i++) {
        long *number = make();
        CHECK(*number == 7, "a number became %ld", *number);
        delete number;
        drop(new long(8));
        drop(make());
    }
}

/* Mistakes that no library explains. */
void misuse_beside_library(const void *path) {
    use_library(path);
    void *volatile array = ::operator new[](24); /* else the compiler objects */
    ::operator delete(array);
}

void say_wrong_size(const void *path) {
    use_library(path);
    void *volatile block = std::malloc(24);
    ::operator delete(block, 25);
}

void must_report(void (*body)(const void *), const void *context, const char *what,
                 const char *line = "wrong function") {
    child_end end;
    child_run(body, context, 20, &end);
    CHECK(WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGABRT, "%s: status %x", what,
          static_cast<unsigned>(end.status));
    CHECK(std::strstr(end.err, line) != nullptr, "%s: '%s'", what, end.err);
}

} // namespace

int main(int argc, char **argv) {
    CHECK(argc > 1, "usage: mixed_new LIBRARY");
    watchdog(100, "blocks of other operators");
    must_report(delete_malloced, nullptr, "delete of a block of malloc");
    must_report(free_new, nullptr, "free of a block of new");
    child_must_succeed(use_library, argv[1], 20, "a library with its own operators");
    must_report(misuse_beside_library, argv[1], "delete of a block of new[]");
    must_report(say_wrong_size, argv[1], "delete of a block of malloc, and of another size",
                "wrong size");
    return 0;
}
